package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Queue accepts jobs with an input of type In; a Worker computes their results, of
// type Out. It is safe for concurrent use.
type Queue[In, Out any] struct {
	*queue
	in  Codec[In]
	out Codec[Out]
}

// A queue is the part of a Queue that does not depend on the types.
type queue struct {
	store   *Store
	name    string
	o       QueueOptions
	backlog *backlog

	submitted, joined, refused atomic.Uint64 // atomics: they are only counts
}

// NewQueue returns the queue with a name of up to 64 letters, digits, - and _. Inputs
// and results are JSON, unless WithCodecs sets other codecs. Several Queues with one
// name are the same queue.
func NewQueue[In, Out any](ctx context.Context, s *Store, name string, o QueueOptions) (*Queue[In, Out], error) {
	o = o.withDefaults()
	if err := o.validate(name); err != nil {
		return nil, err
	}
	// The consumer is created here and not by the first Worker, because the length of
	// a queue is the number of messages pending for its consumer.
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

// WithCodecs returns the same queue with other codecs for inputs and results.
func (q *Queue[In, Out]) WithCodecs(in Codec[In], out Codec[Out]) *Queue[In, Out] {
	return &Queue[In, Out]{queue: q.queue, in: in, out: out}
}

// Name returns the queue's name.
func (q *queue) Name() string { return q.name }

// Lease returns the lease in effect, see QueueOptions.Lease.
func (q *queue) Lease() time.Duration { return q.o.Lease }

// Submit accepts a job, or joins the one with its key. Once it has returned a Handle,
// the job is as durable as the Handle reports. The errors are a [*FullError],
// ErrConflict, ErrTooLarge, ErrUnavailable, ErrClosed, ctx's error, and those of the
// encoding and the options. Only after ErrUnavailable or ctx's error can the job
// exist anyway.
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
// It never creates a job. The other errors are ErrConflict, ErrUnavailable,
// ErrClosed, ctx's error, and those of the encoding and the options. In a cluster, a
// server that was the leader until a moment ago may not know the job.
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

// submit accepts an encoded input.
func (q *queue) submit(ctx context.Context, data []byte, o SubmitOptions) (id string, joined bool, err error) {
	if err := q.fits(data); err != nil {
		return "", false, err
	}
	id = idOf(q.store.o.Namespace, q.name, o.Key)
	it := q.item(data, o)
	for {
		after, dead, there, err := q.existing(ctx, id, it, o)
		if err != nil {
			return "", false, err // even with ErrUnavailable, nothing was submitted
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
		q.store.room.written(len(data))
		switch {
		case err == nil:
			q.submitted.Add(1)
			if dead {
				_ = q.store.unmark(ctx, q.name, id, seq) // on failure the job is accepted anyway
			}
			return id, false, nil
		case errors.Is(err, journal.ErrStale) && o.Key != "":
			continue // another caller was first: read the job again
		case errors.Is(err, journal.ErrStale):
			// No other job has this ID: an earlier try stored it and its
			// acknowledgement was lost. The job may have run since.
			q.submitted.Add(1)
			return id, false, nil
		case errors.Is(err, journal.ErrFull):
			q.refused.Add(1)
			return "", false, storeFull(q.name)
		}
		return "", false, outward(ctx, err)
	}
}

// fits returns ErrTooLarge if an encoded input is too large.
func (q *queue) fits(data []byte) error {
	if len(data) > q.o.MaxInput {
		return fmt.Errorf("%w: the input has %d bytes; queue %q accepts %d", ErrTooLarge, len(data), q.name, q.o.MaxInput)
	}
	if most := q.store.mostData(); len(data) > most {
		return fmt.Errorf("%w: the input has %d bytes; with the server's max_payload, queue %q accepts %d", ErrTooLarge, len(data), q.name, most)
	}
	return nil
}

// maxHeaders is the size of all headers of a message that the server accepts.
const maxHeaders = 64 << 10

// mostData returns the size of the largest input for which the server accepts every
// record of the job. A job that fails for good is written with its input and a history
// that it did not have when it was accepted.
func (s *Store) mostData() int {
	if s.journal == nil { // of package jobstest
		return MaxPayload
	}
	most := s.journal.MaxPayload()
	return most - min(maxHeaders, most/2)
}

// item returns the metadata of a job with an encoded input.
func (q *queue) item(data []byte, o SubmitOptions) item {
	it := item{
		Key: o.Key, Owner: o.Owner, Label: o.Label, Serial: o.Serial, Fingerprint: o.Fingerprint,
		Version: q.o.Version, Delay: o.Delay, Deadline: o.Deadline, Keep: q.o.ResultTTL, Lease: q.o.Lease,
		LimitKey: o.LimitKey, Headers: o.Headers,
	}
	it.Form = formVersion
	if o.Key != "" && it.Fingerprint == "" {
		it.Fingerprint = fingerprint(data)
	}
	return it
}

// existing looks for a job that can be joined. If there is none, it returns the
// revision that a new job has to follow, and whether a dead job has that revision.
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
		return 0, false, false, fmt.Errorf("%w: job %s with this key has a different input", ErrConflict, id)
	}
	return 0, false, true, outward(ctx, q.store.journal.Flush(ctx)) // the joined job becomes as durable as a new one
}

// admit refuses a job that would exceed a limit.
func (q *queue) admit(ctx context.Context, size int) error { return q.count(q.room(ctx, size)) }

// room is admit without the count of refusals. After a nil, the caller must call
// q.store.room.written.
func (q *queue) room(ctx context.Context, size int) error {
	if err := q.store.room.admit(ctx, q.name, size); err != nil {
		return err
	}
	err := q.backlog.admit(ctx, &q.o)
	if err != nil {
		q.store.room.written(size)
	}
	return err
}

// count counts a refusal, and returns err.
func (q *queue) count(err error) error {
	if errors.Is(err, ErrFull) {
		q.refused.Add(1)
	}
	return err
}

// Stats counts the Submits and Joins of a Queue in this process.
type Stats struct {
	Submitted uint64 // accepted, without those that joined
	Joined    uint64 // submissions that joined an existing job
	Refused   uint64 // calls of Submit that failed with a *FullError
}

// Stats returns the counts.
func (q *queue) Stats() Stats {
	return Stats{Submitted: q.submitted.Load(), Joined: q.joined.Load(), Refused: q.refused.Load()}
}
