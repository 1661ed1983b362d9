package jobs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// An ending is what the end of an attempt means for its job. The rest is in the
// attempt's record.
type ending struct {
	AttemptEnd
	data []byte        // of a job that is over: its result, or its input
	ttl  time.Duration // of the same
}

// decide decides what the end of an attempt means, and changes its record accordingly.
// It writes nothing. cause is that of the attempt's context, stopping reports whether
// the Worker stops, and data and err are the handler's.
func (a *attempt) decide(at time.Time, cause error, stopping bool, data []byte, err error) ending {
	var snooze *snoozeError
	switch {
	case errors.Is(cause, ErrCanceled), errors.Is(cause, ErrLeaseLost):
		return ending{AttemptEnd: AttemptEnd{Kind: EventDropped, Err: cause}}
	case errors.As(err, new(*notBegunError)) && !errors.Is(cause, ErrTimeout):
		after := time.Duration(0)
		if !stopping {
			after = a.delay(err)
		}
		return a.handedBack(after)
	case errors.As(err, &snooze) && !errors.Is(cause, ErrTimeout) && a.Snoozes < a.w.queue.o.MaxSnoozes:
		return a.snoozed(at, snooze.d)
	case err != nil && errors.Is(cause, ErrStopping) && !errors.As(err, new(*permanentError)) && a.w.queue.o.MaxAttempts > 1:
		return a.handedBack(0)
	case err != nil && errors.Is(cause, ErrTimeout):
		err = fmt.Errorf("%w after %v: %w", ErrTimeout, a.w.queue.o.AttemptTimeout, err)
	}
	if err == nil {
		return a.finished(StateDone, data, a.Keep, EventSucceeded, nil)
	}
	return a.failed(at, err)
}

// failed decides what happens to a job whose attempt has failed.
func (a *attempt) failed(at time.Time, err error) ending {
	if errors.As(err, new(*snoozeError)) {
		err = fmt.Errorf("%w; MaxSnoozes (%d) is reached", err, max(a.w.queue.o.MaxSnoozes, 0))
	}
	o, class := &a.w.queue.o, a.w.classify(err)
	a.fail(at, err, class.String())
	var unread *undecodable
	switch {
	case errors.As(err, &unread):
		return a.finished(StateDead, a.input, o.DeadTTL, EventEnded, err)
	case class == weir.ClassPermanent || class == weir.ClassNotFound:
		return a.finished(StateFailed, a.input, a.failedTTL(a.w.queue), EventEnded, err)
	case a.Spent >= o.MaxAttempts:
		return a.finished(StateDead, a.input, o.DeadTTL, EventEnded, err)
	}
	return a.again(a.delay(err), EventRetried, err)
}

// handedBack returns the job as if this attempt had not happened.
func (a *attempt) handedBack(after time.Duration) ending {
	a.Spent--
	return a.again(after, EventHandedBack, nil)
}

// snoozed hands the job back for d. It has not begun if no earlier attempt had begun:
// its Deadline then still applies.
func (a *attempt) snoozed(at time.Time, d time.Duration) ending {
	a.Spent--
	a.Snoozes++
	a.Begun = a.begun
	if !a.Begun && a.Deadline > 0 && at.Sub(a.Submitted)+d > a.Deadline {
		a.Error = ErrExpired.Error()
		return a.finished(StateFailed, a.input, a.failedTTL(a.w.queue), EventEnded, ErrExpired)
	}
	return a.again(d, EventSnoozed, nil)
}

// again is the ending of an attempt after which another one follows.
func (a *attempt) again(after time.Duration, k EventKind, err error) ending {
	a.State, a.RetryIn = StateRetrying, after
	return ending{AttemptEnd: AttemptEnd{Kind: k, Err: err}}
}

// finished is the ending of a job that is over.
func (a *attempt) finished(s State, data []byte, ttl time.Duration, k EventKind, err error) ending {
	a.State = s
	return ending{AttemptEnd{Kind: k, State: s, Err: err}, data, ttl}
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
	case errors.As(err, new(*weir.RetryAfterError)):
		return weir.ClassOverload
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
// the previous wait, less a random share of up to a fifth. What a source states
// (weir.RetryAfter) is a minimum, so up to a fifth is added to it at random. A limiter's RetryAfter
// is random already.
func (a *attempt) delay(err error) time.Duration {
	var in *retryInError
	if errors.As(err, &in) {
		return min(max(in.d, 0), MaxDelay)
	}
	var snooze *snoozeError
	if errors.As(err, &snooze) {
		return snooze.d
	}
	var stated *weir.RetryAfterError
	if errors.As(err, &stated) {
		return min(stated.After()+rand.N(stated.After()/5+1), MaxDelay)
	}
	var limited *limit.Error
	if errors.As(err, &limited) {
		return min(limited.RetryAfter, MaxDelay) // the limiter has spread it
	}
	o := &a.w.queue.o
	d := o.RetryInitial
	for n := 1; n < a.Spent && d < o.RetryMax; n++ {
		d *= 2
	}
	d = min(d, o.RetryMax)
	return d - rand.N(d/5+1)
}
