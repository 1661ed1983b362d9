package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// These methods of the Store manage jobs of any type, without a Queue's type
// parameters.

// A QueueStatus counts a queue's jobs.
type QueueStatus struct {
	Queue string `json:"queue"` // name of the queue
	// Waiting counts jobs that no worker has taken yet. Taken counts jobs that a
	// worker has taken and that are unfinished: running, or waiting for the next
	// attempt or for a delay that the worker has seen. It also includes finished jobs
	// whose acknowledgement has not reached the server.
	Waiting int `json:"waiting"`
	Taken   int `json:"taken"`
	// Paused reports whether the queue is paused, see Store.Pause.
	Paused bool `json:"paused,omitempty"`
	// Dead counts the dead list, for people and alerts. If a program dies while it
	// retries or drops a dead job, the count can be one too high until that job would
	// have expired. Jobs that died under a version of weir without this count are not
	// included.
	Dead int `json:"dead"`
	// Oldest is how long the oldest of Waiting has waited since it was submitted, by
	// the server's clock as far as it is known here; 0 if none is waiting.
	Oldest time.Duration `json:"oldest_ns"`
}

// Queues returns the queues that have been used, sorted by name. It makes one request
// for the names and three per queue, none of which scans the queue, so it can be
// called every few seconds.
func (s *Store) Queues(ctx context.Context) ([]QueueStatus, error) {
	names, err := s.journal.Queues(ctx)
	if err != nil {
		return nil, outward(ctx, err)
	}
	slices.Sort(names)
	var all []QueueStatus
	for _, name := range names {
		b, err := s.journal.Backlog(ctx, name)
		if err != nil {
			return nil, outward(ctx, err)
		}
		age, err := s.journal.Age(ctx, name, b)
		if err != nil {
			return nil, outward(ctx, err)
		}
		dead, err := s.journal.Count(ctx, markQueue(name), kindDead)
		if err != nil {
			return nil, outward(ctx, err)
		}
		all = append(all, QueueStatus{Queue: name, Waiting: b.Waiting, Taken: b.Taken, Paused: b.Paused, Dead: dead, Oldest: age})
	}
	return all, nil
}

// A Count is the number of a queue's jobs by stage.
type Count struct {
	Queued   int // not started yet
	Started  int // unfinished: running, waiting for the next attempt, or without their worker
	Dead     int // as in QueueStatus
	Finished int // over and kept: done, failed or canceled
}

// Count counts all jobs of a queue. The server lists their names without reading
// them; if there are very many, do not call it often. A dropped job counts as
// Finished for some seconds.
func (s *Store) Count(ctx context.Context, queue string) (Count, error) {
	if !queueForm.MatchString(queue) {
		return Count{}, nil
	}
	work, state := map[string]bool{}, map[string]bool{}
	err := s.journal.Kinds(ctx, queue, func(id string, k journal.Kind) {
		switch k {
		case journal.Work:
			work[id] = true
		case journal.State:
			state[id] = true
		}
	})
	if err != nil {
		return Count{}, outward(ctx, err)
	}
	var c Count
	if c.Dead, err = s.journal.Count(ctx, markQueue(queue), kindDead); err != nil {
		return Count{}, outward(ctx, err)
	}
	for id := range work {
		if state[id] {
			c.Started++
		} else {
			c.Queued++
		}
	}
	c.Finished = max(len(state)-c.Started-c.Dead, 0)
	return c, nil
}

// look reads a job. It returns false if there is none.
func (s *Store) look(ctx context.Context, queue, id string) (*life, bool, error) {
	l, _, err := s.search(ctx, []string{queue}, id)
	return l, l != nil, err
}

// search reads a job from the first of the queues that has it. It returns nil if none
// has.
func (s *Store) search(ctx context.Context, queues []string, id string) (*life, string, error) {
	return firstOf(ctx, queues, s.o.Replicas > 1, func(queue string) (*life, error) {
		l, _, err := s.lookAt(ctx, queue, id)
		return l, err
	})
}

// firstOf queries one queue after another for a job, without a pause between them.
//
// In a cluster, a server that was the leader and was paused responds with old data
// until it learns of the new leader. So with confirm, for clusters, all queues are
// queried once more after a pause before it returns that none has the job.
func firstOf[T any](ctx context.Context, queues []string, confirm bool, ask func(queue string) (*T, error)) (*T, string, error) {
	for {
		for _, queue := range queues {
			if found, err := ask(queue); found != nil || err != nil {
				return found, queue, err
			}
		}
		if !confirm {
			return nil, "", nil
		}
		confirm = false
		select {
		case <-ctx.Done():
			return nil, "", cmp.Or(context.Cause(ctx), context.Canceled)
		case <-time.After(leaderPause):
		}
	}
}

// leaderPause is how long a former leader can remain unaware of the new one: two of
// its heartbeats are one second, and it catches up at once.
const leaderPause = 500 * time.Millisecond

// lookAt reads a job and the revision that a write has to follow. It returns nil if
// there is no job.
//
// A job that has begun and is unfinished has a work item. If the item is missing,
// either the job was stored between the two reads, or the state was replaced long
// ago: a server that was killed after it removed the newer state can have lost that
// removal and have the older state again. So the job is read once more; if nothing
// has changed, it does not exist. It is also read once more if it was started again
// between the two reads.
func (s *Store) lookAt(ctx context.Context, queue, id string) (*life, uint64, error) {
	if !queueForm.MatchString(queue) || !queueForm.MatchString(id) {
		return nil, 0, nil
	}
	for before := uint64(0); ; {
		v, err := s.journal.Read(ctx, queue, id)
		if err != nil {
			return nil, 0, outward(ctx, err)
		}
		l, ok, err := read(v)
		switch {
		case err != nil || !ok:
			return nil, v.Revision(), err
		case l.State == forgotten:
			return nil, l.revision, nil
		case l.torn() && l.revision != before:
		case !l.orphan():
			return l, l.revision, nil
		case l.revision == before:
			return nil, l.revision, nil
		}
		before = l.revision
	}
}

