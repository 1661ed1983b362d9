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
	first, last *call[T, R]  // in the order in which they came
	size        int          // of that list
	waiting     int          // callers that wait
	crowd       admit.Crowd  // the callers that wait
	place       *limit.Place // where it waits for admission; nil before
	departed    bool         // nobody can join, items are not taken out any more
	final       bool         // the answers are given, or nobody wants them
	stuck       bool         // beyond the timeout
	alone       bool         // an item that is tried again
}

var _ gather.Batch = (*batch[int, int])(nil)

// SizeLocked is for the queue, as are OpenLocked and WantedLocked.
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

// demandLocked is what the callers that wait bring to the limiter together. Batcher.mu
// must be held.
func (bt *batch[T, R]) demandLocked() admit.Demand {
	d, _ := bt.crowd.Demand()
	return d
}

// removeLocked takes c out. Batcher.mu must be held.
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

// failLocked gives all callers err. It reports whether the batch was not final
// before; then, after Unlock, its context must be canceled. Batcher.mu must be
// held.
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

// finishLocked makes the batch final, whose answers must have been written.
// Batcher.mu must be held.
func (bt *batch[T, R]) finishLocked() {
	bt.final = true
	close(bt.done)
}

// A batchContext is the context of a bulk call. It has the values of the
// batch's first caller, never that caller's deadline or cancellation.
type batchContext struct {
	call     lend.Call       // calls that wait for the batch, and what they can lend
	stop     context.Context // a context of package context, so that children need no goroutine
	cancel   context.CancelCauseFunc
	values   context.Context // asked for values only
	deadline time.Time       // written before Run is called
	expired  atomic.Bool     // read by Err, under no lock
}

func (c *batchContext) init(values context.Context) {
	c.values = values
	c.stop, c.cancel = context.WithCancelCause(context.Background())
}

// Deadline returns the instant of the timeout, if there is one.
func (c *batchContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is closed when the batch is final.
func (c *batchContext) Done() <-chan struct{} { return c.stop.Done() }

// Err is DeadlineExceeded after the timeout. Contexts derived from this one
// return Canceled then, because package context offers no other way; the cause
// is right in both.
func (c *batchContext) Err() error {
	err := c.stop.Err()
	if err != nil && c.expired.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// Value asks stop first, which answers package context's private key: the
// caller's own cancellation, in values, must not be found.
func (c *batchContext) Value(key any) any {
	if lend.IsKey(key) {
		return &c.call
	}
	if v := c.stop.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// String keeps fmt from walking through the batch when a context is printed.
func (c *batchContext) String() string { return "weir.batch" }
