package weirhttp_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func TestH21_CacheStatusInEachCase(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			one := permits(t, limit.ConcurrencyOptions{Limit: 2, Queue: -1})
			status := 0
			s := open(t, p, weirhttp.Options{Limiter: one}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				w.Header().Set("Etag", `"1"`)
				w.Header().Set("Vary", "Accept")
				w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=10, stale-if-error=1000")
				switch {
				case r.URL.Path == "/mine":
					w.Header().Set("Cache-Control", "no-store")
				case status != 0:
					w.WriteHeader(status)
				case r.Header.Get("If-None-Match") != "":
					w.WriteHeader(304)
				}
			})
			is := func(r reply, want string) {
				t.Helper()
				if got := fmt.Sprint(r.header["Cache-Status"]); got != "["+want+"]" {
					t.Errorf("Cache-Status = %s; want [%s]", got, want)
				}
			}
			is(s.get("/a"), "weir; fwd=uri-miss; fwd-status=200; ttl=10; stored")
			is(s.get("/a"), "weir; hit; ttl=10")
			is(s.get("/a", "Cache-Control", "no-cache"), "weir; fwd=request; fwd-status=304; ttl=10; stored")
			is(s.get("/new", "Cache-Control", "no-cache"), "weir; fwd=uri-miss; fwd-status=200; ttl=10; stored")
			is(s.get("/a", "Accept", "x"), "weir; fwd=vary-miss; fwd-status=200; ttl=10; stored")
			is(s.get("/a", "Cookie", "x"), `weir; fwd=bypass; fwd-status=200; detail="cookie"`)
			is(s.do(s.request(t.Context(), "POST", "/b")), "weir; fwd=method; fwd-status=200")
			is(s.get("/a", "Accept", "text/event-stream"), "weir; fwd=bypass; fwd-status=200")
			time.Sleep(15 * time.Second)
			is(s.get("/a"), "weir; hit; ttl=-7")
			time.Sleep(slow)
			synctest.Wait()
			time.Sleep(30 * time.Second)
			is(s.get("/a"), "weir; fwd=stale; fwd-status=304; ttl=10; stored")
			time.Sleep(30 * time.Second)
			status = 503
			is(s.get("/a"), "weir; fwd=stale; fwd-status=503; ttl=-20")
			status = 0
			go s.get("/c")
			time.Sleep(slow / 2)
			is(s.get("/c"), "weir; fwd=uri-miss; fwd-status=200; ttl=10; stored; collapsed")
			go s.get("/mine")
			time.Sleep(slow / 2)
			is(s.get("/mine"), `weir; fwd=uri-miss; fwd-status=200; collapsed=?0; detail="no-store"`)
			go s.get("/d")
			go s.get("/e")
			time.Sleep(slow / 2)
			is(s.get("/f"), "weir; fwd=uri-miss")
			time.Sleep(slow)
		})
	})
}

// told is a ResponseWriter that keeps the last Receipt.
type told struct {
	http.ResponseWriter
	last weirhttp.Receipt
}

func (w *told) SetReceipt(r weirhttp.Receipt) { w.last = r }
func (w *told) Unwrap() http.ResponseWriter   { return w.ResponseWriter }

func TestH21_ExplainAgreesWithWhatThenHappens(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { explained(t, seed) })
		if t.Failed() {
			t.Logf("seed %d", seed)
			return
		}
	}
}

