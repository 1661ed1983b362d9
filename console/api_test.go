package console_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
)

func TestC4_KeysAreDigestsUnlessSwitchedOn(t *testing.T) {
	type row struct{ Table, Email string }
	secrets := []any{"/account?email=ann@example.org", row{"users", "bob@example.org"}, 4711, "x\xff", strings.Repeat("long", 100)}
	s := &source{}
	s.detail = console.Detail{Unit: console.Unit{Name: "rows"}}
	s.hot = inspect.HotKeys{Window: time.Minute, Requests: 100, LoadTime: 2}
	for i, key := range secrets {
		s.detail.Flights = append(s.detail.Flights, console.Flight{Flight: inspect.Flight{Key: key, Joiners: i}})
		s.hot.ByTraffic = append(s.hot.ByTraffic, inspect.HotKey{Key: key, Rate: 25, Excess: 1})
		s.hot.ByLoadTime = append(s.hot.ByLoadTime, inspect.HotKey{Key: key, Rate: 3})
	}
	names := func(c *console.Console) (names []string) {
		d, hot := get("/api/units/rows").on(c), get("/api/hot?unit=rows").on(c)
		flights, h := into[console.Detail](t, d).Flights, into[console.Hot](t, hot)
		if !h.Enabled || h.ByTraffic[0].Share != 0.25 || h.ByLoadTime[0].Share != 1 || h.ByTraffic[0].Excess != 1 || h.Window != time.Minute {
			t.Errorf("hot keys %+v; want them with their shares", h)
		}
		for i := range secrets {
			if flights[i].Name != h.ByTraffic[i].Name || flights[i].Name != h.ByLoadTime[i].Name || flights[i].Joiners != i {
				t.Errorf("key %d is %q, %q and %q; want the same name on all pages", i, flights[i].Name, h.ByTraffic[i].Name, h.ByLoadTime[i].Name)
			}
			names = append(names, flights[i].Name)
		}
		return names
	}

	off := newConsole(t, console.Options{Source: s})
	digests := names(off)
	seen := map[string]bool{}
	for _, digest := range digests {
		if len(digest) != 13 || digest[0] != '#' || seen[digest] {
			t.Errorf("digest %q; want # and 12 digits, different for each key", digest)
		}
		seen[digest] = true
	}
	for _, target := range []string{"/api/snapshot", "/api/units/rows", "/api/hot?unit=rows", "/"} {
		body := get(target).on(off).Body.String()
		for _, part := range []string{"example.org", "account", "users", "4711", "longlong"} {
			if strings.Contains(body, part) {
				t.Errorf("%s contains %q, part of a key", target, part)
			}
		}
	}
	if names(newConsole(t, console.Options{Source: s}))[0] == digests[0] {
		t.Error("two consoles have the same digest of a key; want different secrets")
	}
	want := []string{"/account?email=ann@example.org", "{users bob@example.org}", "4711", `x\xff`, strings.Repeat("long", 64) + "…"}
	if got := names(newConsole(t, console.Options{Source: s, ShowKeys: true})); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("keys %q; want %q", got, want)
	}
}

func TestHot(t *testing.T) {
	s := &source{}
	s.detail.Unit.Name = "rows"
	c := newConsole(t, console.Options{Source: s})
	if h := into[console.Hot](t, get("/api/hot?unit=rows").on(c)); h.Enabled || h.ByTraffic == nil || h.ByLoadTime == nil {
		t.Errorf("without hot keys: %+v; want Enabled false", h)
	}
	for i := range 300 {
		s.hot.ByTraffic = append(s.hot.ByTraffic, inspect.HotKey{Key: i})
	}
	for query, want := range map[string]int{"": 20, "&n=1": 1, "&n=100": 100} {
		if h := into[console.Hot](t, get("/api/hot?unit=rows"+query).on(c)); len(h.ByTraffic) != want {
			t.Errorf("%q: %d keys; want %d", query, len(h.ByTraffic), want)
		}
	}
	for query, want := range map[string]int{"?unit=rows&n=0": 400, "?unit=rows&n=101": 400, "?unit=rows&n=x": 400, "?unit=rows&n=-1": 400, "?unit=none": 404, "?unit=": 404, "?n=0": 400} {
		if got := get("/api/hot" + query).on(c); got.Code != want || !strings.Contains(got.Body.String(), `"error"`) {
			t.Errorf("%q: %d %s; want %d and an error", query, got.Code, got.Body, want)
		}
	}
}

