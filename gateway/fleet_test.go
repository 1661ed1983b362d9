package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// openFleet returns n gateways before one origin, on one tier, and what configures
// the last of them.
func openFleet(t *testing.T, n int, calls *atomic.Int64) ([]*gateway.Gateway, gateway.Config) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Cache-Control", "max-age=600")
		io.WriteString(w, r.URL.Path)
	}))
	t.Cleanup(origin.Close)
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	t.Cleanup(func() { _ = tier.Close(context.Background()) })
	c := gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "a", Servers: []string{origin.URL}}},
		Routes: []gateway.Route{
			{Name: "all"}, {Name: "own", Path: "/own", NoFleet: true},
			{Name: "scarce", Path: "/scarce", Rate: &weirhttp.ClientLimiterOptions{Rate: 10, Per: time.Hour}},
		},
		Fleet: &gateway.Fleet{Config: fleet.Config{Tier: tier}, RateFailure: quota.FailClosed},
	}
	var all []*gateway.Gateway
	for range n {
		g, err := gateway.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Close(t.Context()); err != nil && t.Context().Err() == nil {
				t.Errorf("Close: %v", err)
			}
		})
		all = append(all, g)
	}
	return all, c
}

func asked(g *gateway.Gateway, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.example"+path, nil))
	return w
}

func TestFleetOfGateways(t *testing.T) {
	var calls atomic.Int64
	all, _ := openFleet(t, 3, &calls)
	for _, g := range all {
		if w := asked(g, "/x"); w.Code != 200 || w.Body.String() != "/x" {
			t.Errorf("/x = %d %q", w.Code, w.Body)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the origin was called %d times; want 1", n)
	}
	for _, g := range all {
		asked(g, "/own")
	}
	if n := calls.Load(); n != 4 {
		t.Errorf("the origin was called %d times; want 4: a route outside the fleet is each one's own", n)
	}
	in := 0
	for range 5 {
		for _, g := range all {
			if asked(g, "/scarce").Code == 200 {
				in++
			}
		}
	}
	if in > 10 || in < 5 {
		t.Errorf("%d of 15 requests were let in; want 10 at most", in)
	}
	if s := all[0].Stats(); s.Cache.Fleet == nil || s.Cache.Fleet.Acquires == 0 || all[1].Stats().Routes["all"].Fleet != 1 {
		t.Errorf("Stats = %+v; want the fleet's counters", s.Cache.Fleet)
	}
}

func TestFleetStaysAtAnUpdate(t *testing.T) {
	var calls atomic.Int64
	all, c := openFleet(t, 1, &calls)
	g := all[0]
	asked(g, "/x")
	rates := *c.Fleet
	rates.RateFailure = quota.FailOpen
	c.Fleet = &rates
	if err := g.Update(c); err != nil {
		t.Errorf("Update with another RateFailure = %v; want nil", err)
	}
	asked(g, "/x")
	if n := calls.Load(); n != 1 {
		t.Errorf("the origin was called %d times; want 1: the cache stays", n)
	}
	other := rates
	other.Namespace = "other"
	for _, f := range []*gateway.Fleet{nil, &other} {
		c.Fleet = f
		var e *gateway.OptionError
		if err := g.Update(c); !errors.As(err, &e) || e.Field != "Fleet" {
			t.Errorf("Update with %+v = %v; want a fault of Fleet", f, err)
		}
	}
}

func TestFleetIsValidated(t *testing.T) {
	base := gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "a", Servers: []string{"http://127.0.0.1:1"}}},
		Routes:    []gateway.Route{{Name: "r", Rate: &weirhttp.ClientLimiterOptions{Rate: 1}}},
	}
	for field, f := range map[string]gateway.Fleet{
		"Fleet.RateFailure":    {},
		"Fleet.Instances":      {RateFailure: quota.FailLocalShare},
		"Fleet.Lease":          {RateFailure: quota.FailOpen, Config: fleet.Config{Lease: time.Millisecond}},
		"Routes[0].Rate.Burst": {RateFailure: quota.FailOpen},
	} {
		c := base
		c.Fleet = &f
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field+" ") {
			t.Errorf("Validate with %+v = %v; want a fault of %s", f, err, field)
		}
	}
	c := base
	c.Routes = []gateway.Route{{Name: "r"}}
	c.Fleet = &gateway.Fleet{}
	if err := c.Validate(); err != nil {
		t.Errorf("Validate without a Tier = %v; want nil: it opens nothing", err)
	}
	if _, err := gateway.New(c); err == nil || !strings.Contains(err.Error(), "Fleet.Tier") {
		t.Errorf("New without a Tier = %v; want a fault of Fleet.Tier", err)
	}
}
