package weirredis

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/weir-go/weir/fleet"
)

// A Tier is a [fleet.Tier] on Redis or Valkey, behind a breaker. It is safe for
// concurrent use. Create one with New.
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

// New returns a Tier. It waits for the first connection for at most DialTimeout; if
// ctx ends first, it returns the cause of ctx. An unreachable engine is not an error:
// the Tier is unavailable until it can connect, and retries in the background. A
// rejection by the engine, such as for a wrong password, is an error.
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

// Close closes all connections; Watchers get no more calls. Later operations fail
// with an error that matches fleet.ErrUnavailable. Close waits for commands in
// flight, which takes up to twice the PingInterval if the engine hangs. If ctx ends
// first, Close returns the cause of ctx. It may be called again, but not from a
// Watcher.
func (t *Tier) Close(ctx context.Context) error {
	t.closing.Do(func() {
		go func() { // ends with the engine's commands
			defer close(t.closed)
			_ = t.Breaker.Close(context.Background()) // returns nil, because its context never ends
			t.engine.close()
		}()
	})
	select {
	case <-t.closed:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}
