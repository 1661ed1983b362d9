package batch

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/weir-go/weir/limit"
)

// A run takes one batch through its steps, on the batch's goroutine:
//
//  1. Wait until the batch is due and has a slot.
//  2. admit: wait for the limiter's permit.
//  3. depart: start the batch; no caller can join from now on.
//  4. call: run the user's function, under the timeout.
//  5. end, whatever happened above: return permit and slot, and set the results.
type run[T, R any] struct {
	b  *Batcher[T, R]
	bt *batch[T, R]

	permit  limit.Permit
	refused bool // the limiter's rejection has ended the batch
	timer   *time.Timer
	calls   []*call[T, R] // of the items that have started
	start   time.Time
	called  bool // Run was called, or RunContext before it
	done    bool // nothing panicked

	results []R
	errs    Errors // of the items, with results
	rest    error  // of the items without their own error; also in errs
	err     error  // of the whole call
	again   bool   // the items are to be retried alone
}

func (b *Batcher[T, R]) run(bt *batch[T, R]) {
	r := run[T, R]{b: b, bt: bt}
	defer r.end()
	if b.queue.Wait(&bt.ctx, &b.mu, bt.group) && r.admit() && r.depart() {
		r.call()
	}
	r.done = true
}

// depart closes the batch to new items. It returns false if no caller waits any more.
func (r *run[T, R]) depart() bool {
	b, bt := r.b, r.bt
	b.mu.Lock()
	defer b.mu.Unlock()
	if bt.final {
		return false
	}
	b.queue.CloseLocked(bt.group)
	bt.departed = true
	r.calls = make([]*call[T, R], 0, bt.size)
	for c := bt.first; c != nil; c = c.next {
		c.departed = true
		r.calls = append(r.calls, c)
	}
	b.count.Batches++
	b.count.Items += uint64(bt.size)
	b.count.Running++
	if b.queue.FullLocked(bt.group) {
		b.count.Full++
	}
	return true
}

// call makes the bulk call. The user's functions in it may panic.
func (r *run[T, R]) call() {
	b, bt := r.b, r.bt
	items := make([]T, len(r.calls))
	for i, c := range r.calls {
		items[i] = c.item
	}
	r.start, r.called = time.Now(), true
	if d := b.o.Timeout; d > 0 {
		bt.ctx.deadline = r.start.Add(d)
		r.timer = time.AfterFunc(d, func() { b.expire(bt) })
	}
	// The context of the first caller that has not left: the one that opened the
	// batch may have.
	bt.ctx.values = r.calls[0].ctx
	if b.src.RunContext != nil {
		if bt.ctx.values = b.src.RunContext(context.WithoutCancel(bt.ctx.values)); bt.ctx.values == nil {
			bt.ctx.values = context.Background()
		}
	}
	results, err := b.src.Run(&bt.ctx, items)
	r.take(results, err)
}

// take stores the results of Run.
func (r *run[T, R]) take(results []R, err error) {
	n := len(r.calls)
	errs, rest, partial := split(err)
	if rest != nil {
		again := r.b.o.RetrySingly && n > 1 && (r.b.src.Retry == nil || r.b.src.Retry(err))
		if !partial || again {
			r.err, r.again = err, again
			return
		}
		errs, r.rest = errs.or(rest), rest
	}
	var zero R
	none := len(results) == 0 && (unsafe.Sizeof(zero) == 0 || partial && len(errs.Unwrap()) == n)
	switch {
	case partial && len(errs) != n:
		r.err = fmt.Errorf("%w: %d errors for %d items", ErrResults, len(errs), n)
	case len(results) != n && !none:
		r.err = fmt.Errorf("%w: %d for %d items", ErrResults, len(results), n)
	default:
		r.results, r.errs = results, errs
	}
}

