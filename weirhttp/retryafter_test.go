package weirhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

// H26: an origin that states with its 503 when it may be called again is not called before,
// up to MaxCooling, whichever way the call is made.
func TestH26_RetryAfterOfTheOriginIsObeyed(t *testing.T) {
	for name, row := range map[string]struct {
		o      weirhttp.Options
		method string
		fields []string
		stale  string
	}{
		"shared":             {},
		"without coalescing": {o: weirhttp.Options{NoCoalescing: true}},
		"by HEAD":            {method: "HEAD"},
		"by a range":         {fields: []string{"Range", "bytes=0-"}},
		"by a refresh":       {stale: "stale-while-revalidate"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stale := "stale-if-error"
				if row.stale != "" {
					stale = row.stale
				}
				o := &sick{fields: []string{"Cache-Control", "max-age=1, " + stale + "=86400", "ETag", `"1"`}}
				s := open(t, h1, row.o, o.ServeHTTP)
				s.get("/x").want(t, 200, "v")
				time.Sleep(2 * time.Second)
				o.status.Store(503)
				method := row.method
				if method == "" {
					method = "GET"
				}
				calls := int64(1)
				for _, phase := range []struct {
					stated string
					wait   time.Duration
				}{{"30", 30 * time.Second}, {"99999999999", weirhttp.DefaultMaxCooling}} {
					o.failed = []string{"Retry-After", phase.stated}
					calls++
					for began := time.Now(); time.Since(began) < phase.wait-time.Millisecond; time.Sleep(phase.wait / 60) {
						if r := s.do(s.request(t.Context(), method, "/x", row.fields...)); r.status/100 != 2 {
							t.Errorf("got %d; want the stale response", r.status)
						}
						synctest.Wait()
						s.wantCalls(calls)
					}
				}
			})
		})
	}
}

// H26: in a fleet the other instances do not call it either.
func TestH26_RetryAfterHoldsForTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, down atomic.Int64
		tier := fleet.NewMemory(fleet.MemoryOptions{})
		o := weirhttp.Options{Fleet: weirhttp.FleetOptions{Config: fleet.Config{Tier: tier, MaxCooling: time.Minute}}}
		get := func() func() *httptest.ResponseRecorder {
			h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				if down.Load() > 0 {
					w.Header().Set("Retry-After", "30")
					w.WriteHeader(503)
					return
				}
				w.Header().Set("Cache-Control", "max-age=1, stale-if-error=86400")
			}), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = h.Close(context.Background()) })
			return func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.test/x", nil))
				return w
			}
		}
		a, b := get(), get()
		a()
		b()
		time.Sleep(2 * time.Second)
		down.Store(1)
		calls.Store(0)
		for range 29 {
			if w := a(); w.Code != 200 {
				t.Errorf("a: %d; want the stored response", w.Code)
			}
			if w := b(); w.Code != 200 {
				t.Errorf("b: %d; want the stored response", w.Code)
			}
			time.Sleep(time.Second)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
}

// H34: a Guard whose loads are calls to an HTTP service calls none of its keys while the
// service has stated a pause, and its own callers learn the time that is left.
func TestH34_RetryAfterReachesGuardLimiterAndClient(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			load := func(context.Context, int) (int, error) {
				calls++
				resp := &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"30"}}}
				return 0, weirhttp.ResponseError(resp)
			}
			g := weir.Must(weir.New(load, weir.Options{Limiter: weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxWait: time.Millisecond})}))
			defer g.Close(t.Context())
			for i := range 29 {
				for key := range 3 {
					_, err := g.Get(t.Context(), key)
					w := httptest.NewRecorder()
					weirhttp.Error(w, httptest.NewRequest("GET", "/", nil), err)
					want := (time.Duration(30-i) * time.Second).Seconds()
					if e := weirhttp.ErrorResponseTo(err); w.Code != 503 || e.RetryAfter.Seconds() != want {
						t.Errorf("after %d s: %d, Retry-After %v; want 503, %v s", i, w.Code, e.RetryAfter, want)
					}
				}
				time.Sleep(time.Second)
			}
			if calls != 1 {
				t.Errorf("%d calls; want 1", calls)
			}
		})
	}
}

// H34: which responses are errors of a load.
func TestH34_ResponseError(t *testing.T) {
	for _, row := range []struct {
		status   int
		after    string
		notFound bool
		stated   bool
	}{
		{200, "7", false, false}, {304, "", false, false}, {404, "", true, false}, {410, "7", true, false},
		{500, "7", false, false}, {503, "", false, false}, {503, "soon", false, false}, {503, "7", false, true}, {429, "7", false, true},
	} {
		err := weirhttp.ResponseError(&http.Response{StatusCode: row.status, Header: http.Header{"Retry-After": {row.after}}})
		var of *weirhttp.StatusError
		if (err == nil) != (row.status < 400) || err != nil && (!errors.As(err, &of) || of.Status != row.status) {
			t.Errorf("%d: %v; want a *StatusError", row.status, err)
		}
		if errors.Is(err, weir.ErrNotFound) != row.notFound || errors.As(err, new(*weir.RetryAfterError)) != row.stated {
			t.Errorf("%d with Retry-After %q: %v; want not found: %v, stated: %v", row.status, row.after, err, row.notFound, row.stated)
		}
	}
	if e := weirhttp.ErrorResponseTo(weir.RetryAfter(weir.ErrNotFound, time.Minute)); e.Status != 404 {
		t.Errorf("a not-found with a time is %d; want 404", e.Status)
	}
}