// Without a unit the list is of all units, and shares are of all of them: the only hot key of
// a quiet unit is not 100 %.
func TestC11_HotKeysOfAllUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := func(name string) *weir.Guard[string, string] {
			return weir.Must(weir.New(func(_ context.Context, k string) (string, error) {
				time.Sleep(30 * time.Millisecond)
				return k, nil
			}, weir.Options{Name: name, TTL: time.Hour, HotKeys: 10}))
		}
		busy, quiet := g("busy"), g("quiet")
		source, err := console.Guards(busy, quiet)
		if err != nil {
			t.Fatal(err)
		}
		c := newConsole(t, console.Options{Source: source})
		for i := range 9 {
			busy.Get(t.Context(), strconv.Itoa(i))
		}
		quiet.Get(t.Context(), "only")
		h := into[console.Hot](t, get("/api/hot?n=5").on(c))
		if !h.Enabled || len(h.ByLoadTime) != 5 {
			t.Fatalf("%+v; want five keys", h)
		}
		all := into[console.Hot](t, get("/api/hot?n=100").on(c))
		sum := 0.0
		for _, k := range all.ByLoadTime {
			if k.Unit == "quiet" && (k.Share < 0.05 || k.Share > 0.15) {
				t.Errorf("%+v; want a tenth of all load time", k)
			}
			sum += k.Share
		}
		if len(all.ByLoadTime) != 10 || sum < 0.99 || sum > 1.01 {
			t.Errorf("%d keys with shares of %v in all; want 10, and 1", len(all.ByLoadTime), sum)
		}
		busy.Close(t.Context())
		quiet.Close(t.Context())
		c.Close(t.Context())
	})
}

// A memory is scanned at most once per second, however many clients request it.
func TestC6_DetailsAreGatheredOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.detail.Unit.Name = "a/b c"
		for range 500 {
			s.detail.Flights = append(s.detail.Flights, console.Flight{})
		}
		c := newConsole(t, console.Options{Source: s})
		defer c.Close(context.Background())
		for range 50 {
			if d := into[console.Detail](t, get("/api/units/a%2Fb%20c").on(c)); len(d.Flights) != console.MaxRows {
				t.Errorf("%d flights; want %d", len(d.Flights), console.MaxRows)
			}
		}
		if s.detailed != 1 {
			t.Errorf("%d details gathered; want 1", s.detailed)
		}
		time.Sleep(time.Second)
		get("/api/units/a/b%20c").on(c)
		if s.detailed != 2 {
			t.Errorf("%d details gathered a second later; want 2", s.detailed)
		}
		if got := get("/api/units/none").on(c); got.Code != 404 {
			t.Errorf("an unknown unit: %d; want 404", got.Code)
		}
	})
}

func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := get("/api/fleet").on(newConsole(t, console.Options{})); got.Code != 404 {
			t.Errorf("without a fleet: %d; want 404", got.Code)
		}
		s := &source{}
		s.now = console.Snapshot{Tier: &console.Tier{Granted: 7}}
		r := fleetOf(fleet.Instance{ID: "a", Name: "web-1"}, fleet.Instance{ID: "b", Name: "web-2"})
		c := newConsole(t, console.Options{Source: s, Roster: r, Self: "a"})
		for range 20 {
			f := into[console.Fleet](t, get("/api/fleet").on(c))
			if f.Self != "a" || len(f.Instances) != 2 || f.Instances[1].Name != "web-2" || f.Tier.Granted != 7 || f.Error != "" {
				t.Errorf("fleet %+v; want both instances", f)
			}
		}
		if r.asked != 1 {
			t.Errorf("the engine was called %d times; want once", r.asked)
		}
		time.Sleep(time.Second)
		r.instances = func(context.Context) ([]fleet.Instance, error) { return nil, errors.New("the engine is away") }
		if f := into[console.Fleet](t, get("/api/fleet").on(c)); f.Error != "the engine is away" || f.Instances == nil || f.Self != "a" {
			t.Errorf("without the engine: %+v; want an error, and no instances", f)
		}
		r.instances = func(ctx context.Context) ([]fleet.Instance, error) { <-ctx.Done(); return nil, ctx.Err() }
		began := time.Now()
		if f := into[console.Fleet](t, get("/api/fleet").on(c)); f.Error == "" || time.Since(began) != 2*time.Second {
			t.Errorf("with an engine that hangs: %+v after %v; want an error after 2 s", f, time.Since(began))
		}
		c.Close(context.Background())
	})
}

