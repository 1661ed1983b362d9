package jobs

import (
	"context"
	"errors"
	"fmt"
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

	reported func(Progress)   // of package jobstest, instead of what follows; nil: none
	clock    func() time.Time // of package jobstest; nil: the Store's

	mu       sync.Mutex
	progress *Progress   // guarded by mu; the latest report
	lines    []LogLine   // guarded by mu; the log, once this attempt has written to it; its elements do not change
	logged   int         // guarded by mu; the lines of all time; 0: this attempt has written none
	news     int         // guarded by mu; counts reports and texts
	timer    *time.Timer // guarded by mu; for the next write of them
	wrote    time.Time   // guarded by mu; when they were written last
	over     bool        // guarded by mu; nothing more is written
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
				o = outcome{err: &PanicError{Value: p, Stack: debug.Stack()}}
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
	e := a.decide(a.now(), context.Cause(ctx), a.w.stopping.Err() != nil, data, err)
	switch {
	case e.Kind == EventDropped:
		// The item is not acknowledged: it may now belong to another attempt, which
		// needs it if its worker dies.
		a.end(e.AttemptEnd)
	case a.State == StateRetrying:
		a.retry(e)
	default:
		a.finish(e)
	}
}

// retry marks the job as waiting for its next attempt.
func (a *attempt) retry(e ending) {
	if a.write(nil, underWayTTL, e.AttemptEnd) {
		a.m.NakWithDelay(a.RetryIn)
	}
}

// handBack returns the job as if this attempt had not happened.
func (a *attempt) handBack(after time.Duration) { a.retry(a.handedBack(after)) }

// finish ends the job.
func (a *attempt) finish(e ending) {
	if a.write(e.data, a.kept(e.ttl), e.AttemptEnd) {
		if a.State == StateDead {
			a.w.mark(a.id, a.kept(e.ttl))
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
		case errors.Is(err, journal.ErrTooLarge) && a.lessen(&data):
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