// Status returns the Status of a job, or ErrNotFound.
func (s *Store) Status(ctx context.Context, queue, id string) (Status, error) {
	return s.FindIn(ctx, []string{queue}, id)
}

// Find returns the Status of a job in any queue, or ErrNotFound.
func (s *Store) Find(ctx context.Context, id string) (Status, error) {
	names, err := s.journal.Queues(ctx)
	if err != nil {
		return Status{}, outward(ctx, err)
	}
	return s.FindIn(ctx, names, id)
}

// FindIn is like Find, for the given queues.
func (s *Store) FindIn(ctx context.Context, queues []string, id string) (Status, error) {
	l, queue, err := s.search(ctx, queues, id)
	if err != nil {
		return Status{}, err
	}
	if l == nil {
		return Status{}, ErrNotFound
	}
	return l.status(queue, id, s.o.Durability), nil
}

// Cancel cancels a job. Once it returns nil, no attempt starts and no result is kept;
// the context of a running attempt ends with the cause ErrCanceled. It returns nil if
// the job is already canceled, ErrFinished if it is over otherwise, and ErrNotFound
// if it does not exist.
func (s *Store) Cancel(ctx context.Context, queue, id string) error {
	for less := 0; ; less++ {
		more := false
		err := s.change(ctx, queue, id, func(l *life) (*journal.Write, error) {
			switch {
			case l.State == StateCanceled:
				return nil, s.removeItem(ctx, l)
			case l.State.Terminal():
				return nil, ErrFinished
			}
			r := l.next(StateCanceled)
			r.Error = ErrCanceled.Error()
			data := l.work.Data // the input is kept, so that the job can be retried
			more = true
			for n := 0; n < less && more; n++ {
				more = r.lessen(&data)
			}
			return &journal.Write{Kind: journal.State, Meta: meta(r), Data: data, TTL: l.kept(l.Keep)}, nil
		}, func(l *life) error {
			s.journal.TellCanceled(queue, id)
			return s.removeItem(ctx, l)
		})
		if !errors.Is(err, ErrTooLarge) || !more {
			return err
		}
	}
}

// removeItem removes the work item of a finished job, if it still exists: it could
// otherwise stay unacknowledged for a long time.
func (s *Store) removeItem(ctx context.Context, l *life) error {
	if l.work == nil {
		return nil
	}
	return outward(ctx, s.journal.Remove(ctx, l.work.Seq))
}

// Retry queues a failed, dead or canceled job again, with its original input and all
// its attempts. If the job is in any other state, it returns ErrConflict, and also if the
// input is lost because the server's max_payload was lowered while the job was
// unfinished.
func (s *Store) Retry(ctx context.Context, queue, id string) error {
	return s.change(ctx, queue, id, func(l *life) (*journal.Write, error) {
		if l.State <= StateDone {
			return nil, fmt.Errorf("%w: job %s is %s", ErrConflict, id, l.State)
		}
		if l.NoInput {
			return nil, fmt.Errorf("%w: the input of job %s was too large for the server to keep", ErrConflict, id)
		}
		it := l.item
		it.Delay, it.Deadline = 0, 0
		return &journal.Write{Kind: journal.Work, Meta: meta(it), Data: l.state.Data}, nil
	}, nil)
}

// Drop deletes a job that is over. If it is not, Drop returns ErrConflict.
func (s *Store) Drop(ctx context.Context, queue, id string) error {
	// The state is replaced, not removed. A removal could hit a new run of the job
	// that has begun since, and after it an older state could come back, see lookAt.
	return s.change(ctx, queue, id, func(l *life) (*journal.Write, error) {
		if !l.State.Terminal() {
			return nil, fmt.Errorf("%w: job %s is %s", ErrConflict, id, l.State)
		}
		r := record{item: item{Form: formVersion, Lease: l.Lease}, State: forgotten, Of: l.Of}
		return &journal.Write{Kind: journal.State, Meta: meta(r), TTL: l.kept(0)}, nil
	}, func(l *life) error { return s.removeItem(ctx, l) })
}

// change reads a job and writes the result of f. If the job was changed in between,
// it starts over. Without a Write it does nothing.
func (s *Store) change(ctx context.Context, queue, id string, f func(*life) (*journal.Write, error), then func(*life) error) error {
	for {
		l, ok, err := s.look(ctx, queue, id)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotFound
		}
		w, err := f(l)
		if w == nil || err != nil {
			return err
		}
		w.Queue, w.ID, w.After = queue, id, l.revision
		seq, err := s.journal.Put(ctx, *w)
		switch {
		case errors.Is(err, journal.ErrStale):
			continue
		case errors.Is(err, journal.ErrFull):
			return storeFull(queue)
		case err != nil:
			return outward(ctx, err)
		}
		if l.State == StateDead {
			_ = s.unmark(ctx, queue, id, seq) // on failure only the count is wrong
		}
		if then != nil {
			return then(l)
		}
		return nil
	}
}
