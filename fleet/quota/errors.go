package quota

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
)

// ErrLimiterClosed is returned by a [Limiter] and a [KeyedLimiter] after Close.
// Callers that wait at the time of Close get it too.
var ErrLimiterClosed = errors.New("quota: the limiter is closed")

// An OutageError is the rejection by a limit with [FailClosed] whose engine is
// unreachable. It matches [fleet.ErrUnavailable], which distinguishes it from the refusal
// of a caller over its limit. As a refusal it also matches [limit.ErrLimited], and
// errors.As finds a [*limit.Error] in it. It does not match its Cause, which may be a
// deadline that is not the caller's.
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
	return fmt.Sprintf("quota: %sthe limit is unreachable, retry after %v: %v", who, e.Refusal.RetryAfter, e.Cause)
}

// Is matches ErrUnavailable, whatever the cause.
func (e *OutageError) Is(target error) bool { return target == fleet.ErrUnavailable }

// Unwrap returns the refusal.
func (e *OutageError) Unwrap() error { return &e.Refusal }
