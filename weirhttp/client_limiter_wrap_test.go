package weirhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/weirhttp"
)

// H13: a ClientLimiter limits clients in front of any handler.
func TestH13_AClientLimiterWrapsAnyHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1, Burst: 1})
		calls := 0
		h := d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.WriteHeader(http.StatusTeapot)
		}))
		for i, want := range []struct {
			addr, limit, after string
			status, calls      int
		}{
			{"192.0.2.1:1", `"default";r=0;t=1`, "", http.StatusTeapot, 1},
			{"192.0.2.1:2", `"default";r=0;t=1`, "1", http.StatusTooManyRequests, 1},
			{"192.0.2.2:1", `"default";r=0;t=1`, "", http.StatusTeapot, 2},
		} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, from(want.addr))
			if w.Code != want.status || calls != want.calls || w.Header().Get("RateLimit") != want.limit || w.Header().Get("Retry-After") != want.after {
				t.Errorf("request %d = %d, fields %v, calls of the handler %d; want %+v", i, w.Code, w.Header(), calls, want)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, from("192.0.2.1:1").WithContext(gone))
		if w.Body.Len() != 0 || calls != 2 {
			t.Errorf("a client that has left: body %q, calls of the handler %d; want none, 2", w.Body, calls)
		}
	})
}

// H13: without the Meter of the fleet, Wrap responds as a Handler does.
func TestH13_AWrappedHandlerWithoutTheMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, lines := fleetLimiters(t, 1, weirhttp.ClientLimiterOptions{Rate: 10, Fleet: weirhttp.ClientLimiterFleet{OnFailure: quota.FailClosed}})
		lines[0].Cut()
		w := httptest.NewRecorder()
		all[0].Wrap(http.NotFoundHandler()).ServeHTTP(w, from("192.0.2.1:1"))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("without the Meter: %d, Retry-After %q; want 503 with Retry-After", w.Code, w.Header().Get("Retry-After"))
		}
	})
}

func TestClientLimiterWrapPanicsWithoutAHandler(t *testing.T) {
	d := newClientLimiter(t, weirhttp.ClientLimiterOptions{Rate: 1})
	for name, next := range map[string]http.Handler{"nil": nil, "a nil HandlerFunc": http.HandlerFunc(nil)} {
		func() {
			defer func() {
				if got := recover(); got != "weirhttp: ClientLimiter.Wrap: next is nil" {
					t.Errorf("Wrap(%s) panicked with %v; want the package prefix and the reason", name, got)
				}
			}()
			d.Wrap(next)
		}()
	}
}
