package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H34: without the engine each gateway has its share of a budget of the fleet: that of a
// route, and that of a client.
func TestH34_SharesOfAFleet(t *testing.T) {
	line := fleettest.NewFaults(fleet.NewMemory(fleet.MemoryOptions{}))
	s := open(t, gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "model", Servers: []string{model(t).URL}, Cost: weirhttp.Cost{Units: 10}}},
		Routes: []gateway.Route{
			{Name: "route", Path: "/route", Budget: &gateway.Budget{Units: 1000, Per: 1000 * time.Second, Fleet: true}},
			{Name: "client", Path: "/client", ClientBudget: &gateway.ClientBudget{Units: 1000, Per: 1000 * time.Second, Fleet: true}},
		},
		Fleet: &gateway.Fleet{Config: fleet.Config{Tier: line}, RateFailure: quota.FailLocalShare, Instances: 10},
	})
	line.Cut()
	for path, status := range map[string]int{"/route": http.StatusServiceUnavailable, "/client": http.StatusTooManyRequests} {
		resp, err := s.client.Post(s.url+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		// 10 units of a tenth of 1 per second; some ms may have passed. A shared limit is spread (H46).
		got, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil || resp.StatusCode != status || got < 99 || got > 110 || status == 429 && got > 100 {
			t.Errorf("%s: got %d, Retry-After %d, %v; want %d and 100, or for the route up to 110", path, resp.StatusCode, got, err, status)
		}
	}
}

// H34: Queue and QueueWait of a budget of the fleet count.
func TestH34_TheQueueOfABudgetOfAFleet(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(origin.Close)
	s := open(t, gateway.Config{
		Upstreams: []gateway.Upstream{{
			Name: "model", Servers: []string{origin.URL}, Cost: weirhttp.Cost{Units: 10},
			Budget: &gateway.Budget{Units: 10, Per: time.Hour, Queue: 1, QueueWait: 2 * time.Hour, Fleet: true},
		}},
		Routes: []gateway.Route{{Name: "all"}},
		Fleet:  &gateway.Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{})}, RateFailure: quota.FailClosed},
	})
	send := func(ctx context.Context) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader("x"))
		if err != nil {
			t.Error(err)
			return 0
		}
		resp, err := s.client.Do(r)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := send(t.Context()); got != 200 {
		t.Errorf("got %d; want 200", got)
	}
	waiting, leave := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { done <- send(waiting) }()
	s.until("a call waits for an hour", func() bool { return s.g.Stats().Upstreams["model"].Budget.Queued == 1 })
	if got := send(t.Context()); got != 503 {
		t.Errorf("got %d; want 503, because there is a place for one", got)
	}
	leave()
	<-done
}
