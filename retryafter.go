package weir

import (
	"errors"
	"strings"
	"time"

	"github.com/weir-go/weir/fleet"
)

// MaxRetryAfter is the longest time that [RetryAfter] passes on.
const MaxRetryAfter = time.Hour

// A RetryAfterError is the error of a load whose source has stated when to call it again,
// such as an HTTP service with Retry-After. See [RetryAfter].
type RetryAfterError struct {
	Err   error     // the error of the load
	Until time.Time // when the source may be called again
}

// RetryAfter returns err with the time after which its source may be called again, from 0
// to MaxRetryAfter. A load returns it:
//
//   - the Guard remembers err for the key that long, at most Options.MaxRetryAfter, with
//     or without a FailureMemo, and starts no load or refresh of the key; a fleet does so in
//     all instances (Fleet.Cooling)
//   - a Limiter that is a [limit.Pauser] admits no call for that time, whatever its key
//   - without a Classify, the error is a ClassOverload
//   - weirhttp.Error responds with 503 and Retry-After, weirgrpc.Error with Unavailable and
//     RetryInfo, and a job whose handler returns it is retried then
//
// Set, Expire and Invalidate of the key end it, and Refresh and Policy.Bypass load anyway. For
// the time that an HTTP response states, see weirhttp.ResponseError. For a nil err it returns
// nil.
func RetryAfter(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &RetryAfterError{err, time.Now().Add(max(0, min(after, MaxRetryAfter)))}
}

// Error returns the text of Err.
func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// After returns the time that is left until the source may be called again, 0 if it may be
// called now.
func (e *RetryAfterError) After() time.Duration {
	return max(0, min(time.Until(e.Until), MaxRetryAfter))
}

// pause returns for how long the Guard does not call the source after a load that ended
// with err, which may be nil, because err states it.
func (o *Options) pause(err error) time.Duration {
	var e *RetryAfterError
	if o.MaxRetryAfter < 0 || !errors.As(err, &e) {
		return 0
	}
	return min(e.After(), o.MaxRetryAfter)
}

// pause returns the longest pause that the source has stated in the errors of the load.
func (r *run[K, V]) pause() time.Duration {
	o := &r.g.o
	longest := max(o.pause(r.err), o.pause(r.one.err))
	for i := range r.many {
		longest = max(longest, o.pause(r.many[i].err))
	}
	return longest
}

// statedKind marks, at the end of a fleet.Failure's Kind, the failure of a load that has
// returned a RetryAfterError. An instance without it takes the class for a transient one.
const statedKind = " until"

// remoteFailure returns the error for another instance's failure, whose key cools for the
// given time.
func remoteFailure(f fleet.Failure, cools time.Duration) error {
	var stated bool
	if f.Kind, stated = strings.CutSuffix(f.Kind, statedKind); stated {
		return RetryAfter(&fleet.RemoteError{Failure: f}, cools)
	}
	return &fleet.RemoteError{Failure: f}
}
