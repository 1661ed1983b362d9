package weirhttp_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/weirhttp"
)

// An ensemble is a set of instances of one service in front of one origin. They share
// a Tier, each through a separate connection.
type ensemble struct {
	t     *testing.T
	tier  *fleet.Memory
	sites []*site
	lines []*fleettest.Faults
}

// openEnsemble opens n instances. set, if not nil, changes the options of each.
func openEnsemble(t *testing.T, n int, set func(i int, o *weirhttp.Options), origin http.HandlerFunc) *ensemble {
	t.Helper()
	e := &ensemble{t: t, tier: fleet.NewMemory(fleet.MemoryOptions{})}
	t.Cleanup(func() { _ = e.tier.Close(context.Background()) })
	for i := range n {
		line := fleettest.NewFaults(e.tier)
		breaker := fleet.WithBreaker(line, fleet.BreakerOptions{})
		o := weirhttp.Options{Fleet: weirhttp.FleetOptions{Config: fleet.Config{Tier: breaker}}}
		if set != nil {
			set(i, &o)
		}
		s := open(t, h1, o, origin)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := s.handler.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
			_ = breaker.Close(context.Background())
		})
		e.sites, e.lines = append(e.sites, s), append(e.lines, line)
	}
	return e
}

// calls returns how often the origin was called.
func (e *ensemble) calls() int64 {
	var n int64
	for _, s := range e.sites {
		n += s.calls.Load()
	}
	return n
}

func (e *ensemble) wantCalls(n int64) {
	e.t.Helper()
	if got := e.calls(); got != n {
		e.t.Errorf("the origin was called %d times; want %d", got, n)
	}
}

// everywhere sends n requests at once to each instance, and returns the replies of
// each.
func (e *ensemble) everywhere(n int, request func(s *site, i int) *http.Request) [][]reply {
	replies := make([][]reply, len(e.sites))
	var wg sync.WaitGroup
	for k, s := range e.sites {
		wg.Go(func() { replies[k] = s.together(n, func(i int) *http.Request { return request(s, i) }) })
	}
	wg.Wait()
	return replies
}

// everybody returns the same request for a target for every client.
func everybody(target string, fields ...string) func(*site, int) *http.Request {
	return func(s *site, _ int) *http.Request {
		return s.request(s.t.Context(), http.MethodGet, target, fields...)
	}
}

// counting returns an origin that responds with the number of the call, after some
// time.
func counting(after time.Duration, fields ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		mine := n.Add(1)
		answering(after, append(fields, "X-Call", string(rune('0'+mine)))...)(w, r)
	}
}

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
