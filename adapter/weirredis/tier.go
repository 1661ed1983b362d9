package weirredis

import (
	"context"
	"fmt"
	"sync"

	"github.com/weir-go/weir/fleet"
)

// A Tier is what the instances of a service share, on Redis or Valkey, behind a
// breaker. It is safe for concurrent use. Make one with New.
type Tier struct {
	*fleet.Breaker // operations and State

	engine  *engine
	closing sync.Once
	closed  chan struct{} // closed once everything has ended
}

var (
	_ fleet.Tier   = (*Tier)(nil)
	_ fleet.Meter  = (*Tier)(nil)
	_ fleet.Roster = (*Tier)(nil)
)

// New returns a Tier. It waits for the first connection, at most DialTimeout; if
// ctx ends before, it returns the cause. An engine that cannot be reached is no
// error: the Tier is unavailable until it can, and goes on trying in the
// background. What the engine says no to is an error, such as a wrong password.
func New(ctx context.Context, o Options) (*Tier, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	e := newEngine(o)
	if err := e.start(ctx); err != nil {
		e.close()
		return nil, fmt.Errorf("weirredis: connect: %w", err)
	}
	return &Tier{Breaker: fleet.WithBreaker(e, o.Breaker), engine: e, closed: make(chan struct{})}, nil
}

// Close ends all connections; watches get nothing more. Operations from
// then on fail with an error that matches fleet.ErrUnavailable. It waits for
// commands that are on their way, which takes up to twice the PingInterval where
// the engine hangs, until ctx ends, and then returns its cause. It may be called
// again, and not from a Watcher.
func (t *Tier) Close(ctx context.Context) error {
	t.closing.Do(func() {
		go func() { // ends with the engine's commands
			defer close(t.closed)
			_ = t.Breaker.Close(context.Background()) // without an end of its context it returns nil
			t.engine.close()
		}()
	})
	select {
	case <-t.closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
