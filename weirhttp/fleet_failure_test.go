package weirhttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

func TestFleetTierHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 4, nil, answering(time.Second, "Cache-Control", "max-age=600"))
		for _, l := range e.lines {
			l.Hang()
		}
		for _, replies := range e.everywhere(8, everybody("/x")) {
			for _, r := range replies {
				r.want(t, 200, "/x")
				// The tags are read once, and the key is requested once.
				if most := time.Second + 2*fleet.DefaultDeadline; r.took > most {
					t.Errorf("got a response after %v; want at most %v", r.took, most)
				}
			}
		}
		e.wantCalls(4)
		if n := e.sites[0].handler.Stats().Fleet; n != 0 {
			t.Errorf("Fleet = %d; want 0", n)
		}
		for _, s := range e.sites {
			r := s.get("/x")
			r.want(t, 200, "/x")
			if r.took != 0 {
				t.Errorf("a hit took %v; want 0s", r.took)
			}
		}
		e.wantCalls(4)
		for _, l := range e.lines {
			l.Unhang()
		}
		time.Sleep(fleet.DefaultMemoryCap + time.Second) // the breakers close, and stored responses have to be checked
		e.everywhere(8, everybody("/x"))
		e.wantCalls(5)
	})
}

func TestFleetTierAwayWhileMemoryIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 1, nil, answering(0, "Cache-Control", "max-age=600"))
		s := e.sites[0]
		s.get("/x").want(t, 200, "/x")
		time.Sleep(fleet.DefaultMemoryCap + time.Second)
		e.lines[0].Cut()
		for range 3 {
			if got := s.get("/x").header.Get("Cache-Status"); got != "weir; hit; ttl=539" {
				t.Errorf("Cache-Status = %q; want a hit without the fleet", got)
			}
		}
		e.wantCalls(1)
	})
}

func TestFleetPurgeThatDoesNotReachIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		e := openEnsemble(t, 2, func(i int, o *weirhttp.Options) {
			if i == 0 {
				o.Cache = cache
			}
		}, counting(0, "Cache-Control", "max-age=600"))
		for _, s := range e.sites {
			has(t, s.get("/x"), "X-Call", "1")
		}
		e.lines[0].Cut()
		n, err := cache.Invalidate(t.Context(), "http", "shop.example", "/x")
		if n != 1 || !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("Invalidate = %d, %v; want 1 and ErrUnavailable", n, err)
		}
		if err := errors.Join(cache.InvalidateTags(t.Context(), "t"), cache.InvalidateAll(t.Context())); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("InvalidateTags, InvalidateAll = %v; want ErrUnavailable", err)
		}
		has(t, e.sites[0].get("/x"), "X-Call", "2") // purged here
		_, err = cache.Invalidate(t.Context(), "http", "shop.example", "/"+strings.Repeat("x", fleet.MaxName))
		if !errors.Is(err, weirhttp.ErrLongURL) {
			t.Errorf("Invalidate of a long URL = %v; want ErrLongURL", err)
		}
		e.lines[0].Mend() // or Close reports the purges that are lost
		time.Sleep(5 * time.Second)
	})
}

func TestFleetMemoryCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		e := openEnsemble(t, 2, func(i int, o *weirhttp.Options) {
			if i == 0 {
				o.Cache = cache
			}
			o.Fleet.MemoryCap = 10 * time.Second
		}, counting(0, "Cache-Control", "max-age=600"))
		a, b := e.sites[0], e.sites[1]
		has(t, a.get("/x"), "X-Call", "1")
		has(t, b.get("/x"), "X-Call", "1")
		synctest.Wait()
		e.lines[1].Deafen(true)
		_, _ = cache.Invalidate(t.Context(), "http", "shop.example", "/x")
		time.Sleep(10 * time.Second)
		has(t, b.get("/x"), "X-Call", "1") // it did not receive the purge
		before := e.lines[1].Commands()
		time.Sleep(time.Nanosecond)
		has(t, b.get("/x"), "X-Call", "2")
		synctest.Wait() // it settles after its response
		if n := e.lines[1].Commands() - before; n != 2 {
			t.Errorf("after the cap it sent %d commands; want 2", n)
		}
		// A response that is still current stays in use, after one request to the
		// Tier.
		time.Sleep(11 * time.Second)
		before = e.lines[1].Commands()
		for range 5 {
			has(t, b.get("/x"), "X-Call", "2")
		}
		if n := e.lines[1].Commands() - before; n != 1 {
			t.Errorf("a response that is still current took %d commands; want 1", n)
		}
	})
}

func TestFleetConditionalRequestsWhenMemoryIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 1, nil, answering(0, "Cache-Control", "max-age=600"))
		s := e.sites[0]
		s.get("/x").want(t, 200, "/x")
		time.Sleep(2 * fleet.DefaultMemoryCap)
		s.get("/x", "Range", "bytes=0-0").want(t, 206, "/")
		time.Sleep(2 * fleet.DefaultMemoryCap)
		s.do(s.request(t.Context(), http.MethodHead, "/x")).want(t, 200, "")
		s.get("/x", "If-None-Match", `"other"`).want(t, 200, "/x")
		e.wantCalls(1)
	})
}

func TestFleetReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, counting(0, "Cache-Control", "max-age=600"))
		a, b := e.sites[0], e.sites[1]
		has(t, a.get("/x"), "X-Call", "1")
		has(t, b.get("/x"), "X-Call", "1")
		time.Sleep(time.Second)
		e.lines[1].Cut()
		a.do(a.request(t.Context(), http.MethodPost, "/x"))
		has(t, b.get("/x"), "X-Call", "1") // cut off
		time.Sleep(time.Second)
		e.lines[1].Mend()
		time.Sleep(10 * time.Second)
		has(t, b.get("/x"), "X-Call", "3")
	})
}

// A Cache that has left its fleet does not learn what others purge.
func TestT10ClosedCacheServesNothingThatOthersMayHavePurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, counting(0, "Cache-Control", "max-age=600"))
		a, b := e.sites[0], e.sites[1]
		has(t, a.get("/x"), "X-Call", "1")
		has(t, a.get("/x"), "X-Call", "1")
		time.Sleep(time.Second)
		if err := a.handler.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.do(b.request(t.Context(), http.MethodPost, "/x"))
		synctest.Wait()
		if got := a.get("/x"); got.status != http.StatusServiceUnavailable {
			t.Errorf("after Close and a purge elsewhere: %d, call %s; want 503", got.status, got.header.Get("X-Call"))
		}
	})
}

func TestFleetLargeBodiesStayOut(t *testing.T) {
	for name, origin := range map[string]http.HandlerFunc{
		"declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
		},
		"not declared": func(w http.ResponseWriter, _ *http.Request) {
			for range 50 {
				_, _ = io.WriteString(w, strings.Repeat("x", 100))
				w.(http.Flusher).Flush()
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := openEnsemble(t, 3, func(_ int, o *weirhttp.Options) { o.Fleet.MaxObject = 4999 }, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				w.Header().Set("Cache-Control", "max-age=600")
				origin(w, r)
			})
			for range 3 {
				for _, replies := range e.everywhere(4, everybody("/x")) {
					for _, r := range replies {
						r.want(t, 200, strings.Repeat("x", 5000))
						if r.took > 2*time.Second {
							t.Errorf("%s: got a response after %v; want at most 2s", name, r.took)
						}
					}
				}
				time.Sleep(2 * fleet.DefaultMemoryCap)
				e.wantCalls(3) // one in each instance for all its clients, and stored
			}
		})
	}
}

func TestFleetRefreshAheadInOneInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 4, func(_ int, o *weirhttp.Options) { o.RefreshAhead = 0.2 }, counting(time.Second, "Cache-Control", "max-age=60"))
		for range 58 {
			e.everywhere(2, everybody("/x"))
			time.Sleep(time.Second)
		}
		e.wantCalls(2)
		for _, s := range e.sites {
			has(t, s.get("/x"), "X-Call", "2")
		}
	})
}

