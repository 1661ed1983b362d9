package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// How old what is known of a queue may be: its length, and its age.
const (
	lookEvery = 100 * time.Millisecond
	ageEvery  = time.Second
)

// A backlog knows how long a queue is: what the server said last, and what was
// submitted here since.
type backlog struct {
	store *Store
	queue string

	mu    sync.Mutex
	at    time.Time       // guarded by mu; of the last look
	last  journal.Backlog // guarded by mu
	since int             // guarded by mu; submitted here since
	rate  float64         // guarded by mu; jobs that end in a second, smoothed
	age   time.Duration   // guarded by mu; of the oldest that waits, at aged
	aged  time.Time       // guarded by mu
	look  *look           // guarded by mu; the one under way; nil: none is
}

// A look is a question to the server that several may wait for.
type look struct {
	done chan struct{}
	err  error // written before done is closed, read only after
}

// backlogOf returns the one of a queue, of which all Queues here share one.
func (s *Store) backlogOf(queue string) *backlog {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.queues[queue]
	if b == nil {
		b = &backlog{store: s, queue: queue}
		s.queues[queue] = b
	}
	return b
}

// admit counts one more job, or refuses it.
func (b *backlog) admit(ctx context.Context, o *QueueOptions) error {
	if err := b.fresh(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	length := b.last.Waiting + b.last.Taken + b.since
	switch {
	case length >= o.MaxQueued:
		return b.fullLocked(FullLength, length-o.MaxQueued+1)
	case o.MaxAge > 0 && b.age > o.MaxAge:
		return b.fullLocked(FullAge, b.last.Waiting)
	}
	b.since++
	return nil
}

// fullLocked is the refusal of a queue that has to lose some jobs before it
// takes one. b.mu must be held.
func (b *backlog) fullLocked(why FullReason, jobs int) error {
	wait := time.Minute
	if b.rate > 0 {
		wait = time.Duration(float64(jobs) / b.rate * float64(time.Second))
	}
	return &FullError{Queue: b.queue, Reason: why, RetryAfter: min(max(wait, time.Second), time.Minute)}
}

// fresh looks again if the last look is older than lookEvery. Of several
// callers one looks, and if the server does not answer it answers none of them:
// else they would find that out one after another.
func (b *backlog) fresh(ctx context.Context) error {
	b.mu.Lock()
	for time.Since(b.at) > lookEvery {
		if b.look == nil {
			b.look = &look{done: make(chan struct{})}
			b.mu.Unlock()
			if err := b.refresh(ctx); err != nil {
				return err
			}
			b.mu.Lock()
			continue
		}
		l := b.look
		b.mu.Unlock()
		select {
		case <-l.done:
			if errors.Is(l.err, ErrUnavailable) { // not the looker's own end
				return l.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b.mu.Lock()
	}
	b.mu.Unlock()
	return nil
}

// refresh looks. What is submitted meanwhile is counted twice at worst.
func (b *backlog) refresh(ctx context.Context) error {
	b.mu.Lock()
	before, age := b.since, b.age
	old := time.Since(b.aged) > ageEvery
	b.mu.Unlock()
	found, err := b.store.journal.Backlog(ctx, b.queue)
	if err == nil && old {
		age, err = b.store.journal.Age(ctx, b.queue, found)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.look
	l.err = outward(ctx, err)
	close(l.done)
	b.look = nil
	if err != nil {
		return l.err
	}
	now := time.Now()
	if b.age = age; old {
		b.aged = now
	}
	if d := now.Sub(b.at).Seconds(); !b.at.IsZero() && found.Acked >= b.last.Acked {
		rate := float64(found.Acked-b.last.Acked) / d
		b.rate += (rate - b.rate) * min(1, d) // about the last second
	}
	b.last, b.at = found, now
	b.since -= before
	return nil
}

// A room knows how full the Store is.
type room struct {
	store *Store

	mu      sync.Mutex
	at      time.Time // guarded by mu; of the last look
	looking bool      // guarded by mu
	bytes   uint64    // guarded by mu; there were at at
	since   uint64    // guarded by mu; submitted here since
}

// overhead is what the server needs for a message beside its data, roughly.
const overhead = 512

// admit counts an input, or refuses it. Nine tenths of the Store are for inputs;
// without the rest no job could end, and make room.
func (r *room) admit(ctx context.Context, queue string, size int) error {
	if err := r.fresh(ctx); err != nil {
		return err
	}
	need := uint64(size + overhead)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+r.since+need > uint64(r.store.o.MaxBytes)/10*9 {
		return &FullError{Queue: queue, Reason: FullStore, RetryAfter: storeFullRetry}
	}
	r.since += need
	return nil
}

// fresh looks if the last look is old. While one caller looks, the others use
// the known values.
func (r *room) fresh(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looking || time.Since(r.at) <= lookEvery {
		return nil
	}
	r.looking = true
	before := r.since
	r.mu.Unlock()
	bytes, err := r.store.journal.Bytes(ctx)
	r.mu.Lock()
	r.looking = false
	if err != nil {
		return outward(ctx, err)
	}
	r.at, r.bytes = time.Now(), bytes
	r.since -= before
	return nil
}

// storeFullRetry is the RetryAfter of a full Store: how soon there is room
// depends on what is kept for how long.
const storeFullRetry = 10 * time.Second
