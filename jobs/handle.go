package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Handle refers to a submitted job. It is safe for concurrent use.
type Handle[Out any] struct {
	queue  *queue
	out    Codec[Out]
	id     string
	joined bool
}

// Job returns the Handle of a job by its ID. It does not check whether the job
// exists.
func (q *Queue[In, Out]) Job(id string) *Handle[Out] {
	return &Handle[Out]{queue: q.queue, out: q.out, id: id}
}

// ID is the job's ID in its queue: 32 digits and lower-case letters a to f, 128 bits.
// With a SubmitOptions.Key it is a hash of the namespace, the queue and the key;
// otherwise it is random.
func (h *Handle[Out]) ID() string { return h.id }

// Joined reports whether Submit joined an existing job.
func (h *Handle[Out]) Joined() bool { return h.joined }

// Durability is what the accepted job survives.
func (h *Handle[Out]) Durability() Durability { return h.queue.store.o.Durability }

// lookAgain is the longest wait between two reads of a job that is followed; the
// message that announces a change can be lost.
const lookAgain = 5 * time.Second

// Wait waits for the job's result. Its errors are a [*JobError], ErrCanceled,
// ErrNotFound (the job, or its result, is no longer kept), ErrClosed, ctx's error,
// and those of the decoding. If the server is unavailable, Wait only takes longer.
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

// Status returns the job's current Status.
func (h *Handle[Out]) Status(ctx context.Context) (Status, error) {
	return h.queue.store.Status(ctx, h.queue.name, h.id)
}

// Watch yields the job's Status, now and after each change, such as lines in its log. It
// ends after a Terminal one, or with one of Wait's errors that are not about the outcome.
// Of changes in quick succession it may yield only the last.
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

// Cancel calls Store.Cancel for this job.
func (h *Handle[Out]) Cancel(ctx context.Context) error {
	return h.queue.store.Cancel(ctx, h.queue.name, h.id)
}

// follow yields the job as it is now and after each change, until it is over.
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
			if err == nil && ok && l.State.Terminal() {
				// The state may not be on the disk yet. A result that a caller has seen
				// must not change.
				err = outward(ctx, j.Flush(ctx))
			}
			switch {
			case errors.Is(err, ErrUnavailable):
				// The connection signals when the server is back.
			case err != nil:
				yield(nil, err)
				return
			case !ok:
				yield(nil, ErrNotFound)
				return
			case l.shown() != seen:
				seen = l.shown()
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
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return nil
}
