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
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// doors are those of n instances on one meter.
func doors(t *testing.T, n int, o weirhttp.DoorOptions) ([]*weirhttp.Door, []*fleettest.Faults) {
	t.Helper()
	engine := fleet.NewMemory(fleet.MemoryOptions{})
	var all []*weirhttp.Door
	var lines []*fleettest.Faults
	for range n {
		line := fleettest.NewFaults(engine)
		o.Fleet.Meter = fleet.WithBreaker(line, fleet.BreakerOptions{})
		all, lines = append(all, newDoor(t, o)), append(lines, line)
	}
	return all, lines
}

func TestFleetDoorsKeepToOneRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := doors(t, 4, weirhttp.DoorOptions{Rate: 10, Burst: 20, Name: "shop", Fleet: weirhttp.DoorFleet{OnFailure: fleet.FailClosed}})
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
				t.Errorf("%s was let in %d times in 10 s by all doors together; want 120 at most, and about 100", client, n)
			}
		}
	})
}

func TestFleetDoorWithoutItsMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			fleet  weirhttp.DoorFleet
			status int
		}{
			{weirhttp.DoorFleet{OnFailure: fleet.FailOpen}, 200},
			{weirhttp.DoorFleet{OnFailure: fleet.FailClosed}, 503},
			{weirhttp.DoorFleet{OnFailure: fleet.FailLocalShare, Instances: 10}, 429},
		} {
			all, lines := doors(t, 1, weirhttp.DoorOptions{Rate: 10, Burst: 20, Fleet: tt.fleet})
			h, err := weirhttp.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), weirhttp.Options{Door: all[0], NoStore: true})
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
				t.Errorf("RateLimit = %q, RateLimit-Policy = %q; want the policy only", w.Header().Get("RateLimit"), w.Header().Get("RateLimit-Policy"))
			}
		}
	})
}

func TestFleetDoorOptions(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	for field, o := range map[string]weirhttp.DoorOptions{
		"DoorOptions.Fleet.OnFailure": {Rate: 10, Fleet: weirhttp.DoorFleet{Meter: m}},
		"DoorOptions.Fleet.Instances": {Rate: 10, Fleet: weirhttp.DoorFleet{Meter: m, OnFailure: fleet.FailLocalShare}},
		"DoorOptions.Burst":           {Rate: 1, Fleet: weirhttp.DoorFleet{Meter: m, OnFailure: fleet.FailOpen}},
	} {
		if _, err := weirhttp.NewDoor(o); err == nil || !strings.Contains(err.Error(), field) || !errors.As(err, new(*weirhttp.OptionError)) {
			t.Errorf("NewDoor = %v; want a fault of %s", err, field)
		}
	}
}
