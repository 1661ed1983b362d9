package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A job's state is in its messages, not in their subjects. Counting the dead jobs of
// a queue by state would mean reading the whole queue. So each dead job has a mark, a
// message under a subject of its kind, and the server counts subjects without reading
// messages. Marks are only counted; nothing else depends on them.
//
//  1. The state is written, then the mark, then the item is acknowledged. If the
//     worker dies in between, the item is redelivered, and the mark is written then.
//  2. To start a job again or to drop it, its new message is written. Then its mark
//     is removed, if the mark is older than that message.
//  3. The writer of a mark then checks that the job is still dead: it may have been
//     retried between state and mark.
//
// If a program dies during step 2, its mark stays until the dead job would have
// expired.

// kindDead is the journal's kind of marks. Marks have a separate queue, so that
// counting them does not scan the queue's subjects.
const kindDead journal.Kind = "d"

// markQueue is the queue that holds the marks of a queue. No real queue can have this
// name.
func markQueue(queue string) string { return "!" + queue }

// mark records that a job is dead, for as long as its state is kept.
func (s *Store) mark(ctx context.Context, queue, id string, ttl time.Duration) error {
	w := journal.Write{Queue: markQueue(queue), ID: id, Kind: kindDead, Meta: []byte("{}"), TTL: ttl, Unflushed: true}
	_, err := s.journal.Put(ctx, w)
	if errors.Is(err, journal.ErrStale) { // the job has one, which may expire too soon
		var old *journal.Message
		if old, err = s.journal.ReadKind(ctx, w.Queue, id, kindDead); err == nil && old != nil {
			w.After = old.Seq
			_, err = s.journal.Put(ctx, w)
		}
	}
	if err != nil && !errors.Is(err, journal.ErrStale) { // if it is stale, another program has written the mark
		return outward(ctx, err)
	}
	v, err := s.journal.Read(ctx, queue, id)
	if err != nil {
		return outward(ctx, err)
	}
	if l, ok, err := read(v); err != nil || ok && l.State == StateDead {
		return err
	}
	return s.unmark(ctx, queue, id, v.Revision())
}

// unmark removes the mark of a job that has no longer been dead since the given
// revision.
func (s *Store) unmark(ctx context.Context, queue, id string, since uint64) error {
	m, err := s.journal.ReadKind(ctx, markQueue(queue), id, kindDead)
	if err == nil && m != nil && m.Seq < since {
		err = s.journal.Remove(ctx, m.Seq)
	}
	return outward(ctx, err)
}

// mark marks a job that has ended as dead. A failure is only reported as trouble: the
// job is dead anyway.
func (w *Worker) mark(id string, ttl time.Duration) {
	if err := w.queue.store.mark(context.Background(), w.queue.name, id, ttl); err != nil {
		w.event(w.hurry, Event{Kind: EventTrouble, ID: id, Err: err})
	}
}
