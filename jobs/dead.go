package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// What state a job is in is in its messages, not in their subjects, so to count
// the dead ones of a queue all of it would have to be read. That is what marks are
// for: a dead job has one, under a subject that says so, and the server counts
// subjects without reading. Nothing is decided by them, they are only counted.
//
//  1. The state is written, then the mark, then the item is acknowledged. If the
//     worker dies in between, the item comes again, and the mark is made then.
//  2. What begins a new life, or ends the last one, is written, and then the mark
//     is removed if it is older than that.
//  3. The writer of a mark looks whether the job is still dead, as it may have
//     been retried between state and mark.
//
// A mark that is left, by who died in 2, goes when the dead job would have.

// kindDead is the journal's kind of marks. They have a queue of their own, so that
// counting them does not go through the queue's subjects.
const kindDead journal.Kind = "d"

// markQueue is where the marks of a queue are. No queue can be called so.
func markQueue(queue string) string { return "!" + queue }

// mark notes that a job is dead, for as long as its state is kept.
func (s *Store) mark(ctx context.Context, queue, id string, ttl time.Duration) error {
	w := journal.Write{Queue: markQueue(queue), ID: id, Kind: kindDead, Meta: []byte("{}"), TTL: ttl, Unflushed: true}
	_, err := s.journal.Put(ctx, w)
	if errors.Is(err, journal.ErrStale) { // it has one, which may end too soon
		var old *journal.Message
		if old, err = s.journal.ReadKind(ctx, w.Queue, id, kindDead); err == nil && old != nil {
			w.After = old.Seq
			_, err = s.journal.Put(ctx, w)
		}
	}
	if err != nil && !errors.Is(err, journal.ErrStale) { // two who mark it are one too many
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

// unmark removes the mark of a job that is dead no more since the given revision.
func (s *Store) unmark(ctx context.Context, queue, id string, since uint64) error {
	m, err := s.journal.ReadKind(ctx, markQueue(queue), id, kindDead)
	if err == nil && m != nil && m.Seq < since {
		err = s.journal.Remove(ctx, m.Seq)
	}
	return outward(ctx, err)
}

// mark marks the job of an attempt or an item that has ended as dead. That it
// could not be is trouble, but the job is dead all the same.
func (w *Worker) mark(id string, ttl time.Duration) {
	if err := w.queue.store.mark(context.Background(), w.queue.name, id, ttl); err != nil {
		w.event(w.hurry, Event{Kind: EventTrouble, ID: id, Err: err})
	}
}
