package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Handle is a job that was submitted. It is safe for concurrent use.
type Handle[Out any] struct {
	queue  *queue
	out    Codec[Out]
	id     string
	joined bool
}

// Job returns the Handle of a job by its ID. It does not look whether there is
// one.
func (q *Queue[In, Out]) Job(id string) *Handle[Out] {
	return &Handle[Out]{queue: q.queue, out: q.out, id: id}
}

// ID names the job, in its queue: 32 digits and small letters a to f, 128 bits.
// With a SubmitOptions.Key it is made from the namespace, the queue and the key,
// otherwise it is random.
func (h *Handle[Out]) ID() string { return h.id }

// Joined reports whether Submit found the job there.
func (h *Handle[Out]) Joined() bool { return h.joined }

// Durability is what the acceptance survives.
func (h *Handle[Out]) Durability() Durability { return h.queue.store.o.Durability }

// lookAgain is how often who waits looks by itself, as a message that the job
// has changed may be lost.
const lookAgain = 5 * time.Second

// Wait returns the job's result once it is there. Its errors are a [*JobError],
// ErrCanceled, ErrNotFound (the job, or its result, is not kept any more),
// ErrClosed, ctx's own, and those of the decoding. A server that is away only
// delays it.
func (h *Handle[Out]) Wait(ctx context.Context) (Out, error) {
	var out Out
	for l, err := range h.follow(ctx) {
		if err != nil {
			return out, err
		}
		switch l.State {
		case StateDone:
			out, err = h.out.Decode(l.state.Data, l.Version)
			if err != nil {
				err = fmt.Errorf("jobs: result of job %s: %w", h.id, err)
			}
			return out, err
		case StateCanceled:
			return out, ErrCanceled
		case StateFailed, StateDead:
			return out, &JobError{ID: h.id, State: l.State, Attempt: l.Attempt, Message: l.Error}
		}
	}
	return out, ErrNotFound
}

// Status returns how the job stands now.
func (h *Handle[Out]) Status(ctx context.Context) (Status, error) {
	return h.queue.store.Status(ctx, h.queue.name, h.id)
}

// Watch yields the job's Status, now and after each change, and ends after one
// that is Terminal, or with an error: those of Wait that are not about the
// outcome. Of changes that follow closely only the last may be seen.
func (h *Handle[Out]) Watch(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for l, err := range h.follow(ctx) {
			if err != nil {
				yield(Status{}, err)
				return
			}
			if !yield(l.status(h.queue.name, h.id, h.Durability()), nil) {
				return
			}
		}
	}
}

// Cancel is Store.Cancel for this job.
func (h *Handle[Out]) Cancel(ctx context.Context) error {
	return h.queue.store.Cancel(ctx, h.queue.name, h.id)
}

// follow yields the job as it is and after each change, until it is over.
func (h *Handle[Out]) follow(ctx context.Context) iter.Seq2[*life, error] {
	return func(yield func(*life, error) bool) {
		j := h.queue.store.journal
		changed, stop, err := j.Changed(h.queue.name, h.id)
		if err != nil {
			yield(nil, outward(ctx, err))
			return
		}
		defer stop()
		seen := uint64(0)
		for {
			l, ok, err := h.queue.store.look(ctx, h.queue.name, h.id)
			switch {
			case errors.Is(err, ErrUnavailable):
				// The connection says when it is back.
			case err != nil:
				yield(nil, err)
				return
			case !ok:
				yield(nil, ErrNotFound)
				return
			case l.shown() != seen:
				seen = l.shown()
				if l.State.Terminal() {
					// What was read may not be on the disk yet. A result that
					// somebody has seen must not become another one.
					if err := j.Flush(ctx); err != nil {
						yield(nil, outward(ctx, err))
						return
					}
				}
				if !yield(l, nil) || l.State.Terminal() {
					return
				}
			}
			if err := pauseFor(ctx, j, changed); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// pauseFor waits until a job may have changed.
func pauseFor(ctx context.Context, j *journal.Journal, changed <-chan struct{}) error {
	t := time.NewTimer(lookAgain/2 + rand.N(lookAgain/2))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-j.Closed():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
