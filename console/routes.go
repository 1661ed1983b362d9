package console

import (
	"net/http"
	"strings"
)

// routes returns the handler of all paths, without the Access.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.page.index)
	mux.HandleFunc("GET /assets/{file...}", c.page.asset)
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("GET /api/snapshot", c.snapshot)
	mux.HandleFunc("GET /api/units/{unit...}", c.unit)
	mux.HandleFunc("GET /api/hot", c.hot)
	if c.o.Roster != nil {
		mux.HandleFunc("GET /api/fleet", c.fleet)
	}
	purge := c.o.Source.Abilities().Purge
	switch {
	case c.o.Purge != nil:
		mux.Handle("/api/purge", others(c.o.Purge))
	case purge != nil:
		mux.HandleFunc("/api/purge", c.purge(purge))
	}
	if c.o.Explain != nil {
		mux.Handle("/api/explain", others(c.o.Explain))
	}
	if c.o.Idempotency != nil {
		mux.Handle("/api/idempotency", others(c.o.Idempotency))
	}
	if c.o.Jobs != nil {
		mux.Handle("/api/jobs", others(c.o.Jobs))
		mux.Handle("/api/jobs/", others(c.o.Jobs))
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "no such console page")
	})
	return mux
}

// others adapts an external handler: it removes /api from the path.
func others(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, at(r, strings.TrimPrefix(r.URL.Path, "/api"), strings.TrimPrefix(r.URL.RawPath, "/api")))
	})
}

// features returns which pages there are.
func (c *Console) features(now Snapshot, login bool) Features {
	f := Features{
		Login:   login,
		Keys:    c.o.ShowKeys,
		Fleet:   c.o.Roster != nil,
		Jobs:    c.o.Jobs != nil,
		Explain: c.o.Explain != nil,

		Idempotency: c.o.Idempotency != nil,
		Purge:       c.o.Purge != nil || c.o.Source.Abilities().Purge != nil,
		Routes:      c.o.Purge != nil || c.o.Explain != nil,
	}
	for i := range now.Units {
		if hot, _ := c.o.Source.HotKeys(now.Units[i].Name, 1); hot.Window > 0 {
			f.Hot = true
			break
		}
	}
	return f
}
