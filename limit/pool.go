package limit

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/wait"
)

var _ releaser = (*pool)(nil)
var _ queuer = (*pool)(nil)

// A pool is a number of permits with a bounded queue. It is the common part of a
// Concurrency, whose number of permits is fixed, and an Adaptive, whose number is
// set by a tuner.
type pool struct {
	name  string
	dry   bool      // admit every caller, and count those that would have waited or been rejected
	epoch time.Time // zero of the instants below

	mu        sync.Mutex
	places    int           // guarded by mu; in the queue; 0 for the default, negative for none
	maxWait   time.Duration // guarded by mu; forever if unbounded, 0 for a share of the tuner's base
	overAfter time.Duration // guarded by mu; how long a caller may wait before its class counts as late, 0 without a bound; forever: no class is late
	reserve   int           // guarded by mu; negative: a tenth of the limit
	mostRetry time.Duration // guarded by mu; the bound of Error.RetryAfter

	whole    int           // guarded by mu; the limit without a storm; without a tuner
	least    int           // guarded by mu; how low a storm may bring the limit
	limit    int           // guarded by mu; changes only in returnLocked and update, and without a tuner with the storm
	onStorm  func(Storm)   // guarded by mu; may be nil
	stormy   bool          // guarded by mu; there was a storm after the last call that was judged
	storm    storm         // guarded by mu; not with a tuner
	inUse    int           // guarded by mu; units in use; can be above limit after limit has shrunk
	slots    []slot        // guarded by mu; one per permit, as many as were ever in use at once
	free     []uint32      // guarded by mu; the slots that hold no permit
	q        lines         // guarded by mu
	drain    drain         // guarded by mu
	lastOut  time.Duration // guarded by mu; when a permit was last issued
	tuner    *tuner        // guarded by mu; nil for a fixed limit
	admitted uint64        // guarded by mu, as are the counters below
	waited   uint64
	left     uint64
	refused  Refusals
	would    Refusals // callers of a dry run that would have been rejected
	wouldQ   uint64   // callers of a dry run that would have queued
}

// acquire is Acquire, and with counted AcquireN, of Concurrency and Adaptive.
func (c *pool) acquire(ctx context.Context, n int, counted bool) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, wait.Cause(ctx)
	}
	if n == 1 { // a permit for more is not lent
		if p, ok := c.borrow(ctx); ok {
			return p, nil
		}
	}
	now := c.now()
	c.mu.Lock()
	// If n units and the reserve are free, there is room for every class, so the
	// priority in ctx does not matter.
	if c.q.n == 0 && n <= c.limit-c.inUse-c.reserveLocked() { // a sum with n could overflow
		p := c.admitLocked(now, n, counted)
		c.mu.Unlock()
		return p, nil
	}
	c.mu.Unlock()
	return c.acquireSlow(ctx, n, counted)
}

// A request describes a caller of a pool that is short of permits.
type request struct {
	units      int
	class      int
	background bool
	tenant     Tenant
	left       time.Duration // until its deadline
	place      *Place        // may be nil
}

// ask reads a request from ctx. ctx may be the user's code, so no lock may be held.
func ask(ctx context.Context, n int) request {
	p := PriorityOf(ctx)
	r := request{units: n, class: p.class(), background: p < Low, tenant: TenantOf(ctx), left: forever, place: placeOf(ctx)}
	if deadline, ok := ctx.Deadline(); ok {
		r.left = time.Until(deadline)
	}
	return r
}

// acquireSlow is acquire when permits are short. The steps:
//
//  1. Read ctx outside the lock, because it may be the user's code.
//  2. Under the lock, take a permit, reject the caller, or join the queue, perhaps
//     displacing a waiter of a lower class or one that would be served later.
//  3. Wait for the first of grant, displacement, end of ctx and MaxWait.
//  4. Determine under the lock which of them it was.
func (c *pool) acquireSlow(ctx context.Context, n int, counted bool) (Permit, error) {
	r := ask(ctx, n)
	now := c.now()

	c.mu.Lock()
	if c.roomLocked(r) {
		p := c.admitLocked(now, n, counted)
		c.mu.Unlock()
		return p, nil
	}
	t := c.q.of(r.tenant)
	reason, victim := c.judgeLocked(r, t, now)
	if c.dry {
		c.q.drop(t)
		p := c.admitDryLocked(reason, now, n, counted)
		c.mu.Unlock()
		return p, nil
	}
	if reason != 0 {
		over := c.q.over(t, n)
		c.q.drop(t)
		e := &Error{Limiter: c.name, Reason: reason, RetryAfter: c.refuseLocked(reason, now), OverShare: over}
		if reason == TooMany {
			e.Units, e.Most = n, c.mostLocked()
		}
		c.mu.Unlock()
		return Permit{}, e
	}
	budget := c.budgetLocked()
	w := &waiter{ready: make(chan struct{}), units: n, counted: counted}
	w.joined, w.deadline, w.until = now, later(now, r.left), later(now, budget)
	var g grants
	if victim != nil {
		victim.over = victim.tenant != t && victim.tenant.root() == t.root() // t has less
		c.expelLocked(victim, Displaced, now, &g)
		t = c.q.of(r.tenant) // it may have been dropped with its only waiter
	}
	c.q.push(w, t, r.class)
	c.storm.busy = now // which counts only if there is one
	c.q.move(w, r.place.set(c, w))
	c.letInLocked(now, &g) // w may now be first, and fit where the previous first waiter does not
	c.mu.Unlock()
	g.wake()
	if n == 1 && r.place != nil && r.place.call != nil {
		r.place.call.Queue(c, w)
		defer r.place.call.Unqueue()
	}
	return c.await(ctx, w, r.left, budget)
}

