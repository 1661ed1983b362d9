package rig

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limit"
)

// A Gate is a limiter that admits all callers, or none.
type Gate struct {
	Shut atomic.Bool
	Out  atomic.Int64 // permits that have not been released
}

func (g *Gate) Acquire(context.Context) (limit.Permit, error) {
	if g.Shut.Load() {
		return limit.Permit{}, &limit.Error{Limiter: "gate", Reason: limit.RateExceeded, RetryAfter: time.Second}
	}
	g.Out.Add(1)
	return limit.NewPermit(func(limit.Outcome) { g.Out.Add(-1) }), nil
}

// A LimiterFunc is a Limiter that is a function.
type LimiterFunc func(ctx context.Context) (limit.Permit, error)

func (f LimiterFunc) Acquire(ctx context.Context) (limit.Permit, error) { return f(ctx) }

func WantInUse(s *Story, c *limit.Concurrency, want int) {
	s.Helper()
	if n := c.Stats().InUse; n != want {
		s.Errorf("at %v: %d permits out; want %d", s.Now(), n, want)
	}
}

func Concurrency(s *Story, o limit.ConcurrencyOptions) *limit.Concurrency {
	s.Helper()
	c, err := limit.NewConcurrency(o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { // runs after the Guards are closed, if they were made later
		if st := c.Stats(); st.InUse != 0 || st.Queued != 0 {
			s.Errorf("%d permits out, %d callers queued at the end; want none", st.InUse, st.Queued)
		}
	})
	return c
}
