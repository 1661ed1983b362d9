package limit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/option"
)

// ErrLimited is the sentinel for all rejections: errors.Is(err, ErrLimited) is true
// for every [*Error]. No call returns ErrLimited itself.
var ErrLimited = errors.New("limit: refused")

// An Error is a rejection: Acquire, TryAcquire and Reserve return it, as *Error,
// when the caller may not start. If the caller's own context ends, that is not a
// rejection.
//
// Creating an Error takes one small allocation and formats nothing; the Error method
// builds the text. An Error does not change after it has been returned.
type Error struct {
	Limiter string // Name in the limiter's options, may be empty
	Reason  Reason // why the caller was rejected
	// RetryAfter is how long to wait before another attempt, always above zero. It is
	// random, so that callers that were rejected together do not come back together.
	// From a Concurrency or an Adaptive it is uniform between the expected wait at the
	// measured drain rate, at least 10 ms, and twice that, and at most MaxRetryAfter;
	// until something has been measured, it is between 1 s and 4 s. From a
	// RateLimiter it is at least the exact time until a newcomer gets a token, if no
	// other caller arrives first, and up to twice that, but no more than 10 s longer.
	RetryAfter time.Duration

	// OverShare means that the caller belongs to a [Tenant] that had more than its fair share
	// of what was queued and in use, while other tenants waited. It is false for the only
	// tenant.
	OverShare bool

	// Units and Most are set with TooMany: the units that the call requested, and the
	// most that a call can have.
	Units, Most int
}

// Error names the limiter, the reason and the time to wait, or with TooMany the units.
func (e *Error) Error() string {
	who := ""
	if e.Limiter != "" {
		who = strconv.Quote(e.Limiter) + ": "
	}
	if e.Reason == TooMany {
		return fmt.Sprintf("limit: %s%v: the call costs %d units, and the limit is %d", who, e.Reason, e.Units, e.Most)
	}
	return fmt.Sprintf("limit: %s%v, retry after %v", who, e.Reason, e.RetryAfter)
}

// Is reports whether target is ErrLimited.
func (e *Error) Is(target error) bool { return target == ErrLimited }

// A Reason says why a limiter rejected a caller. The zero Reason means none.
type Reason uint8

const (
	// RateExceeded: a RateLimiter has no token now (TryAcquire), none within
	// MaxWait, or no place to wait for one.
	RateExceeded Reason = 1 + iota
	// QueueFull: all permits of a Concurrency or Adaptive are in use, and its
	// queue holds as many callers as allowed, or more than MaxWait's worth of
	// work. TryAcquire returns it when it would have to wait.
	QueueFull
	// QueueTimeout: the caller waited MaxWait in the queue of a Concurrency or
	// Adaptive.
	QueueTimeout
	// WaitTooLong: the wait would outlast the caller's own deadline. A caller
	// with more time might have been admitted.
	WaitTooLong
	// Displaced: the caller waited in a full queue of a Concurrency or Adaptive,
	// and another caller took its place: one of a higher class, or under overload
	// a newer one of the same or a higher class, or one of a [Tenant] that uses less.
	Displaced
	// NoSpare: the caller is Background, and the remaining permits or tokens are
	// reserved for callers of other classes.
	NoSpare
	// TooMany: AcquireN requests more units than Limit, Max or Burst allows in
	// total. The rejection is permanent: retrying does not help, whatever RetryAfter
	// says.
	TooMany

	reasonEnd // one past the last
)

// String returns the reason as a few English words, or "reason(N)" for a value
// without a name.
func (r Reason) String() string {
	return name(reasonNames[:], "reason", int(r))
}

var reasonNames = [reasonEnd]string{
	RateExceeded: "rate exceeded",
	QueueFull:    "queue full",
	QueueTimeout: "queue timeout",
	WaitTooLong:  "wait outlasts the deadline",
	Displaced:    "displaced in the queue",
	NoSpare:      "nothing to spare for background work",
	TooMany:      "more units than the limit",
}

// name returns names[i], or "what(i)" if there is none.
func name(names []string, what string, i int) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return what + "(" + strconv.Itoa(i) + ")"
}

// An OptionError reports one invalid field of an options struct. NewRateLimiter,
// NewConcurrency and NewAdaptive join the errors for all invalid fields; errors.As
// finds the first.
type OptionError = option.Error