// roomLocked reports whether r can be admitted at once. c.mu must be held.
func (c *pool) roomLocked(r request) bool {
	if c.q.n > 0 || c.mostLocked() < r.units {
		return false
	}
	spare := 0
	if r.background {
		spare = c.reserveLocked()
	}
	return c.fitsLocked(r.units, spare)
}

// mostLocked returns how many units a caller may request. c.mu must be held.
func (c *pool) mostLocked() int {
	if c.tuner != nil {
		return c.tuner.ceiling
	}
	return c.whole
}

// judgeLocked returns the reason to reject a caller that finds no permit free, or 0
// if it may queue. If the queue is full, or holds more work than the time budget, the
// caller takes the place of the waiter that would be served last, which is returned as
// victim: of the tenant that has the most for its weight. If the caller itself would be
// served last, it is rejected. t is its tenant. c.mu must be held.
func (c *pool) judgeLocked(r request, t *tenant, now time.Duration) (reason Reason, victim *waiter) {
	if r.units > c.mostLocked() {
		return TooMany, nil
	}
	if r.background {
		return NoSpare, nil
	}
	late := c.lateLocked(t, now)
	queued, work, ahead := c.q.n, c.q.units, t.ahead(&c.q, t.line.ahead(r.class, late), r.units)
	if c.dry {
		// The queue is empty: the callers that would be in it are in progress.
		queued = max(0, c.inUse-c.limit)
		work, ahead = queued, queued
	}
	if c.tuner != nil && c.maxWait < forever {
		work += c.tuner.beyond(now)
	}
	if queued >= c.placesLocked(now) || c.waitLocked(work, now) > c.budgetLocked() {
		if from := c.q.heaviest(t, r.units); from != t {
			victim = from.line.last(classCount, c.lateLocked(from, now))
		} else if victim = t.line.last(r.class, late); victim == nil {
			return QueueFull, nil
		}
	}
	// A permit at the deadline itself is too late.
	if c.waitLocked(ahead+r.units-1, now) >= r.left {
		return WaitTooLong, nil
	}
	return 0, victim
}

// placesLocked returns how many callers may wait. c.mu must be held.
func (c *pool) placesLocked(now time.Duration) int {
	switch {
	case c.places != 0:
		return max(0, c.places)
	case c.drain.unknown(now - c.lastOut):
		return leastQueue
	}
	return mostQueue
}

// budgetLocked returns how much work, as time, the queue may hold. c.mu must be held.
func (c *pool) budgetLocked() time.Duration {
	switch {
	case c.maxWait > 0:
		return c.maxWait
	case c.tuner.curve.base > 0:
		return max(minBudget, nanoseconds(c.tuner.curve.base*budgetShare))
	}
	return defaultMaxWait
}

// reserveLocked returns how many permits Background callers must leave free. c.mu
// must be held.
func (c *pool) reserveLocked() int {
	if c.reserve >= 0 {
		return c.reserve
	}
	return defaultReserve(c.limit)
}

// expelLocked removes w from the queue and rejects it for the given reason. Its
// RetryAfter is that of a newcomer. c.mu must be held.
func (c *pool) expelLocked(w *waiter, r Reason, now time.Duration, g *grants) {
	w.refused, w.retry, w.most = r, c.refuseLocked(r, now), c.mostLocked()
	w.over = w.over || c.q.over(w.tenant, 0)
	c.q.leave(w)
	g.link(w)
}

