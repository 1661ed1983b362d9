package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/weir-go/weir/app/keysctl"
	"github.com/weir-go/weir/once"
)

func (s *server) handleKeys(mux *http.ServeMux) {
	mux.HandleFunc("GET /idempotency", s.keys)
	mux.HandleFunc("POST /idempotency", s.settleKey)
}

// keys shows the counts, and the calls whose outcome is unknown.
func (s *server) keys(w http.ResponseWriter, r *http.Request) {
	if s.o.Keys == nil {
		fail(w, http.StatusNotFound, "no route has idempotency")
		return
	}
	page, err := keysctl.Read(r.Context(), s.o.Keys)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, "%v", err)
		return
	}
	if s.o.HideKeys {
		for i := range page.Unknown {
			page.Unknown[i].Call = methodOf(page.Unknown[i].Call)
		}
	}
	answer(w, page)
}

// settleKey settles a call whose outcome is unknown.
func (s *server) settleKey(w http.ResponseWriter, r *http.Request) {
	if s.o.Keys == nil {
		fail(w, http.StatusNotFound, "no route has idempotency")
		return
	}
	var o keysctl.Order
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		fail(w, http.StatusBadRequest, `the body must be {"id": "…", "settle": "done"} or {"id": "…", "settle": "not_done"}`)
		return
	}
	if err := o.Check(); err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	id, err := once.ParseDigest(o.ID)
	if err == nil {
		err = s.o.Keys.Settle(r.Context(), id, o.Settle == keysctl.Done)
	}
	switch {
	case errors.Is(err, once.ErrSettled):
		fail(w, http.StatusConflict, "no call with an unknown outcome has this ID: it is settled, expired, or still running")
	case err != nil:
		fail(w, http.StatusServiceUnavailable, "%v", err)
	default:
		s.o.Logger.Info("an operator settled a call with an idempotency key", "client", r.RemoteAddr, "id", o.ID, "as", o.Settle)
		answer(w, keysctl.Settled{ID: o.ID, Settled: o.Settle})
	}
}
