package weirhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// wantDurations checks the number of durations and their sum.
func wantDurations(t *testing.T, of string, d inspect.Durations, n uint64, sum time.Duration) {
	t.Helper()
	if d.Count != n || d.Sum != sum {
		t.Errorf("%s = %d in %v; want %d in %v", of, d.Count, d.Sum, n, sum)
	}
}

func TestO3_DurationsOfRequestsCallsAndWaits(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Cache-Control", "max-age=60")
				w.(http.Flusher).Flush()
				time.Sleep(slow) // the body comes later
				_, _ = io.WriteString(w, "x")
			})
			go s.together(3, s.same("/a"))
			time.Sleep(slow / 2)
			leaver, hangUp := context.WithTimeout(t.Context(), slow/4)
			defer hangUp()
			s.do(s.request(leaver, "GET", "/a"))
			time.Sleep(2 * slow)
			s.get("/a").want(t, 200, "x") // a hit takes no time here
			synctest.Wait()
			wantDurations(t, "Requests", s.handler.RequestTimes(), 5, 3*2*slow+slow/4)
			wantDurations(t, "Calls", s.handler.CallTimes(), 1, slow)
			wantDurations(t, "Waits", s.handler.WaitTimes(), 3, 2*slow+slow/4)
			if got := s.handler.Stats(); got.Requests != 5 || got.Calls != 1 {
				t.Errorf("Stats = %d requests, %d calls; want as many as durations", got.Requests, got.Calls)
			}
		})
	})
}

// TestO3_EveryRequestHasADuration: each request is timed once, whatever its outcome,
// and so is each call. So the counts are those of Stats.
func TestO3_EveryRequestHasADuration(t *testing.T) {
	clients := func(t *testing.T) *weirhttp.ClientLimiter {
		d, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, row := range []struct {
		name   string
		method string
		path   string
		fields []string
		set    func(t *testing.T, o *weirhttp.Options)
	}{
		{name: "hit", path: "/fresh"},
		{name: "stale hit and its refresh", path: "/stale"},
		{name: "POST", method: "POST", path: "/"},
		{name: "HEAD", method: "HEAD", path: "/"},
		{name: "alone", path: "/", set: func(_ *testing.T, o *weirhttp.Options) { o.NoCoalescing = true }},
		{name: "nothing stored", path: "/", fields: []string{"Cache-Control", "only-if-cached"}},
		{name: "panic", path: "/panic"},
		{name: "panic of a call alone", path: "/panic", fields: []string{"Cookie", "a=b"}},
		{name: "panic of a POST", method: "POST", path: "/panic"},
		{name: "broken off", path: "/broken"},
		{name: "broken off, alone", path: "/broken", fields: []string{"Cookie", "a=b"}},
		{name: "broken off, of a POST", method: "POST", path: "/broken"},
		{name: "no answer in time", path: "/hangs"},
		{name: "no answer in time, alone", path: "/hangs", fields: []string{"Cookie", "a=b"}},
		{name: "refused by the client limiter", path: "/", set: func(t *testing.T, o *weirhttp.Options) { o.ClientLimiter = clients(t) }},
		{name: "observed", path: "/fresh", set: func(_ *testing.T, o *weirhttp.Options) { o.Observe = true }},
		{name: "broken off, observed", path: "/broken", set: func(_ *testing.T, o *weirhttp.Options) { o.Observe = true }},
		{name: "refused by a limit", path: "/", set: func(_ *testing.T, o *weirhttp.Options) { o.Limiter = refusal{} }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := weirhttp.Options{HeadTimeout: time.Second, Observer: quiet{}}
				if row.set != nil {
					row.set(t, &o)
				}
				s := open(t, h1, o, everything)
				for range 3 {
					method := row.method
					if method == "" {
						method = "GET"
					}
					s.do(s.request(t.Context(), method, row.path, row.fields...))
					time.Sleep(2 * time.Second)
				}
				stats := s.handler.Stats()
				if got := s.handler.RequestTimes().Count; got != stats.Requests || got < 3 {
					t.Errorf("RequestTimes has %d requests, Stats has %d; want the same number", got, stats.Requests)
				}
				if got := s.handler.CallTimes().Count; got != stats.Calls || int64(got) != s.calls.Load() {
					t.Errorf("CallTimes has %d calls, Stats has %d, and there were %d; want the same number", got, stats.Calls, s.calls.Load())
				}
			})
		})
	}
}

