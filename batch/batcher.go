package batch

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/gather"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
)

// A Batcher collects items into bulk calls. Create one with [New] or [NewFrom]; the
// zero Batcher is not usable. It is safe for concurrent use.
type Batcher[T, R any] struct {
	o   Options
	src Source[T, R]

	mu      sync.Mutex
	queue   *gather.Queue         // guarded by mu: order in which batches start
	live    map[*batch[T, R]]bool // guarded by mu: batches whose goroutine has not ended
	pending int                   // guarded by mu: items that wait or run
	closed  bool                  // guarded by mu
	idle    chan struct{}         // closed when the Batcher is closed and no batch is live
	took    time.Duration         // guarded by mu: moving average of the time of a bulk call
	count   Stats                 // guarded by mu: without Pending
}

// New returns a Batcher that calls run, or an error that joins an *OptionError for
// every fault in o.
func New[T, R any](run func(ctx context.Context, items []T) ([]R, error), o Options) (*Batcher[T, R], error) {
	return NewFrom(Source[T, R]{Run: run}, o)
}

// NewFrom is New for a Source with hooks.
func NewFrom[T, R any](s Source[T, R], o Options) (*Batcher[T, R], error) {
	if err := validate(s.Run != nil, o); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Batcher[T, R]{
		o:     o,
		src:   s,
		queue: gather.NewQueue(o.MaxSize, o.MaxParallel, o.Linger),
		live:  make(map[*batch[T, R]]bool),
		idle:  make(chan struct{}),
	}, nil
}

// Must returns v, and panics if err is not nil. Use it for Batchers whose Options are
// constants of the program.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A call is one item and the caller that waits for it.
type call[T, R any] struct {
	item T
	ctx  context.Context

	inCrowd    admit.Joiner // guarded by Batcher.mu: in the batch's crowd
	batch      *batch[T, R] // guarded by Batcher.mu: the current batch of the item
	prev, next *call[T, R]  // guarded by Batcher.mu: in the batch, until that starts
	departed   bool         // guarded by Batcher.mu: the item was handed to Run
	left       bool         // guarded by Batcher.mu

	// The result, or the batch in which the item is retried. Written before
	// batch.done is closed, read after.
	value R
	err   error
	again *batch[T, R]
}

// Do adds item to a bulk call and returns its result. If ctx ends first, Do returns
// context.Cause(ctx) at once. That error is wrapped in an *UnknownError if the item
// had already started, because it may have run. An item whose caller leaves before
// that never runs.
//
// Do returns the result of Run for the item. It can also return a *limit.Error with
// limit.QueueFull if MaxPending items wait or run, a rejection of the Limiter,
// ErrStuck, ErrClosed, ErrScope, ErrResults, a *TimeoutError, a *PanicError or
// ErrGoexit.
func (b *Batcher[T, R]) Do(ctx context.Context, item T) (R, error) {
	var zero R
	if ctx.Err() != nil {
		return zero, wait.Cause(ctx)
	}
	scope, err := b.scope(item)
	if err != nil {
		return zero, err
	}
	c := &call[T, R]{item: item, ctx: ctx}
	c.inCrowd.Demand = admit.Of(ctx, b.o.Limiter)
	within := lend.From(ctx)
	b.mu.Lock()
	if err := b.refuseLocked(); err != nil {
		b.mu.Unlock()
		return zero, err
	}
	bt, opened, err := b.joinLocked(c, scope)
	if err != nil {
		b.count.Refused++
		b.mu.Unlock()
		return zero, err
	}
	c.inCrowd.Edge = lend.Between(within, &bt.ctx.call)
	b.count.Calls++
	b.pending++
	b.mu.Unlock()
	if opened {
		go b.run(bt)
	}
	return b.wait(bt, c)
}

// scope returns the item's scope. Source.Scope is the user's code, so its result must
// be checked before it becomes a map key under the lock.
func (b *Batcher[T, R]) scope(item T) (any, error) {
	if b.src.Scope == nil {
		return nil, nil
	}
	s := b.src.Scope(item)
	switch s.(type) {
	case nil, string, int, int64, uint64: // avoids reflection
		return s, nil
	}
	if !reflect.ValueOf(s).Comparable() || s != s {
		return nil, ErrScope
	}
	return s, nil
}

