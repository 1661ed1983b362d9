package limit

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/internal/wait"
)

var _ Limiter = (*RateLimiter)(nil)
var _ queuer = (*RateLimiter)(nil)

// A RateLimiter lets calls start at a steady rate, with bursts. It is a token bucket
// based on [golang.org/x/time/rate]. There are three verbs: TryAcquire takes a token
// or rejects, Acquire waits for a token, Reserve books one for later.
//
// Waiting callers are queued, first come, first served, and a token is assigned only
// when it is available. So when a caller leaves, the wait of all callers behind it
// becomes shorter by one token. In a bucket of reservations that token would be lost.
//
// Create one with [NewRateLimiter]; the zero RateLimiter is not usable. It has no
// goroutine, and a timer only while a caller waits, so there is nothing to close. It
// is safe for concurrent use.
type RateLimiter struct {
	name string

	// mu is held while the clock is read for bucket; otherwise instants would
	// reach it out of order.
	mu       sync.Mutex
	places   int           // guarded by mu; in the queue
	maxWait  time.Duration // guarded by mu; forever if unbounded
	maxDebt  int           // guarded by mu; how many tokens the bucket may owe
	bucket   bucket        // guarded by mu
	q        queue         // guarded by mu
	due      time.Time     // guarded by mu; when the tokens for the head of q are available, if q is not empty
	timer    *time.Timer   // guarded by mu; fires when due, nil while q is empty
	admitted uint64        // guarded by mu, as are the counters below
	waited   uint64
	left     uint64
	returned uint64
	owed     uint64
	forgiven uint64
	refused  Refusals
	counters counters // of the permits of AcquireN whose tokens could be returned
}

// NewRateLimiter returns a RateLimiter with a full bucket, or an error that joins an
// [*OptionError] for every option that is out of bounds.
func NewRateLimiter(o RateOptions) (*RateLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &RateLimiter{
		name:    o.Name,
		places:  o.Queue,
		maxWait: o.MaxWait,
		maxDebt: o.MaxDebt,
		bucket:  newBucket(o.PerSecond, o.Burst),
	}, nil
}

// Name returns the name in its options.
func (l *RateLimiter) Name() string { return l.name }

// Acquire takes a token, waiting for one if necessary. Releasing its Permit with
// Unused returns the token, if the bucket has not been full since and no more than
// about a thousand tokens have been taken. With any other outcome, Release does
// nothing.
//
// The length of the wait is known, so a caller is rejected at once or not at all:
// with WaitTooLong if its token would come at the deadline of ctx or later, with
// RateExceeded if it would come after MaxWait or the queue is full. A Background
// caller never waits: it gets a token if no caller is queued and one more whole token
// stays in the bucket (not required with a Burst of 1), and is otherwise rejected
// with NoSpare.
//
// If ctx is done, Acquire returns context.Cause(ctx) and no token, even if one became
// available at the same instant. Acquire reads the deadline and the Priority of ctx
// once, when it is called.
func (l *RateLimiter) Acquire(ctx context.Context) (Permit, error) { return l.acquire(ctx, 1, nil) }

// AcquireN is Acquire for n tokens at once. A caller keeps its turn until all n are
// available, and no other passes it. It is rejected with TooMany if n is above Burst.
// AcquireN panics if n is below 1.
//
// Its Permit can be settled. Tokens that the estimate had in excess go back into the
// bucket, less those that have come back since: what comes back belongs to the tokens
// that were taken first. Releasing with Unused returns all tokens,
// less those that have come back since. The same holds after an Update that changed the
// rate or Burst.
// Tokens that the estimate lacked are owed, up to MaxDebt; what
// goes beyond that is forgiven, and counted in RateStats. So what calls take in a
// window of any length w, without what is forgiven, is at most PerSecond·w + Burst +
// MaxDebt.
func (l *RateLimiter) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	return l.acquire(ctx, n, &counter{l: l, n: n})
}

// acquire is Acquire, and AcquireN with the counter of its permit.
func (l *RateLimiter) acquire(ctx context.Context, n int, c *counter) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, wait.Cause(ctx)
	}
	l.mu.Lock()
	// With this many tokens there is room for every class, so the priority in ctx
	// does not matter.
	token, ok := l.takeLocked(time.Now(), n, l.spareLocked(n), c)
	l.mu.Unlock()
	if ok {
		return l.permit(token, c), nil
	}
	return l.acquireSlow(ctx, n, c)
}

// acquireSlow is acquire when tokens are short. It reads ctx outside the lock,
// because ctx may be the user's code.
func (l *RateLimiter) acquireSlow(ctx context.Context, n int, c *counter) (Permit, error) {
	background := PriorityOf(ctx) < Low
	deadline, bounded := ctx.Deadline()
	place := placeOf(ctx)

	l.mu.Lock()
	now := time.Now()
	spare := 0
	if background {
		spare = l.spareLocked(n)
	}
	if token, ok := l.takeLocked(now, n, spare, c); ok {
		l.mu.Unlock()
		return l.permit(token, c), nil
	}
	burst := l.bucket.burst
	wait := l.waitLocked(now, n+spare)
	var reason Reason
	switch {
	case n > l.bucket.burst:
		reason = TooMany
	case background:
		reason = NoSpare
	case l.q.n >= l.places || wait > l.maxWait:
		reason = RateExceeded
	case bounded && wait >= deadline.Sub(now): // a token at the deadline itself is too late
		reason = WaitTooLong
	default:
		w := &waiter{ready: make(chan struct{}), units: n, counter: c}
		l.joinLocked(w, now)
		place.set(l, w)
		l.mu.Unlock()
		return l.await(ctx, w)
	}
	l.refused[reason]++
	l.mu.Unlock()
	e := l.refusal(reason, wait)
	if reason == TooMany {
		e.Units, e.Most = n, burst
	}
	return Permit{}, e
}

// TryAcquire takes a token for a Normal caller if one is available and no caller
// waits; otherwise it rejects with RateExceeded. The Permit is like that of Acquire.
func (l *RateLimiter) TryAcquire() (Permit, error) {
	l.mu.Lock()
	now := time.Now()
	token, ok := l.takeLocked(now, 1, 0, nil)
	if ok {
		l.mu.Unlock()
		return Permit{from: l, id: token}, nil
	}
	l.refused[RateExceeded]++
	wait := l.waitLocked(now, 1)
	l.mu.Unlock()
	return Permit{}, l.refusal(RateExceeded, wait)
}

// refusal returns the error for a caller whose token would come after wait, which is exact.
func (l *RateLimiter) refusal(r Reason, wait time.Duration) *Error {
	return &Error{Limiter: l.name, Reason: r, RetryAfter: spread.Known(wait)}
}

// spareLocked returns how many tokens must stay for others when a Background caller
// takes n. l.mu must be held.
func (l *RateLimiter) spareLocked(n int) int { return max(0, min(1, l.bucket.burst-n)) }

// abandon implements releaser.
func (l *RateLimiter) abandon(uint64) {}

// release implements releaser.
func (l *RateLimiter) release(token uint64, o Outcome) {
	if o != Unused {
		return
	}
	var g grants
	l.mu.Lock()
	l.putBackLocked(token, &g)
	l.mu.Unlock()
	g.wake()
}

// settle implements releaser: a permit of Acquire is for one token.
func (l *RateLimiter) settle(uint64, int) {}

// permit returns a permit for one token, or that of AcquireN, which has a counter.
func (l *RateLimiter) permit(token uint64, c *counter) Permit {
	if c == nil {
		return Permit{from: l, id: token}
	}
	return Permit{from: c}
}