// everything is an origin that does what the path names.
func everything(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/fresh":
		w.Header().Set("Cache-Control", "max-age=60")
	case "/stale":
		w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
	case "/panic":
		panic("out of order")
	case "/broken":
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "/hangs":
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, "x")
}

// A refusal is a Limiter that rejects all calls.
type refusal struct{}

func (refusal) Acquire(context.Context) (limit.Permit, error) {
	return limit.Permit{}, &limit.Error{Reason: limit.QueueFull, RetryAfter: time.Second}
}

func TestO3_StreamsAreNotTimed(t *testing.T) {
	for _, observe := range []bool{false, true} {
		for _, accept := range []string{"text/event-stream", "*/*"} { // requested by the client, or only by the response
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, weirhttp.Options{Observe: observe, HotKeys: 1}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				})
				for _, fields := range [][]string{{"Accept", accept}, {"Accept", accept, "Cookie", "a=b"}} {
					ctx, hangUp := context.WithCancel(t.Context())
					resp, err := s.begin(ctx, "/events", fields...)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Second)
					hangUp()
					_ = resp.Body.Close()
					synctest.Wait()
				}
				wantDurations(t, "Requests", s.handler.RequestTimes(), 0, 0)
				calls := uint64(2) // until the headers, which arrived at once
				if accept != "*/*" {
					calls = 0
					if hot := s.handler.HotKeys(1); len(hot.ByTraffic) != 0 {
						t.Errorf("HotKeys = %v; want none", hot.ByTraffic)
					}
				}
				wantDurations(t, "Calls", s.handler.CallTimes(), calls, 0)
			})
		}
	}
}

func TestO3_UpgradesAreNotTimed(t *testing.T) {
	for _, observe := range []bool{false, true} {
		left := make(chan struct{})
		h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Errorf("Hijack: %v", err)
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			_, _ = rw.ReadByte() // until the client has gone
		}), weirhttp.Options{Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		addr := listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(left)
			h.ServeHTTP(w, r)
		}))
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "HTTP/1.1 101 Switching Protocols\r\n" {
			t.Errorf("the response begins with %q, %v; want 101", line, err)
		}
		_ = conn.Close()
		<-left
		wantDurations(t, "Requests", h.RequestTimes(), 0, 0)
		wantDurations(t, "Calls", h.CallTimes(), 0, 0)
		if got := h.Stats(); got.Requests != 1 || got.Calls != 1 {
			t.Errorf("Stats = %d requests, %d calls; want one of each", got.Requests, got.Calls)
		}
	}
}

// flying returns an inspect.Flight for a path.
func flying(key string, state inspect.FlightState, age time.Duration, joiners int) inspect.Flight {
	return inspect.Flight{Key: "http://shop.example" + key, Keys: 1, State: state, Age: age, Joiners: joiners}
}

func wantFlights(t *testing.T, h interface {
	ActiveFlights(int) []inspect.Flight
	Stats() weirhttp.Stats
}, want ...inspect.Flight) {
	t.Helper()
	got := h.ActiveFlights(100)
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("Flights = %+v; want %+v", got, want)
	}
	if n := h.Stats().Flights; n != len(want) {
		t.Errorf("Stats.Flights = %d; want %d", n, len(want))
	}
}