// await is the part of acquire that waits in the queue. left is the time until the
// deadline of ctx, and budget the longest wait.
func (c *pool) await(ctx context.Context, w *waiter, left, budget time.Duration) (Permit, error) {
	var timeout <-chan time.Time
	if budget < forever {
		if left <= budget {
			// ctx should end first. The timer is for a context that does not
			// end at its deadline, such as that of a load with many callers.
			budget++
		}
		t := time.NewTimer(budget)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-w.ready:
		if ctx.Err() == nil {
			return c.outcome(w)
		}
	case <-ctx.Done():
	case <-timeout:
		if ctx.Err() == nil {
			return c.timeOut(w)
		}
	}
	c.leave(w)
	return Permit{}, wait.Cause(ctx)
}

// outcome returns the result of w, which was admitted or expelled; both are final.
func (c *pool) outcome(w *waiter) (Permit, error) {
	if w.granted {
		return Permit{from: c, id: w.id}, nil
	}
	return Permit{}, w.refusal(c.name)
}

// leave removes w, whose context is done, from the queue. A permit can be granted
// while w is leaving:
//
//	W: ctx ends, and W's select takes ctx.Done
//	R: releases; it is W's turn, so R pops it and grants it the permit
//	W: takes the lock to leave, and is no longer in the queue
//
// No caller would release that permit, so W returns it, and it goes to the next
// waiter if there is one.
func (c *pool) leave(w *waiter) {
	now := c.now()
	var g grants
	c.mu.Lock()
	c.left++
	switch {
	case w.granted:
		if !w.loan {
			c.admitted--
			c.waited--
		}
		c.takeBackLocked(w.id, Unused, now, &g)
	case w.refused != 0:
		c.refused[w.refused]--
	default:
		if w.deadline == forever {
			w.tenant.left.left(now-w.joined, now-w.tenant.line.of[w.class].head.joined)
		}
		c.q.leave(w)
		c.letInLocked(now, &g)
	}
	c.mu.Unlock()
	g.wake()
}

// timeOut rejects w, whose time in the queue is over, unless it was granted a permit
// or expelled at the last moment: that result stands.
func (c *pool) timeOut(w *waiter) (Permit, error) {
	now := c.now()
	c.mu.Lock()
	if w.granted || w.refused != 0 {
		c.mu.Unlock()
		return c.outcome(w)
	}
	over := c.q.over(w.tenant, 0)
	c.q.leave(w)
	retry := c.refuseLocked(QueueTimeout, now)
	var g grants
	c.letInLocked(now, &g)
	c.mu.Unlock()
	g.wake()
	return Permit{}, &Error{Limiter: c.name, Reason: QueueTimeout, RetryAfter: retry, OverShare: over}
}

// tryAcquire is TryAcquire of Concurrency and Adaptive.
func (c *pool) tryAcquire() (Permit, error) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.q.n == 0 && c.inUse < c.limit:
		return c.admitLocked(now, 1, false), nil
	case c.dry:
		return c.admitDryLocked(QueueFull, now, 1, false), nil
	}
	return Permit{}, &Error{Limiter: c.name, Reason: QueueFull, RetryAfter: c.refuseLocked(QueueFull, now)}
}

// waitFor implements queuer.
func (c *pool) waitFor(w *waiter) (time.Duration, bool) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.queued {
		return 0, false
	}
	t := w.tenant
	ahead := t.ahead(&c.q, t.line.before(w, c.lateLocked(t, now)), w.units)
	return c.waitLocked(ahead+w.units-1, now), true
}

// joinAt implements queuer.
func (c *pool) joinAt(w *waiter, left time.Duration, class int) *Error {
	now := c.now()
	var g grants
	defer func() { g.wake() }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.queued {
		return nil
	}
	t := w.tenant
	late := c.lateLocked(t, now)
	var ahead int
	if class > w.class {
		ahead = t.line.ahead(class, late)
	} else {
		ahead = t.line.before(w, late)
	}
	if c.waitLocked(t.ahead(&c.q, ahead, w.units)+w.units-1, now) >= left {
		return &Error{Limiter: c.name, Reason: WaitTooLong, RetryAfter: c.refuseLocked(WaitTooLong, now)}
	}
	if class > w.class {
		c.q.move(w, class)
		c.letInLocked(now, &g)
	}
	return nil
}

// leaveAt implements queuer.
func (c *pool) leaveAt(w *waiter, class int) {
	now := c.now()
	var g grants
	c.mu.Lock()
	if w.queued && class < w.class {
		c.q.move(w, class)
		c.letInLocked(now, &g)
	}
	c.mu.Unlock()
	g.wake()
}
