package inflight

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/lend"
)

// A loadContext is the context of one load. It carries the values of the
// caller that started the load, never that caller's deadline or cancellation,
// and ends when the load is final.
type loadContext struct {
	values context.Context // used for values only
	origin context.Context // the initial values: leads to the loads that this one descends from
	stop   context.Context // a *cancelCtx of package context, so that children need no goroutine
	cancel context.CancelCauseFunc

	deadline time.Time // written by the load's goroutine before the function runs
	expired  atomic.Bool
	load     member // the load that has this context
	call     *lend.Call
}

// A member reports whether a load runs a key of a table. With it, the chain of
// contexts of nested loads can be searched without knowing their types.
type member interface {
	runs(table, key any) bool
}

// ancestorKey is the context key of the innermost loadContext.
type ancestorKey struct{}

func (c *loadContext) init(values context.Context, load member, call *lend.Call) {
	c.values, c.origin = values, values
	c.load, c.call = load, call
	c.stop, c.cancel = context.WithCancelCause(context.Background())
}

// Deadline returns the instant of the hard timeout, if the load has one.
func (c *loadContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is closed when the load is final.
func (c *loadContext) Done() <-chan struct{} { return c.stop.Done() }

// Err returns DeadlineExceeded after the hard timeout. Contexts derived from this
// one return Canceled in that case, because package context offers no other way.
// The cause is right in both.
func (c *loadContext) Err() error {
	err := c.stop.Err()
	if err != nil && c.expired.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// String keeps mocks and loggers that print a context from traversing the load
// and its table, which would race with the joiners.
func (c *loadContext) String() string { return "weir.load" }

// Value looks in stop first: stop has the private key of package context, through
// which context.Cause and derived contexts find the right cancellation. They must
// not find the caller's own cancellation, in values.
func (c *loadContext) Value(key any) any {
	if _, ok := key.(ancestorKey); ok {
		return c
	}
	if lend.IsKey(key) {
		return c.call
	}
	if v := c.stop.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// descends reports whether ctx belongs to the load that runs key in table, or to
// a load that this load started, directly or indirectly.
func descends(ctx context.Context, table, key any) bool {
	for {
		c, ok := ctx.Value(ancestorKey{}).(*loadContext)
		if !ok {
			return false
		}
		if c.load.runs(table, key) {
			return true
		}
		ctx = c.origin
	}
}

// Within reports whether ctx belongs to a load of any table, or descends from the
// context of one.
func Within(ctx context.Context) bool { return ctx.Value(ancestorKey{}) != nil }
