package fleet

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-go/weir/limit"
)

// ErrLimiterClosed is returned by a [Limiter] and a [KeyedLimiter] after Close, and to
// who waits then.
var ErrLimiterClosed = errors.New("fleet: the limiter is closed")

// An OutageError is the rejection by a limit with [FailClosed] whose engine is
// unreachable. It matches [ErrUnavailable], which tells it from the refusal of
// a caller that is over its limit, and as a refusal [limit.ErrLimited];
// errors.As finds a [*limit.Error] in it. It does not match its Cause: that may
// be a deadline, and not the caller's.
type OutageError struct {
	Refusal limit.Error // its Reason is limit.RateExceeded
	Cause   error       // why the last call of the engine failed
}

// Error names the limiter, the time to wait, and the cause.
func (e *OutageError) Error() string {
	who := ""
	if e.Refusal.Limiter != "" {
		who = strconv.Quote(e.Refusal.Limiter) + ": "
	}
	return fmt.Sprintf("fleet: %sthe limit is unreachable, retry after %v: %v", who, e.Refusal.RetryAfter, e.Cause)
}

// Is matches ErrUnavailable, whatever the cause.
func (e *OutageError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the refusal.
func (e *OutageError) Unwrap() error { return &e.Refusal }
