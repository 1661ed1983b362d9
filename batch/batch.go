package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/gather"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/limit"
)

// A batch is one bulk call and its callers.
type batch[T, R any] struct {
	ctx   batchContext // of the bulk call
	group *gather.Group
	done  chan struct{} // closed once the batch is final, unless its last caller has left

	// The rest is guarded by Batcher.mu.
	first, last *call[T, R]  // in order of arrival
	size        int          // of that list
	waiting     int          // callers that wait
	crowd       admit.Crowd  // the callers that wait
	place       *limit.Place // where it waits for admission; nil before
	departed    bool         // started: no caller can join, and items are no longer removed
	final       bool         // the results are set, or all callers have left
	stuck       bool         // has exceeded the timeout
	alone       bool         // retries a single item
}

var _ gather.Batch = (*batch[int, int])(nil)

// SizeLocked returns the number of items. The queue calls it, OpenLocked and
// WantedLocked.
func (bt *batch[T, R]) SizeLocked() int { return bt.size }

// OpenLocked reports whether an item may be added.
func (bt *batch[T, R]) OpenLocked() bool { return !bt.departed && !bt.final }

// WantedLocked reports whether a caller waits.
func (bt *batch[T, R]) WantedLocked() bool { return bt.waiting > 0 }

// addLocked appends c. Batcher.mu must be held.
func (bt *batch[T, R]) addLocked(c *call[T, R]) {
	c.batch = bt
	bt.crowd.Add(&c.inCrowd)
	c.prev, c.next = bt.last, nil
	if bt.last == nil {
		bt.first = c
	} else {
		bt.last.next = c
	}
	bt.last = c
	bt.size++
	bt.waiting++
}

// demandLocked returns the combined demand of the waiting callers on the limiter.
// Batcher.mu must be held.
func (bt *batch[T, R]) demandLocked() admit.Demand {
	d, _ := bt.crowd.Demand()
	return d
}

// removeLocked removes c. Batcher.mu must be held.
func (bt *batch[T, R]) removeLocked(c *call[T, R]) {
	if c.prev == nil {
		bt.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		bt.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	bt.size--
}

// failLocked makes err the result of all callers, unless the batch is already final.
// If it returns true, the batch's context must be canceled after Unlock. Batcher.mu
// must be held.
func (bt *batch[T, R]) failLocked(err error) bool {
	if bt.final {
		return false
	}
	for c := bt.first; c != nil; c = c.next {
		c.err = err
	}
	bt.finishLocked()
	return true
}

// finishLocked makes the batch final. Its results must have been written. Batcher.mu
// must be held.
func (bt *batch[T, R]) finishLocked() {
	bt.final = true
	close(bt.done)
}

// A batchContext is the context of a bulk call. It has the values of the
// batch's first caller, never that caller's deadline or cancellation.
type batchContext struct {
	call     lend.Call       // calls that wait for the batch, and the permits they can lend
	stop     context.Context // a context of package context, so that children need no goroutine
	cancel   context.CancelCauseFunc
	values   context.Context // used for values only
	deadline time.Time       // written before Run is called
	expired  atomic.Bool     // not under Batcher.mu: Err reads it without a lock
}

func (c *batchContext) init(values context.Context) {
	c.values = values
	c.stop, c.cancel = context.WithCancelCause(context.Background())
}

// Deadline returns the time of the timeout, if there is one.
func (c *batchContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is closed when the batch is final.
func (c *batchContext) Done() <-chan struct{} { return c.stop.Done() }

// Err returns DeadlineExceeded after the timeout. Contexts derived from this one
// return Canceled instead, because package context offers no other way; the cause is
// the same in both.
func (c *batchContext) Err() error {
	err := c.stop.Err()
	if err != nil && c.expired.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// Value looks in stop before values, so that package context's private key finds stop
// and not the cancellation of the caller in values.
func (c *batchContext) Value(key any) any {
	if lend.IsKey(key) {
		return &c.call
	}
	if v := c.stop.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// String keeps fmt from printing the whole batch with a context.
func (c *batchContext) String() string { return "weir.batch" }
