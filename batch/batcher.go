package batch

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/gather"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/limit"
)

// A Batcher gathers items into bulk calls. Make one with [New] or [NewFrom];
// the zero Batcher is not usable. It is safe for concurrent use.
type Batcher[T, R any] struct {
	o   Options
	src Source[T, R]

	mu      sync.Mutex
	queue   *gather.Queue         // guarded by mu: who departs next
	live    map[*batch[T, R]]bool // guarded by mu: batches whose goroutine has not ended
	pending int                   // guarded by mu: items that wait or run
	closed  bool                  // guarded by mu
	idle    chan struct{}         // closed when the Batcher is closed and no batch is live
	took    time.Duration         // guarded by mu: how long a bulk call takes, a moving average
	count   Stats                 // guarded by mu: without what stands now
}

// New returns a Batcher around run. It returns all faults of o at once, each
// an *OptionError.
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

// Must returns v, and panics if err is not nil. It is for Batchers whose Options
// are written in the program.
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

	inCrowd    admit.Joiner // guarded by Batcher.mu: of the batch's crowd
	batch      *batch[T, R] // guarded by Batcher.mu: where the item is now
	prev, next *call[T, R]  // guarded by Batcher.mu: in the batch, until that departs
	departed   bool         // guarded by Batcher.mu: the item was handed to Run
	left       bool         // guarded by Batcher.mu

	// The answer, or the batch in which the item is tried again. Written before
	// batch.done is closed, read after.
	value R
	err   error
	again *batch[T, R]
}

// Do hands item to a bulk call and returns its result. If ctx ends first it
// leaves at once and returns context.Cause(ctx); wrapped in an *UnknownError if
// the item had departed by then, so that it may have been run. An item whose
// caller left before is never run.
//
// It returns what Run said of the item, or a *limit.Error with limit.QueueFull
// where MaxPending items wait or run, a refusal of the Limiter, ErrStuck,
// ErrClosed, ErrScope, ErrResults, a *TimeoutError, a *PanicError or ErrGoexit.
func (b *Batcher[T, R]) Do(ctx context.Context, item T) (R, error) {
	var zero R
	if ctx.Err() != nil {
		return zero, context.Cause(ctx)
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

// scope returns the item's scope. It is the user's code, and must be checked
// before the scope becomes the key of a map under the lock.
func (b *Batcher[T, R]) scope(item T) (any, error) {
	if b.src.Scope == nil {
		return nil, nil
	}
	s := b.src.Scope(item)
	switch s.(type) {
	case nil, string, int, int64, uint64: // spares reflection
		return s, nil
	}
	if !reflect.ValueOf(s).Comparable() || s != s {
		return nil, ErrScope
	}
	return s, nil
}

// refuseLocked returns why no item can be taken, if so. b.mu must be held.
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

// The bounds of a refusal's RetryAfter, and what it is before a bulk call has
// returned.
const (
	minRetryAfter     = 10 * time.Millisecond
	maxRetryAfter     = time.Minute
	unknownRetryAfter = time.Second
)

// retryAfterLocked estimates when there is room: when a bulk call has returned.
// b.mu must be held.
func (b *Batcher[T, R]) retryAfterLocked() time.Duration {
	if b.took == 0 {
		return unknownRetryAfter
	}
	return min(max(b.took, minRetryAfter), maxRetryAfter)
}

// joinLocked puts c into the open batch of its scope, or into a new one. It
// refuses a caller whose deadline is before that batch could be admitted. b.mu
// must be held.
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

// newBatchLocked makes a batch with its first call. b.mu must be held.
func (b *Batcher[T, R]) newBatchLocked(c *call[T, R]) *batch[T, R] {
	bt := &batch[T, R]{done: make(chan struct{})}
	bt.ctx.init(c.ctx)
	bt.addLocked(c)
	b.live[bt] = true
	return bt
}

// wait waits until the item has its answer or the caller's context ends. An
// answer that is there wins.
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
			<-bt.done // the answer has just come, or the batch to be tried again
		}
		if c.again == nil || bt == c.again {
			return c.value, c.err
		}
		bt = c.again
	}
}

// leave takes the caller off its batch and returns the error for it, or nil if
// the batch is final. The last one out cancels the bulk call.
func (b *Batcher[T, R]) leave(c *call[T, R]) error {
	cause := context.Cause(c.ctx)
	b.mu.Lock()
	bt := c.batch
	if bt.final {
		b.mu.Unlock()
		return nil
	}
	c.left = true
	bt.waiting--
	if lower := bt.crowd.Remove(&c.inCrowd); lower && bt.waiting > 0 && bt.place != nil {
		bt.place.Leave(bt.demandLocked().Priority) // as the callers that stay
	}
	if !bt.departed {
		bt.removeLocked(c)
		b.pending--
	}
	last := bt.waiting == 0
	if last {
		// Final under the same lock, or a new item could join a batch that is
		// lost already.
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
