package batch

import (
	"context"
	"time"
)

// closeGrace is how long Close waits, after its context has ended, for bulk
// calls that respect their cancellation to return.
const closeGrace = 100 * time.Millisecond

// Close rejects new items, stops lingering, and waits until all bulk calls have
// returned, including those for items already collected. If ctx ends first, Close
// cancels the calls with the cause ErrClosed. Their callers get that error, wrapped in
// an *UnknownError if their item had started. Close gives the calls 100 ms to return,
// and then returns a *CloseError that says how many are still running. Close can be
// called again to continue waiting. It is safe for concurrent use.
func (b *Batcher[T, R]) Close(ctx context.Context) error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.queue.FlushLocked()
		b.idleLocked()
	}
	b.mu.Unlock()
	select {
	case <-b.idle:
		return nil
	default:
	}
	select {
	case <-b.idle:
		return nil
	case <-ctx.Done():
	}
	n := b.cancelAll()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-b.idle:
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return &CloseError{Canceled: n, Running: b.count.Running, Cause: context.Cause(ctx)}
}

// cancelAll fails and cancels all batches that are not final, and returns how many
// those were.
func (b *Batcher[T, R]) cancelAll() int {
	var ended []*batch[T, R]
	b.mu.Lock()
	for bt := range b.live {
		err := ErrClosed
		if bt.departed || bt.alone {
			err = &UnknownError{Cause: ErrClosed}
		}
		if bt.failLocked(err) {
			ended = append(ended, bt)
		}
	}
	b.mu.Unlock()
	for _, bt := range ended {
		bt.ctx.cancel(ErrClosed)
	}
	return len(ended)
}

// idleLocked closes idle if the Batcher is closed and no batch is live. b.mu must be
// held.
func (b *Batcher[T, R]) idleLocked() {
	if b.closed && len(b.live) == 0 {
		select {
		case <-b.idle: // already closed by Close, which found nothing running
		default:
			close(b.idle)
		}
	}
}