// refuseLocked returns an error if no item can be accepted. b.mu must be held.
func (b *Batcher[T, R]) refuseLocked() error {
	switch {
	case b.closed:
		return ErrClosed
	case b.queue.HungLocked():
		b.count.Refused++
		return ErrStuck
	case b.pending >= b.o.MaxPending:
		b.count.Refused++
		return &limit.Error{Limiter: b.o.Name, Reason: limit.QueueFull, RetryAfter: b.retryAfterLocked()}
	}
	return nil
}

// minRetryAfter is the least estimate of when there is room.
const minRetryAfter = 10 * time.Millisecond

// retryAfterLocked estimates when there is room, as the mean time of a bulk call, and
// spreads it. b.mu must be held.
func (b *Batcher[T, R]) retryAfterLocked() time.Duration {
	if b.took == 0 {
		return spread.Unknown()
	}
	return limit.Spread(max(b.took, minRetryAfter), 0)
}

// joinLocked adds c to the open batch of its scope, or to a new one. It rejects a
// caller whose deadline comes before that batch could be admitted. b.mu must be held.
func (b *Batcher[T, R]) joinLocked(c *call[T, R], scope any) (bt *batch[T, R], opened bool, err error) {
	if g := b.queue.FindLocked(scope, false); g != nil {
		bt = g.Batch.(*batch[T, R])
		if bt.place != nil {
			if err := bt.place.Join(c.inCrowd.Demand.Until, c.inCrowd.Demand.Priority); err != nil {
				return nil, false, err
			}
		}
		bt.addLocked(c)
		b.queue.AddedLocked(g)
		return bt, false, nil
	}
	bt = b.newBatchLocked(c)
	bt.group = b.queue.OpenLocked(scope, false, bt)
	return bt, true, nil
}

// newBatchLocked returns a batch with c as its first call. b.mu must be held.
func (b *Batcher[T, R]) newBatchLocked(c *call[T, R]) *batch[T, R] {
	bt := &batch[T, R]{done: make(chan struct{})}
	bt.ctx.init(c.ctx)
	bt.addLocked(c)
	b.live[bt] = true
	return bt
}

// wait waits for the item's result or the end of the caller's context. A result that
// is available takes precedence.
func (b *Batcher[T, R]) wait(bt *batch[T, R], c *call[T, R]) (R, error) {
	defer c.inCrowd.Edge.End()
	for {
		select {
		case <-bt.done:
		case <-c.ctx.Done():
			if err := b.leave(c); err != nil {
				var zero R
				return zero, err
			}
			<-bt.done // the result has just come, or the batch of the retry
		}
		if c.again == nil || bt == c.again {
			return c.value, c.err
		}
		bt = c.again
	}
}

// leave removes the caller from its batch and returns its error, or nil if the batch
// is final. The last caller to leave cancels the bulk call.
func (b *Batcher[T, R]) leave(c *call[T, R]) error {
	cause := wait.Cause(c.ctx)
	b.mu.Lock()
	bt := c.batch
	if bt.final {
		b.mu.Unlock()
		return nil
	}
	c.left = true
	bt.waiting--
	if lower := bt.crowd.Remove(&c.inCrowd); lower && bt.waiting > 0 && bt.place != nil {
		bt.place.Leave(bt.demandLocked().Priority) // the highest priority of the remaining callers
	}
	if !bt.departed {
		bt.removeLocked(c)
		b.pending--
	}
	last := bt.waiting == 0
	if last {
		// Set final under the same lock, or a new item could join a batch that is
		// about to be canceled.
		bt.final = true
		if bt.departed {
			b.count.Abandoned++
		}
	}
	departed := c.departed
	b.mu.Unlock()
	if last {
		bt.ctx.cancel(ErrAbandoned)
	}
	if departed {
		return &UnknownError{Cause: cause}
	}
	return cause
}
