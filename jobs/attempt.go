package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs/internal/journal"
	"github.com/weir-go/weir/limit"
)

// An attempt is one run of the handler.
type attempt struct {
	record
	w     *Worker
	m     jetstream.Msg
	id    string
	input []byte
	fence uint64
	begun bool // an earlier attempt has begun, and was not snoozed

	cancel context.CancelCauseFunc

	// seen is the context that the Observer returned; nil before the attempt starts.
	// began and took are the handler's start and duration. All three are only for
	// run's goroutine.
	seen  context.Context
	began time.Time
	took  time.Duration

	// renewed is when the last successful heartbeat was sent; at first, when the
	// running marker was. It is only for run and then for beat.
	renewed time.Time

	turn     sync.Mutex // held while the job's state is written
	revision uint64     // guarded by turn; of this attempt's last write
	shown    uint64     // guarded by turn; of its last write that was not a heartbeat
	settled  bool       // guarded by turn; the outcome may have been written
	marker   record     // guarded by turn; the record while the handler runs

	mu       sync.Mutex
	progress *Progress   // guarded by mu; the latest report
	timer    *time.Timer // guarded by mu; for the next write of progress
	wrote    time.Time   // guarded by mu; when progress was written last
	over     bool        // guarded by mu; no more progress is written
}

// An undecodable error makes a job dead at once: no worker of this version can read
// its input.
type undecodable struct {
	version int
	err     error
}

func (e *undecodable) Error() string {
	return fmt.Sprintf("input of version %d does not decode: %v", e.version, e.err)
}

func (e *undecodable) Unwrap() error { return e.err }

// errGoexit is the error of a handler that called runtime.Goexit, as t.FailNow of
// package testing does.
var errGoexit = errors.New("handler called runtime.Goexit")

// leaveAfter is how long a handler can continue after its context has ended. After
// that its outcome is ignored.
const leaveAfter = time.Second

// run runs the handler with a heartbeat, and writes the outcome.
func (a *attempt) run(permit limit.Permit) {
	ctx, cancel := context.WithCancelCause(a.w.hurry)
	a.cancel = cancel
	defer cancel(nil)
	if d := a.w.queue.o.AttemptTimeout; d > 0 {
		t := time.AfterFunc(d, func() { cancel(ErrTimeout) })
		defer t.Stop()
	}
	a.w.began(a)
	defer a.w.ended(a)
	if !a.confirm(ctx) {
		permit.Release(limit.Unused)
		a.w.event(ctx, Event{Kind: EventDropped, ID: a.id, Attempt: a.Attempt, Fence: a.fence, Err: context.Cause(ctx)})
		return
	}
	stop := a.beat()
	a.start(ctx)
	data, err := a.call(a.seen, permit)
	a.took = time.Since(a.began)
	a.quiet()
	a.conclude(ctx, data, err)
	stop()
}

// call calls the handler. It returns when the handler does, or leaveAfter after the
// context has ended.
func (a *attempt) call(ctx context.Context, permit limit.Permit) ([]byte, error) {
	type outcome struct {
		data []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() { // ends with the handler, which keeps its permit until then
		defer permit.Release(limit.Ignored)
		o := outcome{err: errGoexit} // unless the handler returns
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: fmt.Errorf("handler panicked: %v\n%s", p, debug.Stack())}
			}
			done <- o
		}()
		o.data, o.err = a.w.handle(ctx, a)
		permit.Release(a.permitOutcome(ctx, o.err))
	}()
	select {
	case o := <-done:
		return o.data, o.err
	case <-ctx.Done():
	}
	t := time.NewTimer(leaveAfter)
	defer t.Stop()
	select {
	case o := <-done:
		return o.data, o.err
	case <-t.C:
		return nil, fmt.Errorf("%w, and the handler has not returned", context.Cause(ctx))
	}
}

// permitOutcome returns the Outcome for an adaptive limiter.
func (a *attempt) permitOutcome(ctx context.Context, err error) limit.Outcome {
	switch {
	case errors.Is(context.Cause(ctx), ErrTimeout), err != nil && a.w.classify(err) == weir.ClassOverload:
		return limit.Dropped
	case ctx.Err() != nil:
		return limit.Ignored
	}
	return limit.Success
}

