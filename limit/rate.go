package limit

import (
	"context"
	"sync"
	"time"
)

var _ Limiter = (*RateLimiter)(nil)
var _ queuer = (*RateLimiter)(nil)

// A RateLimiter lets calls start at a steady rate, with bursts: a token bucket
// on [golang.org/x/time/rate]. There are three verbs. TryAcquire takes a token
// or refuses, Acquire waits for one, Reserve books one for later.
//
// Callers that wait stand in a queue, first come, first served, and no token
// is booked before it is there. So a caller that leaves makes the wait of all behind
// it shorter by one token; in a bucket of reservations the token would be
// lost.
//
// Make one with [NewRateLimiter]; the zero RateLimiter is not usable. It has
// no goroutine, and a timer only while somebody waits, so there is nothing to
// close. It is safe for concurrent use.
type RateLimiter struct {
	name string

	// mu is held when the clock is read for bucket, or instants would come
	// in the wrong order.
	mu       sync.Mutex
	places   int           // guarded by mu; in the queue
	maxWait  time.Duration // guarded by mu; forever if unbounded
	bucket   bucket        // guarded by mu
	q        queue         // guarded by mu
	due      time.Time     // guarded by mu; when the token for the head of q comes, if there is a head
	timer    *time.Timer   // guarded by mu; fires when due, nil while q is empty
	admitted uint64        // guarded by mu, as are the counters below
	waited   uint64
	left     uint64
	returned uint64
	refused  Refusals
}

// NewRateLimiter returns a RateLimiter with a full bucket. Its error joins an
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
		bucket:  newBucket(o.PerSecond, o.Burst),
	}, nil
}

// Name returns the name in its options.
func (l *RateLimiter) Name() string { return l.name }

// Acquire takes a token, waiting for one if need be. Releasing its Permit with
// Unused gives the token back, if the bucket was not full since and no more
// than a thousand were taken; with any other outcome it does nothing.
//
// How long the wait will be is known, so it is refused at once or not at all:
// with WaitTooLong if the token would come at the deadline of ctx or after,
// with RateExceeded if it would come after MaxWait or the queue has no place.
// A Background caller never waits: it gets a token if nobody is queued and one
// more whole token stays in the bucket (with a Burst of 1, none needs to), and
// is else refused with NoSpare.
//
// It returns context.Cause(ctx) if ctx is done, without a token, even if one
// came at the same instant. The deadline and the Priority of ctx are read when
// Acquire is called, and not again while it waits.
func (l *RateLimiter) Acquire(ctx context.Context) (Permit, error) { return l.AcquireN(ctx, 1) }

// AcquireN is Acquire for n tokens at once. A caller keeps its turn until all n
// are there, and nobody passes it. It is refused with TooMany if n is above Burst.
// With Unused up to a thousand come back. It panics if n is below 1.
func (l *RateLimiter) AcquireN(ctx context.Context, n int) (Permit, error) {
	mustBePositive(n)
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	l.mu.Lock()
	// With that many tokens there is room for every class, and the context
	// is not asked.
	token, ok := l.takeLocked(time.Now(), n, l.spareLocked(n))
	l.mu.Unlock()
	if ok {
		return l.permit(token, n), nil
	}
	return l.acquireSlow(ctx, n)
}

// acquireSlow is AcquireN where tokens are short. It asks ctx outside the lock,
// as it may be the user's code.
func (l *RateLimiter) acquireSlow(ctx context.Context, n int) (Permit, error) {
	background := PriorityOf(ctx) < Low
	deadline, bounded := ctx.Deadline()
	place := placeOf(ctx)

	l.mu.Lock()
	now := time.Now()
	spare := 0
	if background {
		spare = l.spareLocked(n)
	}
	if token, ok := l.takeLocked(now, n, spare); ok {
		l.mu.Unlock()
		return l.permit(token, n), nil
	}
	wait := l.waitLocked(now, n+spare)
	var reason Reason
	switch {
	case n > l.bucket.burst:
		reason = TooMany
	case background:
		reason = NoSpare
	case l.q.n >= l.places || wait > l.maxWait:
		reason = RateExceeded
	case bounded && wait >= deadline.Sub(now): // at the very deadline a token is of no use
		reason = WaitTooLong
	default:
		w := &waiter{ready: make(chan struct{}), units: n}
		l.joinLocked(w, now)
		place.set(l, w)
		l.mu.Unlock()
		return l.await(ctx, w)
	}
	l.refused[reason]++
	l.mu.Unlock()
	return Permit{}, l.refusal(reason, wait)
}

// TryAcquire takes a token for a Normal caller if one is there and nobody
// waits for it; else it refuses with RateExceeded. Its Permit is as Acquire's.
func (l *RateLimiter) TryAcquire() (Permit, error) {
	l.mu.Lock()
	now := time.Now()
	token, ok := l.takeLocked(now, 1, 0)
	if ok {
		l.mu.Unlock()
		return Permit{from: l, id: token}, nil
	}
	l.refused[RateExceeded]++
	wait := l.waitLocked(now, 1)
	l.mu.Unlock()
	return Permit{}, l.refusal(RateExceeded, wait)
}

// refusal makes the error of a caller whose token comes after wait.
func (l *RateLimiter) refusal(r Reason, wait time.Duration) *Error {
	return &Error{Limiter: l.name, Reason: r, RetryAfter: max(1, wait)}
}

// spareLocked is how many tokens must stay for others when a Background caller
// takes n. l.mu must be held.
func (l *RateLimiter) spareLocked(n int) int { return max(0, min(1, l.bucket.burst-n)) }

// release implements releaser.
func (l *RateLimiter) release(token uint64, o Outcome) { l.giveBack(token, 1, o) }

func (l *RateLimiter) giveBack(token uint64, n int, o Outcome) {
	if o != Unused {
		return
	}
	var g grants
	l.mu.Lock()
	l.putBackLocked(token, n, &g)
	l.mu.Unlock()
	g.wake()
}

// permit returns the permit of n tokens, token the last of them.
func (l *RateLimiter) permit(token uint64, n int) Permit {
	if n == 1 {
		return Permit{from: l, id: token}
	}
	return Permit{from: &several{l, n}, id: token}
}

// A several is the releaser of a permit for more than one token.
type several struct {
	l *RateLimiter
	n int
}

func (s *several) release(token uint64, o Outcome) { s.l.giveBack(token, s.n, o) }
