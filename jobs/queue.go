package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Queue takes jobs with an In, of which a Worker makes an Out. It is safe for
// concurrent use.
type Queue[In, Out any] struct {
	*queue
	in  Codec[In]
	out Codec[Out]
}

// A queue is what does not depend on the types.
type queue struct {
	store   *Store
	name    string
	o       QueueOptions
	backlog *backlog

	submitted, joined, refused atomic.Uint64 // atomics: counts, and nothing else
}

// NewQueue returns the queue of a name: up to 64 letters, digits, - and _.
// Inputs and results are JSON, unless WithCodecs says otherwise. Several Queues
// of one name are the same queue.
func NewQueue[In, Out any](ctx context.Context, s *Store, name string, o QueueOptions) (*Queue[In, Out], error) {
	o = o.withDefaults()
	if err := o.validate(name); err != nil {
		return nil, err
	}
	// Here, and not where a Worker starts, as the length of a queue is what its
	// consumer has before it.
	c, err := s.journal.Consumer(ctx, name, o.Lease)
	if err != nil {
		return nil, fmt.Errorf("jobs: queue %q: %w", name, outward(ctx, err))
	}
	o.Lease = c.CachedInfo().Config.AckWait
	return &Queue[In, Out]{
		queue: &queue{store: s, name: name, o: o, backlog: s.backlogOf(name)},
		in:    JSON[In](), out: JSON[Out](),
	}, nil
}

// WithCodecs returns a queue that is q, but for the form of inputs and results.
func (q *Queue[In, Out]) WithCodecs(in Codec[In], out Codec[Out]) *Queue[In, Out] {
	return &Queue[In, Out]{queue: q.queue, in: in, out: out}
}

// Name is the queue's.
func (q *queue) Name() string { return q.name }

// Lease is the one that holds, see QueueOptions.Lease.
func (q *queue) Lease() time.Duration { return q.o.Lease }

// Submit accepts a job, or joins the one with its key. Once it has returned a
// Handle, the job is as durable as the Handle says. The errors are a
// [*FullError], ErrConflict, ErrTooLarge, ErrUnavailable, ErrClosed, ctx's own,
// and those of the encoding and the options; only with ErrUnavailable and ctx's
// may the job be there all the same.
func (q *Queue[In, Out]) Submit(ctx context.Context, in In, o SubmitOptions) (*Handle[Out], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	data, err := q.in.Encode(in)
	if err != nil {
		return nil, fmt.Errorf("jobs: queue %q: input: %w", q.name, err)
	}
	id, joined, err := q.submit(ctx, data, o)
	if err != nil {
		return nil, err
	}
	h := q.Job(id)
	h.joined = joined
	return h, nil
}

// Join returns the job that a Submit with these options would join, or ErrNotFound.
// It accepts nothing. The other errors are ErrConflict, ErrUnavailable, ErrClosed,
// ctx's own, and those of the encoding and the options. In a cluster, a server that
// was the leader until a moment ago may not know the job.
func (q *Queue[In, Out]) Join(ctx context.Context, in In, o SubmitOptions) (*Handle[Out], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	it := item{Key: o.Key, Fingerprint: o.Fingerprint}
	if it.Key != "" && it.Fingerprint == "" {
		data, err := q.in.Encode(in)
		if err != nil {
			return nil, fmt.Errorf("jobs: queue %q: input: %w", q.name, err)
		}
		it.Fingerprint = fingerprint(data)
	}
	h := q.Job(idOf(q.store.o.Namespace, q.name, o.Key))
	_, _, there, err := q.existing(ctx, h.id, it, o)
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, ErrNotFound
	}
	q.joined.Add(1)
	h.joined = true
	return h, nil
}

// submit accepts encoded input.
func (q *queue) submit(ctx context.Context, data []byte, o SubmitOptions) (id string, joined bool, err error) {
	if len(data) > q.o.MaxInput {
		return "", false, fmt.Errorf("%w: the input has %d bytes, and queue %q takes %d", ErrTooLarge, len(data), q.name, q.o.MaxInput)
	}
	id = idOf(q.store.o.Namespace, q.name, o.Key)
	it := item{
		Form: formVersion, Key: o.Key, Owner: o.Owner, Serial: o.Serial, Fingerprint: o.Fingerprint,
		Version: q.o.Version, Delay: o.Delay, Deadline: o.Deadline, Keep: q.o.ResultTTL, Lease: q.o.Lease,
	}
	if o.Key != "" && it.Fingerprint == "" {
		it.Fingerprint = fingerprint(data)
	}
	for {
		after, dead, there, err := q.existing(ctx, id, it, o)
		if err != nil {
			return "", false, err // with ErrUnavailable, too, nothing was submitted
		}
		if there {
			q.joined.Add(1)
			return id, true, nil
		}
		if err := q.admit(ctx, len(data)); err != nil {
			return "", false, err
		}
		seq, err := q.store.journal.Put(ctx, journal.Write{
			Queue: q.name, ID: id, Kind: journal.Work, Meta: meta(it), Data: data, After: after,
		})
		switch {
		case err == nil:
			q.submitted.Add(1)
			if dead {
				_ = q.store.unmark(ctx, q.name, id, seq) // the job is accepted all the same
			}
			return id, false, nil
		case errors.Is(err, journal.ErrStale) && o.Key != "":
			continue // somebody was first: look what there is now
		case errors.Is(err, journal.ErrStale):
			// Nobody else has this ID: it is there from a try whose answer was
			// lost, and may have been worked on since.
			q.submitted.Add(1)
			return id, false, nil
		case errors.Is(err, journal.ErrFull):
			q.refused.Add(1)
			return "", false, &FullError{Queue: q.name, Reason: FullStore, RetryAfter: storeFullRetry}
		}
		return "", false, outward(ctx, err)
	}
}

// existing looks for a job that can be joined, and if there is none returns the
// revision that a new one has to follow, and whether that is a dead job's.
func (q *queue) existing(ctx context.Context, id string, it item, o SubmitOptions) (after uint64, dead, there bool, err error) {
	if it.Key == "" {
		return 0, false, false, nil
	}
	l, revision, err := q.store.lookAt(ctx, q.name, id)
	switch {
	case err != nil:
		return 0, false, false, err
	case l == nil || !o.Once && (l.State > StateDone || l.State == StateDone && o.Restart):
		return revision, l != nil && l.State == StateDead, false, nil
	case l.Fingerprint != it.Fingerprint:
		return 0, false, false, fmt.Errorf("%w: job %s with this key has another input", ErrConflict, id)
	}
	return 0, false, true, outward(ctx, q.store.journal.Flush(ctx)) // it is as durable as a new one
}

// admit refuses what goes beyond a limit.
func (q *queue) admit(ctx context.Context, size int) error {
	err := q.store.room.admit(ctx, q.name, size)
	if err == nil {
		err = q.backlog.admit(ctx, &q.o)
	}
	if errors.Is(err, ErrFull) {
		q.refused.Add(1)
	}
	return err
}

// Stats counts what the Submits of a Queue did in this process.
type Stats struct {
	Submitted uint64 // accepted, without those joined
	Joined    uint64
	Refused   uint64 // with a *FullError
}

// Stats returns the counts.
func (q *queue) Stats() Stats {
	return Stats{Submitted: q.submitted.Load(), Joined: q.joined.Load(), Refused: q.refused.Load()}
}
