package weirhttp

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/internal/stated"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
)

var (
	_ limit.UnitLimiter = (*StatedLimits)(nil)
	_ limit.Pauser      = (*StatedLimits)(nil)
)

// StatedLimits obeys the limits that an origin states in its responses, so that calls wait
// here instead of being refused there:
//
//   - Retry-After of a 429 or 503 (RFC 9110 section 10.2.3): no call until then
//   - RateLimit (draft-ietf-httpapi-ratelimit-headers), and RateLimit-Remaining with
//     RateLimit-Reset, also with X- in front: calls that are left, and until when
//   - X-RateLimit-Remaining-Requests and -Tokens with X-RateLimit-Reset-Requests and
//     -Tokens, as model APIs have them: calls and units of cost that are left
//
// Trust is bounded: whatever an origin states, no call waits for it longer than MaxPause
// after the response. A call that would wait longer than MaxWait, or past its deadline, is
// refused at once with the time until the origin should accept it.
//
// Create one with [NewStatedLimits]. It is safe for concurrent use, and has no goroutine.
type StatedLimits struct {
	name string

	mu       sync.Mutex
	o        StatedLimitsOptions // guarded by mu; with defaults
	until    time.Time           // guarded by mu; no call before that
	calls    allowance           // guarded by mu
	units    allowance           // guarded by mu
	waited   uint64              // guarded by mu
	refused  limit.Refusals      // guarded by mu
	observed uint64              // guarded by mu; statements so far
}

// StatedLimitsOptions configure StatedLimits.
type StatedLimitsOptions struct {
	// Name is reported in errors.
	Name string
	// MaxPause is the longest time for which a response can make calls wait. 0 means
	// 30 s, at most 1 h; negative means that nothing is obeyed.
	MaxPause time.Duration
	// MaxWait is the longest time for which a call waits. 0 means 10 s, negative means
	// that only its own deadline counts.
	MaxWait time.Duration
}

const (
	defaultMaxPause   = 30 * time.Second
	defaultStatedWait = 10 * time.Second
)

func (o StatedLimitsOptions) withDefaults() StatedLimitsOptions {
	if o.MaxPause == 0 {
		o.MaxPause = defaultMaxPause
	}
	o.MaxPause = max(0, min(o.MaxPause, time.Hour))
	switch {
	case o.MaxWait == 0:
		o.MaxWait = defaultStatedWait
	case o.MaxWait < 0:
		o.MaxWait = forever
	}
	return o
}

// An allowance is how many calls or units are left until an instant.
type allowance struct {
	left  int
	until time.Time // zero: nothing is known
}

// wait returns how long after now n can be taken.
func (a *allowance) wait(now time.Time, n int) time.Duration {
	if a.left >= n || !a.until.After(now) {
		return 0
	}
	return a.until.Sub(now)
}

// NewStatedLimits returns StatedLimits for one origin.
func NewStatedLimits(o StatedLimitsOptions) *StatedLimits {
	return &StatedLimits{name: o.Name, o: o.withDefaults()}
}

// Update changes MaxPause and MaxWait. Calls that wait keep waiting.
func (l *StatedLimits) Update(o StatedLimitsOptions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o = o.withDefaults()
	latest := time.Now().Add(l.o.MaxPause)
	for _, t := range []*time.Time{&l.until, &l.calls.until, &l.units.until} {
		if t.After(latest) {
			*t = latest
		}
	}
}

// Acquire implements limit.Limiter.
func (l *StatedLimits) Acquire(ctx context.Context) (limit.Permit, error) { return l.AcquireN(ctx, 1) }

// AcquireN implements limit.UnitLimiter. Its Permit cannot be settled: what is left is
// stated by the next response.
func (l *StatedLimits) AcquireN(ctx context.Context, n int) (limit.Permit, error) {
	var longest time.Time // until which the call waits at most
	for {
		if ctx.Err() != nil {
			return limit.Permit{}, wait.Cause(ctx)
		}
		deadline, bounded := ctx.Deadline()
		l.mu.Lock()
		now := time.Now()
		delay := max(l.until.Sub(now), l.calls.wait(now, 1), l.units.wait(now, n))
		if delay <= 0 {
			l.calls.left--
			l.units.left -= n
			if !longest.IsZero() {
				l.waited++
			}
			l.mu.Unlock()
			return limit.Permit{}, nil
		}
		if longest.IsZero() {
			longest = now.Add(min(l.o.MaxWait, forever-time.Minute))
			if l.o.MaxWait == forever {
				longest = now.AddDate(1, 0, 0)
			}
		}
		var reason limit.Reason
		switch {
		case now.Add(delay).After(longest), limit.PriorityOf(ctx) < limit.Low:
			reason = limit.RateExceeded
		case bounded && !now.Add(delay).Before(deadline):
			reason = limit.WaitTooLong
		}
		if reason != 0 {
			l.refused[reason]++
			l.mu.Unlock()
			return limit.Permit{}, &pausedError{&limit.Error{Limiter: l.name, Reason: reason, RetryAfter: spread.Known(delay)}}
		}
		l.mu.Unlock()
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return limit.Permit{}, wait.Cause(ctx)
		}
	}
}