func TestO3_FlightsByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		o := weirhttp.Options{Limiter: permits(t, limit.ConcurrencyOptions{Limit: 3}), Cache: cache}
		s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
			if r.URL.Path == "/streams" {
				w.(http.Flusher).Flush()
			}
			time.Sleep(10 * time.Second) // regardless of its context
		})
		other := open(t, h1, weirhttp.Options{Cache: cache}, answering(time.Minute))
		wantFlights(t, s.handler)

		ctx, hangUp := context.WithTimeout(t.Context(), 2*time.Second)
		defer hangUp()
		go s.do(s.request(ctx, "GET", "/left"))
		time.Sleep(time.Second)
		go s.together(3, s.same("/runs"))
		time.Sleep(time.Second)
		go s.get("/streams")
		go other.get("/other")
		time.Sleep(time.Second)
		go s.together(2, s.same("/queued"))
		time.Sleep(time.Second)
		wantFlights(t, s.handler,
			flying("/left", inspect.FlightStuck, 4*time.Second, 0),
			flying("/runs", inspect.FlightRunning, 3*time.Second, 3),
			flying("/streams", inspect.FlightStreaming, 2*time.Second, 1),
			flying("/queued", inspect.FlightQueued, time.Second, 2),
		)
		if got := s.handler.ActiveFlights(2); len(got) != 2 || got[1].Key != "http://shop.example/runs" {
			t.Errorf("Flights(2) = %+v; want the two oldest", got)
		}
		if got := s.handler.ActiveFlights(-1); len(got) != 0 {
			t.Errorf("Flights(-1) = %+v; want none", got)
		}
		wantFlights(t, other.handler, flying("/other", inspect.FlightRunning, 2*time.Second, 1))

		time.Sleep(20 * time.Second) // all have ended, and are stale
		s.get("/runs")
		time.Sleep(time.Second)
		background := flying("/runs", inspect.FlightRunning, time.Second, 0)
		background.Background = true
		wantFlights(t, s.handler, background)
		time.Sleep(time.Minute)
		wantFlights(t, s.handler)
	})
}

func TestO3_AFlightWhoseTimeIsOverIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{HeadTimeout: time.Second, IdleTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/head" {
				w.(http.Flusher).Flush()
			}
			time.Sleep(10 * time.Second) // regardless of its context
		})
		for _, path := range []string{"/", "/head"} {
			go s.get(path)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			got := s.handler.ActiveFlights(1)
			if len(got) != 1 || got[0].State != inspect.FlightStuck || got[0].Joiners != 0 {
				t.Errorf("%s: Flights = %+v; want a stuck flight without joiners", path, got)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestO3_AFlightThatAsksTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, answering(slow, "Cache-Control", "max-age=60"))
		go e.sites[0].get("/a")
		time.Sleep(slow / 4)
		go e.sites[1].get("/a")
		time.Sleep(slow / 4)
		wantFlights(t, e.sites[0].handler, flying("/a", inspect.FlightRunning, slow/2, 1))
		wantFlights(t, e.sites[1].handler, flying("/a", inspect.FlightAsking, slow/4, 1))
		time.Sleep(slow)
		wantFlights(t, e.sites[1].handler)
		wantDurations(t, "Calls", e.sites[1].handler.CallTimes(), 0, 0)
	})
}

func TestO3_EntriesByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		status := map[string]int{"/none": 404, "/gone": 410, "/fails": 500}
		s := open(t, h1, weirhttp.Options{Cache: cache, RefreshAhead: 0.5, RefreshHits: 100}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", r.URL.Query().Get("control"))
			w.Header().Set("Cache-Tag", r.URL.Path[1:])
			w.WriteHeader(max(status[r.URL.Path], 200))
		})
		for _, path := range []string{
			"/fresh?control=max-age=1000",
			"/due?control=max-age=110",
			"/stale?control=max-age=10,stale-while-revalidate=1000",
			"/onerror?control=max-age=10,stale-if-error=1000",
			"/marked?control=max-age=1000,stale-if-error=1000",
			"/none?control=max-age=1000", "/gone?control=max-age=1000",
			"/fails?control=max-age=1000",
			"/dead?control=max-age=10", "/tagged?control=max-age=1000",
		} {
			if r := s.get(path); r.err != nil {
				t.Fatal(r.err)
			}
		}
		time.Sleep(100 * time.Second)
		_, _ = cache.Expire(t.Context(), "http", "shop.example", "/marked?control=max-age=1000,stale-if-error=1000")
		_ = cache.InvalidateTags(t.Context(), "tagged")
		want := inspect.Entries{Fresh: 1, RefreshDue: 1, Stale: 1, OnError: 2, Negative: 2, Failing: 1, Dead: 2}
		if got := cache.CountEntries(); got != want {
			t.Errorf("Entries = %+v; want %+v", got, want)
		}
		if got := cache.Stats().Responses; got != 10 {
			t.Errorf("Responses = %d; want 10, the number of entries", got)
		}
	})
}

