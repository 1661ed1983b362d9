package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/option"
)

// Update changes the options while c is in use. Nothing is revoked: issued permits
// stay valid, and waiting callers keep their place and the MaxWait that applied
// when they queued. If the new Limit is smaller, no caller is admitted until enough
// permits have been released. Callers that wait for more units than the new Limit
// are rejected with TooMany. The Name cannot change. If Update returns an error,
// which joins an [*OptionError] for every fault, nothing changes.
func (c *Concurrency) Update(o ConcurrencyOptions) error {
	if err := errors.Join(sameName(o.Name, c.pool.name, "ConcurrencyOptions"), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	c.pool.update(func(p *pool, now time.Duration, g *grants) {
		p.whole, p.places, p.maxWait, p.overAfter, p.reserve = o.Limit, o.Queue, o.MaxWait, o.OverloadAfter, o.Reserve
		p.mostRetry, p.least, p.onStorm = o.MaxRetryAfter, o.MinLimit, o.OnStorm
		p.storm.atLeast(p.least, p.whole, now)
		p.setLocked(p.storm.of(p.whole), g)
	})
	return nil
}

// Update changes the options while a is in use, as [Concurrency.Update] does. The
// measurements are kept, and so is the limit, within the new Min and Max; Initial
// is not used. DryRun cannot change.
func (a *Adaptive) Update(o AdaptiveOptions) error {
	f := option.Faults{Package: "limit", Prefix: "AdaptiveOptions."}
	f.Check(o.DryRun == a.pool.dry, "DryRun", o.DryRun, fmt.Sprintf("%v, as it was", a.pool.dry))
	if err := errors.Join(sameName(o.Name, a.pool.name, "AdaptiveOptions"), f.Err(), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	a.pool.update(func(p *pool, now time.Duration, _ *grants) {
		p.places, p.maxWait, p.overAfter, p.mostRetry = o.Queue, o.MaxWait, o.OverloadAfter, o.MaxRetryAfter
		p.tuner.update(now, o)
		p.limit = p.tuner.limit
	})
	return nil
}

// update sets the bounds, the headroom and the latency ceiling. If the limit is now
// out of bounds, the window ends.
func (t *tuner) update(now time.Duration, o AdaptiveOptions) {
	t.floor, t.ceiling, t.headroom, t.maxBase = o.Min, o.Max, o.Headroom, float64(o.MaxBaseline)
	if t.limit < t.floor || t.limit > t.ceiling {
		t.advance(now)
		t.aim(now, t.want)
	}
}

// Update changes the options while l is in use. Tokens in the bucket stay, up to
// the new Burst; if there was no limit before, the bucket starts full. Waiting
// callers and reservations keep their turn, even if their tokens now come later
// than MaxWait or their deadline allows. Only those that wait for more tokens than
// the new Burst are rejected, with TooMany. The Name cannot change. If Update
// returns an error, which joins an [*OptionError] for every fault, nothing changes.
func (l *RateLimiter) Update(o RateOptions) error {
	if err := errors.Join(sameName(o.Name, l.name, "RateOptions"), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	var g grants
	l.mu.Lock()
	now := time.Now()
	l.grantLocked(now, &g) // tokens due by now are granted at the old rate
	l.bucket.change(now, o.PerSecond, o.Burst)
	l.places, l.maxWait, l.maxDebt = o.Queue, o.MaxWait, o.MaxDebt
	for w := l.q.head; w != nil; {
		next := w.next
		if w.units > o.Burst {
			l.q.remove(w)
			l.refused[TooMany]++
			w.refused, w.retry, w.most = TooMany, spread.Known(l.waitLocked(now, 1)), o.Burst
			g.link(w)
		}
		w = next
	}
	l.againLocked(now, &g)
	l.mu.Unlock()
	g.wake()
	return nil
}

// update changes c, and then rejects or admits waiting callers accordingly.
func (c *pool) update(change func(c *pool, now time.Duration, g *grants)) {
	now := c.now()
	var g grants
	c.mu.Lock()
	change(c, now, &g)
	for w := range c.q.all() {
		if w.units > c.mostLocked() {
			c.expelLocked(w, TooMany, now, &g)
		}
	}
	c.letInLocked(now, &g)
	c.mu.Unlock()
	g.wake()
}

func sameName(name, was, options string) error {
	f := option.Faults{Package: "limit"}
	f.Check(name == was, options+".Name", fmt.Sprintf("%q", name), fmt.Sprintf("%q, as it was", was))
	return f.Err()
}