// A purger is a source that can purge.
type purger struct {
	source
	purged []string
	err    error
}

func (p *purger) Abilities() console.Abilities { return console.Abilities{Purge: p.purge} }

func (p *purger) purge(_ context.Context, unit string, tags []string, all bool) (bool, error) {
	if unit != "rows" {
		return false, nil
	}
	p.purged = append(p.purged, fmt.Sprint(unit, tags, all))
	return true, p.err
}

func TestC7_PurgeSaysWhatItDid(t *testing.T) {
	var logged bytes.Buffer
	p := &purger{}
	c := newConsole(t, console.Options{Source: p, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for _, tt := range []struct {
		body string
		code int
		want string
		done string
	}{
		{`{"unit": "rows", "tags": ["a", "b"]}`, 200, `{"unit":"rows","all":false,"tags":2}`, "rows[a b] false"},
		{`{"unit": "rows", "all": true}`, 200, `{"unit":"rows","all":true,"tags":0}`, "rows[] true"},
		{`{"unit": "none", "all": true}`, 404, `no unit of that name`, ""},
		{`{"unit": "rows"}`, 400, `want one of`, ""},
		{`{"unit": "rows", "tags": []}`, 400, `want one of`, ""},
		{`{"unit": "rows", "tags": ["a"], "all": true}`, 400, `want one of`, ""},
		{`{"unit": "rows", "tags": ["a", ""]}`, 400, `a tag is empty`, ""},
		{`{"all": true}`, 400, `want a \"unit\"`, ""},
		{`{"unit": "rows", "everything": true}`, 400, `unknown field`, ""},
		{`{"unit": "rows", "all": true} {}`, 400, `more than one value`, ""},
		{``, 400, `the body`, ""},
		{`{"unit": "` + strings.Repeat("x", 1<<17) + `"}`, 413, `too large`, ""},
	} {
		logged.Reset()
		p.purged = nil
		got := post("/api/purge", tt.body).on(c)
		if got.Code != tt.code || !strings.Contains(got.Body.String(), tt.want) || strings.Join(p.purged, "|") != tt.done {
			t.Errorf("purge %.60s: %d %s, purged %q; want %d, %s, %q", tt.body, got.Code, got.Body, p.purged, tt.code, tt.want, tt.done)
		}
		if (tt.done != "") != strings.Contains(logged.String(), "msg=purged") {
			t.Errorf("purge %.60s logged %q; want a line for each purge that was done", tt.body, logged.String())
		}
	}
	p.err = errors.New("purged here, the fleet was not reached")
	if got := post("/api/purge", `{"unit": "rows", "all": true}`).on(c); got.Code != 503 || !strings.Contains(got.Body.String(), "not reached") {
		t.Errorf("a failed purge: %d %s; want 503 and an error", got.Code, got.Body)
	}
	if got := get("/api/purge").on(c); got.Code != 405 {
		t.Errorf("GET: %d; want 405", got.Code)
	}
	if got := post("/api/purge", `{"unit": "rows", "all": true}`).on(newConsole(t, console.Options{})); got.Code != 404 {
		t.Errorf("purge of a source that cannot purge: %d; want 404", got.Code)
	}
}

// External handlers receive the paths that they know.
func TestHandlersOfOthers(t *testing.T) {
	echo := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %s", name, r.Method, r.URL.RequestURI())
		})
	}
	c := newConsole(t, console.Options{Source: &purger{}, Purge: echo("purge"), Explain: echo("explain"), Jobs: echo("jobs"), Idempotency: echo("idempotency")})
	mux := http.NewServeMux()
	mux.Handle("/ops/", c)
	for _, tt := range []struct{ method, target, want string }{
		{"POST", "purge", "purge POST /purge"},
		{"POST", "explain", "explain POST /explain"},
		{"GET", "explain?url=http%3A%2F%2Fa", "explain GET /explain?url=http%3A%2F%2Fa"},
		{"GET", "jobs?queue=mail", "jobs GET /jobs?queue=mail"},
		{"GET", "jobs/queues", "jobs GET /jobs/queues"},
		{"GET", "idempotency", "idempotency GET /idempotency"},
		{"POST", "idempotency", "idempotency POST /idempotency"},
		{"DELETE", "jobs/a%2Fb/1", "jobs DELETE /jobs/a%2Fb/1"},
	} {
		for prefix, h := range map[string]http.Handler{"/": c, "/ops/": mux} {
			got := call{method: tt.method, target: prefix + "api/" + tt.target}.on(h)
			if got.Code != 200 || got.Body.String() != tt.want {
				t.Errorf("%s %sapi/%s: %d %s; want %s", tt.method, prefix, tt.target, got.Code, got.Body, tt.want)
			}
		}
	}
	none := newConsole(t, console.Options{})
	for _, target := range []string{"purge", "explain", "jobs", "jobs/queues", "idempotency", "fleet", "", "x"} {
		if got := post("/api/"+target, "{}").on(none); got.Code != 404 || !strings.Contains(got.Body.String(), `"error"`) {
			t.Errorf("/api/%s: %d %s; want 404 and an error", target, got.Code, got.Body)
		}
	}
}