// A pausedError is a refusal of StatedLimits. Its type tells it from one of the limiter or the budget
// that it is combined with.
type pausedError struct{ refusal *limit.Error }

func (e *pausedError) Error() string { return e.refusal.Error() }
func (e *pausedError) Unwrap() error { return e.refusal }

// Observe reads what a response with this status and these fields states. Malformed
// fields are ignored.
func (l *StatedLimits) Observe(status int, h http.Header) {
	now := time.Now()
	var pause time.Duration
	if d := statedIn(status, h); d > 0 { // it is bounded below
		pause = d
	}
	calls, callsFor, ok := rateLimit(h)
	if !ok {
		for _, prefix := range []string{"RateLimit-", "X-RateLimit-"} {
			if calls, callsFor, ok = remaining(h, prefix+"Remaining", prefix+"Reset", now); ok {
				break
			}
		}
	}
	if !ok {
		calls, callsFor, ok = remaining(h, "X-RateLimit-Remaining-Requests", "X-RateLimit-Reset-Requests", now)
	}
	units, unitsFor, unitsOK := remaining(h, "X-RateLimit-Remaining-Tokens", "X-RateLimit-Reset-Tokens", now)
	if pause == 0 && !ok && !unitsOK {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observed++
	at := func(d time.Duration) time.Time { return now.Add(min(d, l.o.MaxPause)) }
	if until := at(pause); pause > 0 && until.After(l.until) {
		l.until = until
	}
	if ok {
		l.calls = allowance{calls, at(callsFor)}
	}
	if unitsOK {
		l.units = allowance{units, at(unitsFor)}
	}
}

// Pause implements [limit.Pauser]: it has the effect of a response with Retry-After. As the
// Limiter of a Guard, or a part of it, StatedLimits obeys what the Guard's loads return as
// weir.RetryAfter.
func (l *StatedLimits) Pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observed++
	if until := time.Now().Add(max(0, min(d, l.o.MaxPause))); until.After(l.until) {
		l.until = until
	}
}

// RetryAfter returns the time that the Retry-After of a response states (RFC 9110, section
// 10.2.3), from now on. ok is false without a valid one, and for more than 2^31-1 seconds; then
// d is 0, or those seconds.
func RetryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	return stated.RetryAfter(h.Get("Retry-After"), now)
}

// rateLimit reads the RateLimit fields: a list of policies, each with r and perhaps t. The
// one with the least left counts.
func rateLimit(h http.Header) (left int, reset time.Duration, ok bool) {
	for policy := range strings.SplitSeq(strings.Join(h.Values("RateLimit"), ","), ",") {
		r, t := -1, time.Duration(0)
		for i, param := range strings.Split(policy, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			switch {
			case i == 0:
			case name == "r":
				if n, ok := stated.Whole(value); ok {
					r = n
				}
			case name == "t":
				t, _ = stated.Seconds(value) // it is bounded
			}
		}
		if r >= 0 && t > 0 && (!ok || r < left) {
			left, reset, ok = r, t, true
		}
	}
	return left, reset, ok
}

// remaining reads a pair of fields: how many are left, and for how long.
func remaining(h http.Header, leftName, resetName string, now time.Time) (left int, reset time.Duration, ok bool) {
	n, ok := stated.Whole(strings.TrimSpace(h.Get(leftName)))
	if !ok {
		return 0, 0, false
	}
	reset, ok = stated.Reset(strings.TrimSpace(h.Get(resetName)), now)
	return n, reset, ok
}

// StatedStats are what an origin has stated, and how many calls waited for it.
type StatedStats struct {
	Observed uint64        `json:"observed"`  // responses that stated something
	Paused   time.Duration `json:"paused_ns"` // time from now during which no call is made
	Waited   uint64        `json:"waited"`    // calls that waited, and were admitted
	Refused  uint64        `json:"refused"`   // calls
}

// Stats returns a snapshot.
func (l *StatedLimits) Stats() StatedStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return StatedStats{
		Observed: l.observed, Waited: l.waited, Refused: l.refused.Total(),
		Paused: max(0, l.until.Sub(now), l.calls.wait(now, 1)),
	}
}

// Timed implements [limit.Timed].
func (l *StatedLimits) Timed() {}

var _ limit.Timed = (*StatedLimits)(nil)