func TestFleetStaleFromTheTierIsServedAndRefreshedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 4, nil, counting(time.Second, "Cache-Control", "max-age=10, stale-while-revalidate=60"))
		has(t, e.sites[0].get("/x"), "X-Call", "1")
		time.Sleep(20 * time.Second)
		for k, replies := range e.everywhere(3, everybody("/x")) {
			for _, r := range replies {
				if r.took != 0 || r.header.Get("X-Call") != "1" {
					t.Errorf("instance %d: call %s after %v; want the stale response at once", k, r.header.Get("X-Call"), r.took)
				}
				has(t, r, "Cache-Status", "weir; hit; ttl=-11")
			}
			if st := e.sites[k].handler.Stats(); k > 0 && (st.Fleet == 0 || st.FleetStale != st.Fleet || st.Hits != 0) {
				t.Errorf("instance %d: Stats = %+v; want responses of the fleet, all of them stale", k, st)
			}
		}
		time.Sleep(2 * time.Second)
		refreshes := uint64(0)
		for _, s := range e.sites {
			has(t, s.get("/x"), "X-Call", "2")
			refreshes += s.handler.Stats().Refreshes
		}
		e.wantCalls(2)
		if refreshes != 1 { // one made a call, the others got its response
			t.Errorf("Refreshes of all instances = %d; want 1, because Refreshes counts calls", refreshes)
		}
	})
}

func TestFleetFailureCools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing, broken atomic.Bool
		e := openEnsemble(t, 4, nil, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			switch {
			case broken.Load():
				panic(http.ErrAbortHandler)
			case failing.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				answering(0, "Cache-Control", "max-age=10, stale-if-error=600")(w, r)
			}
		})
		e.sites[0].get("/x").want(t, 200, "/x")
		for _, by := range []*atomic.Bool{&failing, &broken} {
			by.Store(true)
			time.Sleep(100 * time.Second)
			before := e.calls()
			for range 9 { // within the first second of cooling
				for k, replies := range e.everywhere(2, everybody("/x")) {
					for _, r := range replies {
						r.want(t, 200, "/x")
						if k > 0 && !strings.Contains(r.header.Get("Cache-Status"), "detail=fleet") {
							has(t, r, "Cache-Status", "fwd=stale")
						}
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
			e.wantCalls(before + 1)
		}
	})
}

func TestFleetFailureWithoutAnythingStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		failing.Store(true)
		e := openEnsemble(t, 3, nil, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			if failing.Load() {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			answering(0, "Cache-Control", "max-age=60")(w, r)
		})
		for _, replies := range e.everywhere(5, everybody("/x")) {
			for _, r := range replies {
				if r.status != http.StatusBadGateway || r.took > 200*time.Millisecond {
					t.Errorf("status = %d after %v; want 502 after at most 200ms", r.status, r.took)
				}
			}
		}
		failing.Store(false)
		e.sites[1].get("/x").want(t, 200, "/x") // also while the key is cooling
		e.sites[2].get("/x").want(t, 200, "/x")
		if n := e.calls(); n != 4 {
			t.Errorf("the origin was called %d times; want 4: a call that succeeds is shared", n)
		}
	})
}

func TestFleetReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, counting(time.Second, "Cache-Control", "max-age=600", "Vary", "Accept"))
		has(t, e.sites[0].get("/x"), "X-Call", "1")
		has(t, e.sites[1].get("/x"), "X-Call", "1")
		has(t, e.sites[1].get("/x", "Cache-Control", "no-cache"), "X-Call", "2")
		synctest.Wait()
		has(t, e.sites[0].get("/x"), "X-Call", "2") // all instances get the newer response
		has(t, e.sites[0].get("/x", "Cache-Control", "max-age=10"), "X-Call", "2")
		time.Sleep(20 * time.Second)
		has(t, e.sites[0].get("/x", "Cache-Control", "max-age=10"), "X-Call", "3")
	})
}

func TestFleetValidatesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := 0
		e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Etag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			bodies++
			_, _ = io.WriteString(w, "body")
		})
		a, b := e.sites[0], e.sites[1]
		a.get("/x").want(t, 200, "body")
		time.Sleep(90 * time.Second)
		b.get("/x").want(t, 200, "body") // with the response that is stale in the Tier
		a.get("/x").want(t, 200, "body")
		e.wantCalls(2)
		if bodies != 1 {
			t.Errorf("the origin sent %d bodies; want 1", bodies)
		}
	})
}

func TestFleetHandlerThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var n atomic.Int64
		e := openEnsemble(t, 2, func(_ int, o *weirhttp.Options) { o.HeadTimeout = 5 * time.Second }, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				<-stuck
			}
			answering(0, "Cache-Control", "max-age=60")(w, r)
		})
		defer close(stuck)
		go e.sites[0].get("/x")
		synctest.Wait()
		r := e.sites[1].get("/x")
		r.want(t, 200, "/x")
		if r.took != 5*time.Second {
			t.Errorf("got a response after %v; want 5s: the lease ends with HeadTimeout", r.took)
		}
	})
}

func TestFleetStreamsAndOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "max-age=60")
			for range 3 {
				_, _ = io.WriteString(w, "data: x\n\n")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})
		for _, replies := range e.everywhere(2, everybody("/events")) {
			for _, r := range replies {
				r.want(t, 200, strings.Repeat("data: x\n\n", 3))
				if r.took > 6*time.Second {
					t.Errorf("got a response after %v; want at most 6s", r.took)
				}
			}
		}
		e.wantCalls(4)
	})
}

func TestFleetOptions(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	bad := weirhttp.FleetOptions{Config: fleet.Config{Tier: tier, Namespace: strings.Repeat("x", 4097), Lease: 1, MemoryCap: 1, MaxKeep: -1, Cooling: 2 * time.Hour, MaxCooling: 1}, MaxObject: -1}
	_, err := weirhttp.New(http.NotFoundHandler(), weirhttp.Options{Fleet: bad})
	for _, field := range []string{"Namespace", "Lease", "MaxObject", "MemoryCap", "MaxKeep", "Cooling", "MaxCooling"} {
		if err == nil || !strings.Contains(err.Error(), "FleetOptions."+field) {
			t.Errorf("New = %v; want a fault in %s", err, field)
		}
	}
	cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
	if err != nil {
		t.Fatal(err)
	}
	o := weirhttp.FleetOptions{Config: fleet.Config{Tier: tier}}
	if err := cache.JoinFleet(o); err != nil {
		t.Fatal(err)
	}
	if err := cache.JoinFleet(weirhttp.FleetOptions{Config: fleet.Config{Tier: tier, Namespace: "http"}}); err != nil {
		t.Errorf("JoinFleet once more = %v; want nil", err)
	}
	if err := cache.JoinFleet(weirhttp.FleetOptions{Config: fleet.Config{Tier: tier, Namespace: "b"}}); !errors.Is(err, weirhttp.ErrFleet) {
		t.Errorf("JoinFleet with another namespace = %v; want ErrFleet", err)
	}
	h, err := weirhttp.New(http.NotFoundHandler(), weirhttp.Options{Cache: cache, Fleet: o})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil || cache.Stats().Fleet == nil {
		t.Errorf("Close = %v, Stats().Fleet = %v; want the Cache to stay a member", err, cache.Stats().Fleet)
	}
	if err := cache.Close(t.Context()); err != nil || cache.Stats().Fleet != nil {
		t.Errorf("Close of the Cache = %v; want no membership after it", err)
	}
	if err := cache.Close(t.Context()); err != nil {
		t.Errorf("Close of the Cache again = %v; want nil", err)
	}
}
