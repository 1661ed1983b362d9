package limit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/option"
)

// ErrLimited is the sentinel of all refusals: errors.Is(err, ErrLimited) holds
// for every [*Error]. No call returns it bare.
var ErrLimited = errors.New("limit: refused")

// An Error is a refusal: Acquire, TryAcquire and Reserve return it, as *Error,
// when the caller may not start. The end of the caller's own context is no
// refusal.
//
// Making one costs one small allocation and formats nothing; the text is put
// together in Error. An Error is not altered once it has been returned.
type Error struct {
	Limiter string // Name in the options of the limiter, may be empty
	Reason  Reason
	// RetryAfter is when it may be worth to try again, always above zero.
	// From a RateLimiter it is the exact time until a token is there for a
	// caller with nobody before it. From the others it is an estimate out
	// of the measured drain rate, between 10 ms and a minute, and a second
	// while nothing has been measured.
	RetryAfter time.Duration
}

// Error names the limiter, the reason and the time to wait.
func (e *Error) Error() string {
	who := ""
	if e.Limiter != "" {
		who = strconv.Quote(e.Limiter) + ": "
	}
	return fmt.Sprintf("limit: %s%v, retry after %v", who, e.Reason, e.RetryAfter)
}

// Is reports whether target is ErrLimited.
func (e *Error) Is(target error) bool { return target == ErrLimited }

// A Reason says why a limiter refused. The zero Reason is none.
type Reason uint8

const (
	// RateExceeded: a RateLimiter has no token now (TryAcquire), none within
	// MaxWait, or no place to wait for one.
	RateExceeded Reason = 1 + iota
	// QueueFull: all permits of a Concurrency or Adaptive are in use, and its
	// queue holds as many callers as it may, or more than MaxWait's worth of
	// work. TryAcquire returns it when it would have to wait.
	QueueFull
	// QueueTimeout: the caller waited MaxWait in the queue of a Concurrency or
	// Adaptive.
	QueueTimeout
	// WaitTooLong: the wait would outlast the caller's own deadline. A caller
	// with more time might have been let in.
	WaitTooLong
	// Displaced: the caller waited in the queue of a Concurrency or Adaptive
	// that was full, and gave way to one of a higher class, or under overload to
	// a newer one of no lower class.
	Displaced
	// NoSpare: the caller is Background, and what is left is kept for others.
	NoSpare
	// TooMany: AcquireN asks for more units than there ever are, by Limit, Max or
	// Burst. Another try does not help, whatever RetryAfter says.
	TooMany

	reasonEnd // one past the last
)

// String returns the reason as a few words of English, "reason(N)" for a value
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

// name returns names[i], or what(i) where there is none.
func name(names []string, what string, i int) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return what + "(" + strconv.Itoa(i) + ")"
}

// An OptionError is a fault in an options struct. NewRateLimiter,
// NewConcurrency and NewAdaptive return all faults at once, joined; errors.As
// finds the first.
type OptionError = option.Error
