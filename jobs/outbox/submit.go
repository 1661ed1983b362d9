package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A verdict is what becomes of a row.
type verdict struct {
	kind   verdictKind
	reason Reason // for verdictParked
	err    error
}

type verdictKind uint8

const (
	verdictReleased verdictKind = iota // it may have been submitted; tried again
	verdictUntried                     // it was not submitted for certain; tried again
	verdictFailed                      // as released, and the row's own fault
	verdictJob                         // the job exists
	verdictParked
)

// errDoubtful is the Detail of rows that are parked as doubtful.
var errDoubtful = errors.New("the row was claimed before, and its job may have run and been forgotten since")

// errInfinite is the Detail of rows that are parked because an instant has no duration
// from now on.
var errInfinite = errors.New("not_before, deadline or tried_at is infinite")

// submit submits the rows, and sets their verdicts. Submissions that have begun
// when ctx ends are finished. No submission goes on after the claim has expired.
//
// Most rows are new and need no lookup: they are submitted with one write. The others
// follow one by one.
func (b *batch) submit(ctx context.Context) {
	within, cancel := context.WithDeadline(context.WithoutCancel(ctx), b.since.Add(b.l.r.o.Lease))
	defer cancel()
	single := b.submitNew(ctx, within)
	slots := make(chan struct{}, b.l.r.o.Parallel)
	var running sync.WaitGroup
	for _, row := range single {
		slots <- struct{}{}
		q := b.queue(ctx, within, row)
		if q == nil {
			<-slots
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			row.verdict = b.judge(within, q, row)
		})
	}
	running.Wait()
}

// queue returns the queue that submits a row. It returns nil, and sets the verdict, if
// the batch has to stop. Only the lane's goroutine calls it, because lane.queues has no
// lock.
func (b *batch) queue(ctx, within context.Context, r *row) *jobs.Queue[[]byte, []byte] {
	if ctx.Err() != nil || within.Err() != nil || b.stopped() {
		r.verdict = r.untouched()
		return nil
	}
	q, err := b.l.queue(within, r.version)
	if err != nil {
		r.verdict = r.untouched()
		b.fail(err)
	}
	return q
}

// untouched is the verdict of a row that this batch did not submit.
func (r *row) untouched() verdict {
	if r.tried.Valid {
		return verdict{kind: verdictReleased}
	}
	return verdict{kind: verdictUntried}
}

// stopped reports whether the rest of the batch has to wait.
func (b *batch) stopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pause > 0 || b.err != nil
}

func (b *batch) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// judge submits one row.
func (b *batch) judge(ctx context.Context, q *jobs.Queue[[]byte, []byte], r *row) verdict {
	if r.size > b.l.o.MaxInput {
		return verdict{verdictParked, ReasonTooLarge,
			fmt.Errorf("outbox: %w: the input has %d bytes; queue %q accepts %d", ErrTooLarge, r.size, b.l.name, b.l.o.MaxInput)}
	}
	o, inTime := b.options(r)
	doubtful := b.doubtful(r)
	if doubtful {
		b.l.r.counts.doubtful.Add(1)
	}
	if !inTime || !r.finite || doubtful {
		switch _, err := q.Join(ctx, r.data(), o); {
		case err == nil:
			return b.job(ctx, r, true)
		case !errors.Is(err, jobs.ErrNotFound):
			return b.refused(ctx, r, err)
		case !r.finite:
			return verdict{verdictParked, ReasonInvalid, errInfinite}
		case !inTime:
			return verdict{verdictParked, ReasonExpired, jobs.ErrExpired}
		case !b.l.r.o.ResubmitDoubtful:
			return verdict{verdictParked, ReasonDoubtful, errDoubtful}
		}
	}
	h, err := q.Submit(ctx, r.data(), o)
	if err != nil {
		return b.refused(ctx, r, err)
	}
	return b.job(ctx, r, h.Joined())
}

// options returns the options of the row's job. The row's instants become durations from
// now on. It returns false if the row's deadline has passed.
func (b *batch) options(r *row) (o jobs.SubmitOptions, inTime bool) {
	o = jobs.SubmitOptions{Key: r.id, Once: true, Serial: r.serial, Owner: r.owner, Fingerprint: r.fingerprint}
	passed := time.Since(b.since)
	if r.notBefore.Valid {
		o.Delay = min(max(0, microseconds(r.notBefore.Int64)-passed), jobs.MaxDelay)
	}
	if !r.deadline.Valid {
		return o, true
	}
	left := microseconds(r.deadline.Int64) - passed
	if left <= o.Delay {
		return o, false
	}
	o.Deadline = left
	return o, true
}

// doubtful reports whether an earlier try may have submitted the row so long ago that
// its job could be forgotten by now. A job of a try at tried_at ended later than that,
// so it is known until tried_at + remembers at least. The lookup in this batch happens
// before the claim expires.
func (b *batch) doubtful(r *row) bool {
	return r.tried.Valid && microseconds(r.tried.Int64)+b.l.r.o.Lease > b.l.remembers
}

// job is the verdict of a row whose job exists.
func (b *batch) job(ctx context.Context, r *row, known bool) verdict {
	kind := EventSubmitted
	if known {
		kind = EventKnown
	}
	b.l.r.event(ctx, Event{Kind: kind, Queue: b.l.name, ID: r.id, Age: time.Since(b.since)})
	return verdict{kind: verdictJob}
}

// refused is the verdict of a row that Submit or Join refused.
func (b *batch) refused(ctx context.Context, r *row, err error) verdict {
	var full *jobs.FullError
	var option *jobs.OptionError
	switch {
	case errors.As(err, &full):
		b.mu.Lock()
		defer b.mu.Unlock()
		if full.RetryAfter > b.pause {
			b.pause, b.full = full.RetryAfter, err
		}
		// The refusal comes after a lookup that did not find the job, so an earlier try
		// did not submit it either.
		return verdict{kind: verdictUntried}
	case errors.Is(err, jobs.ErrConflict):
		return verdict{verdictParked, ReasonConflict, err}
	case errors.Is(err, jobs.ErrTooLarge):
		return verdict{verdictParked, ReasonTooLarge, err}
	case errors.As(err, &option):
		return verdict{verdictParked, ReasonInvalid, err}
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, jobs.ErrClosed), ctx.Err() != nil:
		b.fail(err)
		return verdict{kind: verdictReleased, err: err}
	case r.tries+1 >= b.l.r.o.MaxTries:
		return verdict{verdictParked, ReasonFailing, err}
	}
	b.l.r.trouble(ctx, b.l.name, r.id, err)
	return verdict{kind: verdictFailed, err: err}
}