// explained calls Explain in random states, and then sends the request.
func explained(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	controls := []string{"max-age=10", "public, max-age=10", "no-store", "max-age=5, stale-while-revalidate=20", "no-cache", "", "s-maxage=3"}
	fields := [][]string{nil, nil, nil, {"Cookie", "a=b"}, {"Authorization", "x"}, {"Range", "bytes=0-0"}, {"If-None-Match", `"2"`},
		{"Cache-Control", "no-cache"}, {"Cache-Control", "no-store"}, {"Cache-Control", "only-if-cached"}, {"Accept", "text/event-stream"},
		{"Accept", "a"}, {"Cache-Control", "max-stale=5"}}
	s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Slow") != "" {
			time.Sleep(time.Second)
		}
		if v := controls[int(r.URL.Path[1]-'a')]; v != "" {
			w.Header().Set("Cache-Control", v)
		}
		w.Header().Set("Vary", "Accept")
		_, _ = io.WriteString(w, "x")
	})
	receipts := make(chan weirhttp.Receipt, 1000)
	s.client = dialled(t, h1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := &told{ResponseWriter: w}
		if r.Header.Get("Explain") == "" {
			s.handler.ServeHTTP(to, r)
			return
		}
		e := s.handler.Explain(r)
		before := s.calls.Load()
		s.handler.ServeHTTP(to, r)
		called := s.calls.Load() > before
		switch got := to.last.Outcome; e.Answer {
		case "hit":
			if got != weirhttp.OutcomeHit || called {
				t.Errorf("%s %s %v: explained as hit, was %d, %v", r.Method, r.URL, r.Header, got, e.Steps)
			}
		case "stale":
			if got != weirhttp.OutcomeStale {
				t.Errorf("%s %s %v: explained as stale, was %d, %v", r.Method, r.URL, r.Header, got, e.Steps)
			}
		case "pass":
			if got != weirhttp.OutcomePass {
				t.Errorf("%s %s %v: explained as pass, was %d, %v", r.Method, r.URL, r.Header, got, e.Steps)
			}
		case "error":
			if got != weirhttp.OutcomeFailed {
				t.Errorf("%s %s %v: explained as error, was %d, %v", r.Method, r.URL, r.Header, got, e.Steps)
			}
		case "lead", "call":
			if got != weirhttp.OutcomeMiss && got != weirhttp.OutcomeValidated || !called {
				t.Errorf("%s %s %v: explained as %s, was %d, %v", r.Method, r.URL, r.Header, e.Answer, got, e.Steps)
			}
		case "join":
			if s.handler.Stats().Released == 0 && got != weirhttp.OutcomeJoined {
				t.Errorf("%s %s %v: explained as join, was %d, %v", r.Method, r.URL, r.Header, got, e.Steps)
			}
		default:
			t.Errorf("Explain returned the answer %q", e.Answer)
		}
		receipts <- to.last
	}))
	for range 60 {
		method := []string{"GET", "GET", "GET", "HEAD", "POST"}[rng.IntN(5)]
		target := "/" + string(rune('a'+rng.IntN(len(controls))))
		f := append([]string{"Explain", "1"}, fields[rng.IntN(len(fields))]...)
		switch rng.IntN(4) {
		case 0:
			go s.get(target, "Slow", "1")
			synctest.Wait()
		case 1:
			// Not at the time when a slow response arrives: whether there is one is
			// checked twice.
			time.Sleep(time.Duration(rng.IntN(15))*time.Second + 300*time.Millisecond)
		}
		synctest.Wait() // nor while a background refresh ends
		s.do(s.request(t.Context(), method, target, f...))
		<-receipts
	}
	time.Sleep(time.Minute)
}

func TestH22_ObserveModeChangesNothingAndCounts(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			one := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
			clients, _ := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour, Key: weirhttp.ByHeader("User", nil)})
			n := 0
			o := weirhttp.Options{Observe: true, Limiter: one, ClientLimiter: clients, Policy: weirhttp.Policy{IgnoreCookies: []string{"*"}}}
			s := open(t, p, o, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(slow)
				if r.URL.Path == "/counts" {
					n++
					_, _ = fmt.Fprint(w, n)
				}
				w.Header().Set("Cache-Control", "max-age=60")
				if r.Header.Get("Cookie") != "" {
					_, _ = io.WriteString(w, "x")
				}
			})
			count := func() weirhttp.ObserveStats { synctest.Wait(); return s.handler.Stats().Observed }
			s.get("/a")
			s.get("/a")
			if got := count(); got != (weirhttp.ObserveStats{Hits: 1, Compared: 1}) {
				t.Errorf("after a hit: %+v", got)
			}
			s.together(3, s.same("/b"))
			if got := count(); got != (weirhttp.ObserveStats{Hits: 1, Joined: 2, Compared: 3}) {
				t.Errorf("after three at once: %+v", got)
			}
			s.get("/a", "Cookie", "u=1") // ignored by the policy, but the response differs: not safe
			if got := count(); got.Hits != 2 || got.Differed != 1 {
				t.Errorf("after a response that differs by an ignored cookie: %+v", got)
			}
			s.do(s.request(t.Context(), "POST", "/a"))
			s.get("/a")
			if got := count(); got.Hits != 2 || got.Differed != 1 {
				t.Errorf("after an invalidation: %+v; want no hit", got)
			}
			s.get("/a", "User", "u")
			s.get("/a", "User", "u").want(t, 200, "")
			if got := count(); got.RefusedClient != 1 {
				t.Errorf("RefusedClient = %d; want 1", got.RefusedClient)
			}
			for i, r := range s.together(4, func(i int) *http.Request { return s.request(t.Context(), "GET", fmt.Sprint("/", i)) }) {
				r.want(t, 200, "")
				if r.took != slow || r.header.Get("Cache-Status") != "" {
					t.Errorf("%d: %v, %v; want no change", i, r.took, r.header)
				}
			}
			if got := count(); got.Queued != 3 {
				t.Errorf("Queued = %d; want 3", got.Queued)
			}
			s.wantCalls(14)
		})
	})
}
