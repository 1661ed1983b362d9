package jobs

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
	"github.com/weir-go/weir/limit"
)

// The maximum age of what is known about a queue: its length, and the age of its
// oldest job.
const (
	lookEvery = 100 * time.Millisecond
	ageEvery  = time.Second
)

// A backlog estimates the length of a queue: the last count by the server, and what
// was submitted here since.
type backlog struct {
	store *Store
	queue string

	mu    sync.Mutex
	at    time.Time       // guarded by mu; when last was read
	last  journal.Backlog // guarded by mu
	since int             // guarded by mu; submitted here since
	rate  float64         // guarded by mu; jobs that end per second, smoothed
	age   time.Duration   // guarded by mu; of the oldest waiting job, at aged
	aged  time.Time       // guarded by mu
	look  *look           // guarded by mu; the current one; nil: none
}

// A look is one query to the server; several callers may share it.
type look struct {
	done chan struct{}
	err  error // written before done is closed, read only after
}

// backlogOf returns the backlog of a queue, which all its Queues in this Store share.
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

// forgo takes back jobs that admit has counted and that were not stored.
func (b *backlog) forgo(jobs int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since -= jobs // below zero, if they are counted no longer; until the next query
}

// fullLocked returns the refusal of a queue that has to lose this many jobs before it
// accepts one. b.mu must be held.
func (b *backlog) fullLocked(why FullReason, jobs int) error {
	wait := time.Minute
	if b.rate > 0 {
		wait = time.Duration(float64(jobs) / b.rate * float64(time.Second))
	}
	return &FullError{Queue: b.queue, Reason: why, RetryAfter: limit.Spread(max(wait, time.Second), 0)}
}

// fresh queries the server if the last query is older than lookEvery. Of several
// callers one sends the query. If the server does not respond, all of them fail;
// otherwise they would time out one after another.
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
			if errors.Is(l.err, ErrUnavailable) { // not the end of the querying caller's context
				return l.err
			}
		case <-ctx.Done():
			return cmp.Or(context.Cause(ctx), context.Canceled)
		}
		b.mu.Lock()
	}
	b.mu.Unlock()
	return nil
}

// refresh queries the server. Jobs submitted during the query are at worst counted
// twice.
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
		b.rate += (rate - b.rate) * min(1, d) // over about the last second
	}
	b.last, b.at = found, now
	b.since -= before
	return nil
}

// A room estimates how full the Store is.
type room struct {
	store *Store

	mu      sync.Mutex
	at      time.Time // guarded by mu; when bytes was read
	looking bool      // guarded by mu
	bytes   uint64    // guarded by mu; stored at that time
	left    uint64    // guarded by mu; what the disk could take at that time
	since   uint64    // guarded by mu; admitted here and not in bytes
	writing uint64    // guarded by mu; admitted here and perhaps not written yet
	refused bool      // guarded by mu; by the server, at that time
}

// overhead is roughly what the server needs for a message in addition to its data.
const overhead = 512

// roomPart is the part of the room on the server's disk that may be used before the next
// look. The other parts are for other programs, which see what this one has written.
const roomPart = 16

// admit counts an input, or refuses it. After a nil, the caller must call written. Nine
// tenths of the Store are for inputs; without the rest no job could end and free its space.
// For the same reason a server may accept no new jobs while it still writes what those that
// it has accepted need.
func (r *room) admit(ctx context.Context, queue string, size int) error {
	need := uint64(size + overhead)
	if err := r.fresh(ctx, need); err != nil {
		return err
	}
	refused := r.store.journal.LocalRoom() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	known := !r.at.IsZero() // false during the first query
	if refused || r.refused || known && r.since+need > min(r.left, r.most()) {
		return storeFull(queue)
	}
	r.since += need
	r.writing += need
	return nil
}

// written is called after the write of an admitted input, whether or not it succeeded.
func (r *room) written(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing -= uint64(size + overhead)
}

// most returns how much of the Store's bound on bytes was left for inputs. mu must be held.
func (r *room) most() uint64 {
	most := uint64(r.store.o.MaxBytes) / 10 * 9
	return most - min(most, r.bytes)
}

// fresh queries the server if the last query is old, or if much of the room that there was
// has been used since. During the query the other callers use the known values.
func (r *room) fresh(ctx context.Context, need uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looking || time.Since(r.at) <= lookEvery && r.since+need <= r.left/roomPart {
		return nil
	}
	r.looking = true
	before := r.since - min(r.since, r.writing)
	r.mu.Unlock()
	bytes, err := r.store.journal.Bytes(ctx)
	var left int64
	if err == nil {
		left, err = r.store.journal.Room(ctx)
	}
	refused := errors.Is(err, journal.ErrFull)
	if refused {
		err = nil
	}
	r.mu.Lock()
	r.looking = false
	if err != nil {
		return outward(ctx, err)
	}
	r.at, r.bytes, r.left, r.refused = time.Now(), bytes, uint64(max(0, left)), refused
	r.since -= before
	return nil
}

// storeFull returns the refusal of a full Store. When there will be space depends on how
// long results are kept, so its RetryAfter has the longest range that is allowed.
func storeFull(queue string) *FullError {
	return &FullError{Queue: queue, Reason: FullStore, RetryAfter: limit.Spread(limit.DefaultMaxRetryAfter, 0)}
}
