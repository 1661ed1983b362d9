package weirhttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// fleetLimiters returns the ClientLimiters of n instances on one meter.
func fleetLimiters(t *testing.T, n int, o weirhttp.ClientLimiterOptions) ([]*weirhttp.ClientLimiter, []*fleettest.Faults) {
	t.Helper()
	engine := fleet.NewMemory(fleet.MemoryOptions{})
	var all []*weirhttp.ClientLimiter
	var lines []*fleettest.Faults
	for range n {
		line := fleettest.NewFaults(engine)
		o.Fleet.Meter = fleet.WithBreaker(line, fleet.BreakerOptions{})
		all, lines = append(all, newClientLimiter(t, o)), append(lines, line)
	}
	return all, lines
}

func TestFleetClientLimitersKeepToOneRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := fleetLimiters(t, 4, weirhttp.ClientLimiterOptions{Rate: 10, Burst: 20, Name: "shop", Fleet: weirhttp.ClientLimiterFleet{OnFailure: quota.FailClosed}})
		in := map[string]int{}
		for range 100 { // for 10 s
			for _, d := range all {
				for _, client := range []string{"192.0.2.1:1", "192.0.2.2:1"} {
					err := d.Admit(from(client), nil)
					var e *limit.Error
					if err == nil {
						in[client]++
					} else if !errors.As(err, &e) || e.Reason != limit.RateExceeded || e.RetryAfter <= 0 || e.Limiter != "shop" {
						t.Fatalf("Admit = %v; want a *limit.Error of shop", err)
					}
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		for client, n := range in {
			if n > 120 || n < 80 {
				t.Errorf("%s was admitted %d times in 10 s by all limiters together; want about 100, and at most 120", client, n)
			}
		}
	})
}

func TestFleetClientLimiterWithoutItsMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			fleet  weirhttp.ClientLimiterFleet
			status int
		}{
			{weirhttp.ClientLimiterFleet{OnFailure: quota.FailOpen}, 200},
			{weirhttp.ClientLimiterFleet{OnFailure: quota.FailClosed}, 503},
			{weirhttp.ClientLimiterFleet{OnFailure: quota.FailLocalShare, Instances: 10}, 429},
		} {
			all, lines := fleetLimiters(t, 1, weirhttp.ClientLimiterOptions{Rate: 10, Burst: 20, Fleet: tt.fleet})
			h, err := weirhttp.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), weirhttp.Options{ClientLimiter: all[0], NoStore: true})
			if err != nil {
				t.Fatal(err)
			}
			lines[0].Cut()
			var w *httptest.ResponseRecorder
			for range 10 {
				w = httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			}
			if w.Code != tt.status || (tt.status != 200) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%v: %d, Retry-After %q; want %d", tt.fleet.OnFailure, w.Code, w.Header().Get("Retry-After"), tt.status)
			}
			if w.Header().Get("RateLimit") != "" || w.Header().Get("RateLimit-Policy") != `"default";q=10;w=1` {
				t.Errorf("RateLimit = %q, RateLimit-Policy = %q; want only the policy", w.Header().Get("RateLimit"), w.Header().Get("RateLimit-Policy"))
			}
		}
	})
}

func TestFleetClientLimiterOptions(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	for field, o := range map[string]weirhttp.ClientLimiterOptions{
		"ClientLimiterOptions.Fleet.OnFailure": {Rate: 10, Fleet: weirhttp.ClientLimiterFleet{Meter: m}},
		"ClientLimiterOptions.Fleet.Instances": {Rate: 10, Fleet: weirhttp.ClientLimiterFleet{Meter: m, OnFailure: quota.FailLocalShare}},
		"ClientLimiterOptions.Burst":           {Rate: 1, Fleet: weirhttp.ClientLimiterFleet{Meter: m, OnFailure: quota.FailOpen}},
	} {
		if _, err := weirhttp.NewClientLimiter(o); err == nil || !strings.Contains(err.Error(), field) || !errors.As(err, new(*weirhttp.OptionError)) {
			t.Errorf("NewClientLimiter = %v; want a fault in %s", err, field)
		}
	}
}
