package batch

import (
	"context"
	"time"
)

// closeGrace is how long Close waits, after its context has ended, for bulk
// calls that respect their cancellation to return.
const closeGrace = 100 * time.Millisecond

// Close refuses newcomers, sends off at once what is gathered, and waits until
// all bulk calls have returned. If ctx ends first it cancels them with the cause
// ErrClosed; their callers get that error, within an *UnknownError if their item
// had departed. It gives them 100 ms to return, and then returns a
// *CloseError, which says how many have not. It may be called again to go on
// waiting. It is safe for concurrent use.
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

// cancelAll gives up all batches, and returns how many had not been given up
// before.
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

// idleLocked notes that the Batcher is closed and nothing of it runs any more.
// b.mu must be held.
func (b *Batcher[T, R]) idleLocked() {
	if b.closed && len(b.live) == 0 {
		select {
		case <-b.idle: // by Close, which found nothing running
		default:
			close(b.idle)
		}
	}
}