// end finishes the batch, on its goroutine, even if that panics or exits.
func (r *run[T, R]) end() {
	if !r.done {
		r.err = fault(recover())
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	defer r.answer() // even if the user's limiter exits the goroutine
	r.release()
}

// answer delivers the results to the callers and frees the slot.
func (r *run[T, R]) answer() {
	b, bt := r.b, r.bt
	b.mu.Lock()
	if !r.done {
		b.count.Panics++
	}
	again := r.commitLocked()
	b.queue.EndLocked(bt.group) // after the retries have been queued
	b.pending -= bt.size - len(again)
	delete(b.live, bt)
	b.idleLocked()
	b.mu.Unlock()

	bt.ctx.cancel(nil)
	for _, next := range again {
		go b.run(next)
	}
}

// commitLocked delivers the results to the callers, unless the batch was already
// final, and returns the batches for the items that are retried. b.mu must be held.
func (r *run[T, R]) commitLocked() (again []*batch[T, R]) {
	b, bt := r.b, r.bt
	if bt.departed {
		b.count.Running--
		if bt.stuck {
			b.count.Stuck--
		}
	}
	if r.called {
		b.noteLocked(time.Since(r.start))
	}
	if bt.final {
		return nil
	}
	if r.calls == nil { // the limiter panicked
		bt.failLocked(r.err)
		return nil
	}
	for i, c := range r.calls {
		switch {
		case c.left:
			continue
		case r.again:
			again = append(again, b.retryLocked(c))
			continue
		case r.err != nil:
			c.err = r.err
		case r.errs != nil && r.errs[i] != nil:
			c.err = r.errs[i]
		case len(r.results) > 0:
			c.value = r.results[i]
		}
		if c.err != nil {
			b.count.Failures++
		}
	}
	bt.finishLocked()
	return again
}

// retryLocked puts c into a new batch with no other call. b.mu must be held.
func (b *Batcher[T, R]) retryLocked(c *call[T, R]) *batch[T, R] {
	b.count.Retries++
	c.batch.crowd.Remove(&c.inCrowd)
	next := b.newBatchLocked(c)
	c.inCrowd.Edge.Move(&next.ctx.call)
	next.alone = true
	c.again = next
	next.group = b.queue.SendLocked(next)
	return next
}

// noteLocked adds the duration of a bulk call to the moving average. b.mu must be
// held.
func (b *Batcher[T, R]) noteLocked(d time.Duration) {
	if b.took == 0 {
		b.took = d
	}
	b.took += (d - b.took) / 8
}

// expire handles the timeout of bt. If all slots are now taken by calls that hang, it
// is unknown when the queued batches could start, so they fail with ErrStuck.
func (b *Batcher[T, R]) expire(bt *batch[T, R]) {
	err := &TimeoutError{After: b.o.Timeout}
	b.mu.Lock()
	if !b.live[bt] {
		b.mu.Unlock()
		return // it has just returned
	}
	bt.stuck = true
	b.count.Stuck++
	b.count.Timeouts++
	b.queue.StickLocked(bt.group)
	timedOut := bt.failLocked(err)
	if timedOut {
		b.count.Failures += uint64(bt.waiting)
	}
	var lost []*batch[T, R]
	if b.queue.HungLocked() {
		for _, w := range b.queue.WaitingLocked() {
			if w := w.(*batch[T, R]); w.failLocked(ErrStuck) {
				b.count.Refused++
				lost = append(lost, w)
			}
		}
	}
	b.mu.Unlock()
	if timedOut {
		bt.ctx.expired.Store(true)
		bt.ctx.cancel(err)
	}
	for _, w := range lost {
		w.ctx.cancel(ErrStuck)
	}
}

// release returns the permit. It recovers a panic of the user's limiter, because
// nothing else on this goroutine would.
func (r *run[T, R]) release() {
	defer func() { _ = recover() }()
	if r.bt.ctx.Err() != nil {
		r.permit.Abandon()
	}
	r.permit.Release(r.outcome())
}

// outcome returns the outcome of the bulk call for the limiter.
func (r *run[T, R]) outcome() limit.Outcome {
	given := r.bt.ctx.Err()
	switch {
	case !r.called:
		return limit.Unused
	case given == context.DeadlineExceeded, overloaded(r.err):
		return limit.Dropped
	case given != nil, r.err != nil:
		return limit.Ignored
	}
	for _, err := range r.errs {
		if overloaded(err) {
			return limit.Dropped
		}
	}
	if r.rest != nil {
		return limit.Ignored
	}
	return limit.Success
}

func overloaded(err error) bool {
	return errors.Is(err, limit.ErrLimited) || errors.Is(err, context.DeadlineExceeded)
}