func TestFeatures(t *testing.T) {
	h := http.NotFoundHandler()
	hot := &source{}
	hot.detail.Unit.Name = "b"
	hot.hot.Window = time.Minute
	hot.now.Units = []console.Unit{{Name: "a"}, {Name: "b"}}
	for _, tt := range []struct {
		o    console.Options
		want console.Features
	}{
		{console.Options{Source: &source{}}, console.Features{}},
		{console.Options{Source: &purger{}, ShowKeys: true}, console.Features{Keys: true, Purge: true}},
		{console.Options{Source: hot, Roster: fleetOf(), Self: "a"}, console.Features{Hot: true, Fleet: true}},
		{console.Options{Source: &source{}, Purge: h, Explain: h, Jobs: h, Idempotency: h}, console.Features{Purge: true, Explain: true, Jobs: true, Idempotency: true, Routes: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := listen(t, serve(t, &http.Server{Handler: newConsole(t, tt.o)}), eventsURL).hello.Features; got != tt.want {
				t.Errorf("features of %+v: %+v; want %+v", tt.o, got, tt.want)
			}
		})
	}
}

// The console works under any prefix, without knowing it.
func TestPrefixes(t *testing.T) {
	c := newConsole(t, console.Options{})
	based := newConsole(t, console.Options{Access: console.Access{Base: "/base/"}})
	muxOf := func(pattern string, h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, h)
		return mux
	}
	for what, tt := range map[string]struct {
		h      http.Handler
		prefix string
	}{
		"root":          {c, "/"},
		"pattern":       {muxOf("/console/", c), "/console/"},
		"bare":          {muxOf("/console/", c.Bare()), "/console/"},
		"method, host":  {muxOf("GET localhost/a/b/", c), "/a/b/"},
		"wildcard":      {muxOf("/console/{rest...}", c), "/console/"},
		"strip":         {http.StripPrefix("/x", c), "/x/"},
		"strip in mux":  {muxOf("/x/", http.StripPrefix("/x", c)), "/x/"},
		"mux in a mux":  {muxOf("/x/", http.StripPrefix("/x", muxOf("/y/", c))), "/x/y/"},
		"like a page":   {muxOf("/api/", c), "/api/"},
		"base":          {based, "/base/"},
		"base in a mux": {muxOf("/", based), "/base/"},
		"base stripped": {http.StripPrefix("/base", based), "/base/"},
	} {
		for target, want := range map[string]string{"": "<!doctype html>", "api/snapshot": `{"at":`, "assets/icon.svg": "<svg", "assets/none.js": "404", "none": "404"} {
			got := get(tt.prefix + target).on(tt.h)
			if !strings.HasPrefix(got.Body.String(), want) || (got.Code == 404) != (want == "404") {
				t.Errorf("%s: %s%s: %d %.80s; want %s", what, tt.prefix, target, got.Code, got.Body, want)
			}
		}
	}
	// Browsers find their way to and from the login too.
	asks := newConsole(t, console.Options{Access: console.Access{Token: token}})
	for prefix, h := range map[string]http.Handler{"/console/": muxOf("/console/", asks), "/x/": http.StripPrefix("/x", asks)} {
		s := httptest.NewServer(h)
		defer s.Close()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.Request.URL.Path != prefix+"login" {
			t.Errorf("%s: %s at %s; want the login", prefix, resp.Status, resp.Request.URL)
		}
		cookie := login(t, h, prefix)
		if got := get(prefix + "api/snapshot").with(cookie).on(h); got.Code != 200 {
			t.Errorf("%s after the login: %d; want 200", prefix, got.Code)
		}
	}
}