func TestO3_HotKeys(t *testing.T) {
	for _, observe := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{HotKeys: 3, Observe: observe}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				if r.URL.Path == "/heavy" {
					time.Sleep(slow)
				}
			})
			for range 20 {
				s.get("/busy?q=1")
			}
			for range 5 {
				s.do(s.request(t.Context(), "POST", "/heavy"))
			}
			s.get("/rare")
			synctest.Wait()
			hot := s.handler.HotKeys(2)
			if len(hot.ByTraffic) != 2 || hot.ByTraffic[0].Key != "http://shop.example/busy?q=1" || hot.ByTraffic[1].Key != "http://shop.example/heavy" {
				t.Errorf("ByTraffic = %+v; want /busy?q=1 and /heavy", hot.ByTraffic)
			}
			if len(hot.ByLoadTime) < 1 || hot.ByLoadTime[0].Key != "http://shop.example/heavy" {
				t.Errorf("ByLoadTime = %+v; want /heavy first", hot.ByLoadTime)
			}
		})
	}
}

// A client cannot fill memory with long targets that are kept as hot keys.
func TestO3_HotKeysOfLongTargets(t *testing.T) {
	s := open(t, h1, weirhttp.Options{HotKeys: 3}, answering(0))
	long := "/" + strings.Repeat("a", 20_000)
	s.get(long)
	s.get(long + "b")
	hot := s.handler.HotKeys(3)
	const want = 1100 // scheme, host, and a kilobyte
	for name, keys := range map[string][]inspect.HotKey{"ByTraffic": hot.ByTraffic, "ByLoadTime": hot.ByLoadTime} {
		if len(keys) != 1 {
			t.Errorf("%s has %d keys; want one, because they have the same prefix", name, len(keys))
		}
		for _, k := range keys {
			if text, _ := k.Key.(string); len(text) > want || !strings.HasPrefix(text, "http://shop.example/aaa") {
				t.Errorf("%s keeps a key of %d bytes; want at most %d", name, len(text), want)
			}
		}
	}
}

func TestO3_NoHotKeysUnlessAskedFor(t *testing.T) {
	for _, n := range []int{0, -1} {
		s := open(t, h1, weirhttp.Options{HotKeys: n}, answering(0))
		s.get("/a")
		if got := s.handler.HotKeys(10); !reflect.DeepEqual(got, inspect.HotKeys{}) {
			t.Errorf("HotKeys = %+v with %d; want none", got, n)
		}
	}
	err := weirhttp.Options{HotKeys: weirhttp.MaxHotKeys + 1}.Validate()
	if want := "weirhttp: Options.HotKeys is 10001, must be at most 10000"; err == nil || err.Error() != want {
		t.Errorf("Validate = %v; want %s", err, want)
	}
}

func TestO3_TransportTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tr := transport(t, weirhttp.Options{HotKeys: 1}, func(r *http.Request) (*http.Response, error) {
			time.Sleep(slow)
			return plain(r, 200, "x", "Cache-Control", "max-age=60"), nil
		})
		for range 3 {
			go func() { _, _ = fetch(t, c, "http://shop.example/a") }()
		}
		time.Sleep(slow / 2)
		wantFlights(t, tr, flying("/a", inspect.FlightRunning, slow/2, 3))
		time.Sleep(slow)
		wantDurations(t, "Requests", tr.RequestTimes(), 3, 3*slow)
		wantDurations(t, "Calls", tr.CallTimes(), 1, slow)
		wantDurations(t, "Waits", tr.WaitTimes(), 2, 2*slow)
		if hot := tr.HotKeys(1); len(hot.ByTraffic) != 1 || hot.ByTraffic[0].Key != "http://shop.example/a" {
			t.Errorf("ByTraffic = %+v; want /a", hot.ByTraffic)
		}
	})
}

// lateness is a Limiter that admits all calls after that time.
type lateness time.Duration

func (d lateness) Acquire(ctx context.Context) (limit.Permit, error) {
	select {
	case <-time.After(time.Duration(d)):
		return limit.All().Acquire(ctx)
	case <-ctx.Done():
		return limit.Permit{}, context.Cause(ctx)
	}
}