// conclude writes the outcome.
func (a *attempt) conclude(ctx context.Context, data []byte, err error) {
	cause := context.Cause(ctx)
	var snooze *snoozeError
	switch {
	case errors.Is(cause, ErrCanceled), errors.Is(cause, ErrLeaseLost):
		// The item is not acknowledged: it may now belong to another attempt, which
		// needs it if its worker dies.
		a.end(AttemptEnd{Kind: EventDropped, Err: cause})
		return
	case errors.As(err, new(*notBegunError)) && !errors.Is(cause, ErrTimeout):
		after := time.Duration(0)
		if a.w.stopping.Err() == nil {
			after = a.delay(err)
		}
		a.handBack(after)
		return
	case errors.As(err, &snooze) && !errors.Is(cause, ErrTimeout) && a.Snoozes < a.w.queue.o.MaxSnoozes:
		a.snooze(snooze.d)
		return
	case err != nil && errors.Is(cause, ErrStopping) && !errors.As(err, new(*permanentError)) && a.w.queue.o.MaxAttempts > 1:
		a.handBack(0)
		return
	case err != nil && errors.Is(cause, ErrTimeout):
		err = fmt.Errorf("%w after %v: %w", ErrTimeout, a.w.queue.o.AttemptTimeout, err)
	}
	if err == nil {
		a.finish(StateDone, data, a.Keep, AttemptEnd{Kind: EventSucceeded})
		return
	}
	a.failed(err)
}

// failed decides what happens to a job whose attempt has failed.
func (a *attempt) failed(err error) {
	if errors.As(err, new(*snoozeError)) {
		err = fmt.Errorf("%w; MaxSnoozes (%d) is reached", err, max(a.w.queue.o.MaxSnoozes, 0))
	}
	o, class := &a.w.queue.o, a.w.classify(err)
	a.fail(a.w.queue.store.journal.Now(), err, class.String())
	var unread *undecodable
	switch {
	case errors.As(err, &unread):
		a.finish(StateDead, a.input, o.DeadTTL, AttemptEnd{Kind: EventEnded, Err: err})
	case class == weir.ClassPermanent || class == weir.ClassNotFound:
		a.finish(StateFailed, a.input, a.failedTTL(a.w.queue), AttemptEnd{Kind: EventEnded, Err: err})
	case a.Spent >= o.MaxAttempts:
		a.finish(StateDead, a.input, o.DeadTTL, AttemptEnd{Kind: EventEnded, Err: err})
	default:
		a.retry(a.delay(err), AttemptEnd{Kind: EventRetried, Err: err})
	}
}

// classify returns the class of a handler's error.
func (w *Worker) classify(err error) weir.Class {
	var permanent *permanentError
	var in *retryInError
	switch {
	case errors.As(err, &permanent):
		return weir.ClassPermanent
	case errors.As(err, &in), errors.As(err, new(*snoozeError)):
		return weir.ClassTransient
	case errors.Is(err, limit.ErrLimited):
		return weir.ClassOverload
	case w.queue.o.Classify != nil:
		return ask(w.queue.o.Classify, err)
	}
	return weir.ClassTransient
}

// ask recovers from a panic of the user's function, because the job must have an
// outcome. No other code on this goroutine would recover.
func ask(classify func(error) weir.Class, err error) (c weir.Class) {
	defer func() { _ = recover() }()
	return classify(err)
}

// delay returns the wait before the next attempt: what the error specifies, or twice
// the previous wait, less a random share of up to a fifth. A limiter's RetryAfter is
// a minimum, so up to a fifth is added to it at random.
func (a *attempt) delay(err error) time.Duration {
	var in *retryInError
	if errors.As(err, &in) {
		return min(max(in.d, 0), MaxDelay)
	}
	var snooze *snoozeError
	if errors.As(err, &snooze) {
		return snooze.d
	}
	var limited *limit.Error
	if errors.As(err, &limited) {
		return min(limited.RetryAfter+rand.N(limited.RetryAfter/5+1), MaxDelay)
	}
	o := &a.w.queue.o
	d := o.RetryInitial
	for n := 1; n < a.Spent && d < o.RetryMax; n++ {
		d *= 2
	}
	d = min(d, o.RetryMax)
	return d - rand.N(d/5+1)
}

// retry marks the job as waiting for its next attempt.
func (a *attempt) retry(after time.Duration, e AttemptEnd) {
	a.State, a.RetryIn = StateRetrying, after
	if a.write(nil, underWayTTL, e) {
		a.m.NakWithDelay(after)
	}
}

// handBack returns the job as if this attempt had not happened.
func (a *attempt) handBack(after time.Duration) {
	a.Spent--
	a.retry(after, AttemptEnd{Kind: EventHandedBack})
}

// snooze hands the job back for d. It has not begun if no earlier attempt had begun:
// its Deadline then still applies.
func (a *attempt) snooze(d time.Duration) {
	a.Spent--
	a.Snoozes++
	a.Begun = a.begun
	if !a.Begun && a.Deadline > 0 && a.w.queue.store.journal.Now().Sub(a.Submitted)+d > a.Deadline {
		a.Error = ErrExpired.Error()
		a.finish(StateFailed, a.input, a.failedTTL(a.w.queue), AttemptEnd{Kind: EventEnded, Err: ErrExpired})
		return
	}
	a.retry(d, AttemptEnd{Kind: EventSnoozed})
}

// finish ends the job.
func (a *attempt) finish(s State, data []byte, ttl time.Duration, e AttemptEnd) {
	a.State = s
	e.State = s
	if a.write(data, a.kept(ttl), e) {
		if a.State == StateDead {
			a.w.mark(a.id, a.kept(ttl))
		}
		a.m.Ack() // if it is lost, the item is redelivered and the job found to be over
	}
}

// write writes the outcome, and reports whether it is kept. If the server is
// unavailable, it retries for as long as the Worker has time: without the outcome the
// work would be lost.
func (a *attempt) write(data []byte, ttl time.Duration, e AttemptEnd) bool {
	for {
		err := a.put(a.record, data, ttl)
		switch {
		case err == nil:
			a.end(e)
			return true
		case errors.Is(err, journal.ErrStale):
			a.end(AttemptEnd{Kind: EventDropped, Err: ErrLeaseLost}) // not acknowledged either, see conclude
			return false
		case errors.Is(err, journal.ErrTooLarge) && a.State == StateDone:
			a.Error = clip(fmt.Sprintf("%v: the result has %d bytes: %v", ErrTooLarge, len(data), err))
			a.State, data, ttl = StateFailed, a.input, a.kept(a.failedTTL(a.w.queue))
			e = AttemptEnd{Kind: EventEnded, State: StateFailed, Err: err}
			continue
		}
		a.w.event(a.seen, Event{Kind: EventTrouble, ID: a.id, Attempt: a.Attempt, Fence: a.fence, Err: err})
		if a.w.hurry.Err() != nil {
			a.end(AttemptEnd{Kind: EventUnknown, Err: err})
			return false // the lease will expire
		}
		select {
		case <-a.w.hurry.Done():
		case <-time.After(afterTrouble):
		}
	}
}

// put writes the state after this attempt's last write. The attempt's context does
// not bound it, because the outcome of an attempt that timed out counts too. The
// journal has a timeout.
func (a *attempt) put(r record, data []byte, ttl time.Duration) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	if r.State != StateRunning {
		a.settled = true // set before the write, which may succeed without a response
	}
	seq, err := a.putLocked(context.Background(), journal.Write{
		Meta: meta(r), Data: data, TTL: ttl,
		// No caller waits for the end of an event. If this write is lost, the event
		// runs again.
		Unflushed: r.State == StateDone && r.Keep == None,
	}, r.State)
	if err == nil {
		a.shown = seq
	}
	return err
}

// putLocked writes after this attempt's last write. Only this attempt writes states
// with its fence, except for a cancel. So if the stored state is running with its
// fence, that is one of its own writes whose response was lost. The same holds for a
// stored state that equals the one to write. a.turn must be held.
func (a *attempt) putLocked(ctx context.Context, w journal.Write, s State) (uint64, error) {
	j, name := a.w.queue.store.journal, a.w.queue.name
	w.Queue, w.ID, w.Kind = name, a.id, journal.State
	for {
		w.After = a.revision
		seq, err := j.Put(ctx, w)
		if err == nil {
			a.revision = seq
			return seq, nil
		}
		if !errors.Is(err, journal.ErrStale) {
			return 0, err
		}
		there, err2 := j.ReadKind(ctx, name, a.id, journal.State)
		if err2 != nil || there == nil || there.Seq == a.revision {
			return 0, errors.Join(err, err2)
		}
		l, _, err2 := read(journal.View{State: there})
		switch {
		case err2 != nil || l.Fence != a.fence || l.State != StateRunning && l.State != s:
			return 0, errors.Join(err, err2)
		case l.State != StateRunning:
			a.revision = there.Seq
			return there.Seq, nil
		}
		a.revision = there.Seq
	}
}
