package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/option"
)

// Update changes the options while c is in use. Nothing is revoked: permits
// that are out stay out, and callers that wait keep their place and the MaxWait
// they came with. After a smaller Limit nobody is admitted until so many permits
// have come back that there is room again; callers that wait for more units
// than the new Limit are refused with TooMany. The Name cannot change. With an
// error, which joins an [*OptionError] for every fault, nothing changes.
func (c *Concurrency) Update(o ConcurrencyOptions) error {
	if err := errors.Join(sameName(o.Name, c.pool.name, "ConcurrencyOptions"), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	c.pool.update(func(p *pool, _ time.Duration) {
		p.limit, p.places, p.maxWait, p.overAfter, p.reserve = o.Limit, o.Queue, o.MaxWait, o.OverloadAfter, o.Reserve
	})
	return nil
}

// Update changes the options while a is in use, as [Concurrency.Update] does.
// What a has learnt stays, and so does the limit, within the new Min and Max;
// Initial is not used. DryRun cannot change.
func (a *Adaptive) Update(o AdaptiveOptions) error {
	f := option.Faults{Package: "limit", Prefix: "AdaptiveOptions."}
	f.Check(o.DryRun == a.pool.dry, "DryRun", o.DryRun, fmt.Sprintf("%v, as it was", a.pool.dry))
	if err := errors.Join(sameName(o.Name, a.pool.name, "AdaptiveOptions"), f.Err(), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	a.pool.update(func(p *pool, now time.Duration) {
		p.places, p.maxWait, p.overAfter = o.Queue, o.MaxWait, o.OverloadAfter
		p.tuner.update(now, o)
		p.limit = p.tuner.limit
	})
	return nil
}

// update takes over bounds, headroom and ceiling on latency. A limit that is out
// of bounds ends the window.
func (t *tuner) update(now time.Duration, o AdaptiveOptions) {
	t.floor, t.ceiling, t.headroom, t.maxBase = o.Min, o.Max, o.Headroom, float64(o.MaxBaseline)
	if t.limit < t.floor || t.limit > t.ceiling {
		t.advance(now)
		t.aim(now, t.want)
	}
}

// Update changes the options while l is in use. Tokens in the bucket stay, up to
// the new Burst; a bucket without a limit before is full. Callers and
// reservations that wait keep their turn and are not refused, even if their
// tokens come later than MaxWait or their deadline allows now, except with
// TooMany, if they wait for more tokens than the new Burst. The Name cannot
// change. With an error, which joins an [*OptionError] for every fault, nothing
// changes.
func (l *RateLimiter) Update(o RateOptions) error {
	if err := errors.Join(sameName(o.Name, l.name, "RateOptions"), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	var g grants
	l.mu.Lock()
	now := time.Now()
	l.grantLocked(now, &g) // what was due before comes at the old rate
	l.bucket.change(now, o.PerSecond, o.Burst)
	l.places, l.maxWait = o.Queue, o.MaxWait
	for w := l.q.head; w != nil; {
		next := w.next
		if w.units > o.Burst {
			l.q.remove(w)
			l.refused[TooMany]++
			w.refused, w.retry = TooMany, l.waitLocked(now, 1)
			g.link(w)
		}
		w = next
	}
	l.againLocked(now, &g)
	l.mu.Unlock()
	g.wake()
	return nil
}

// update changes c, and does what follows for the callers that wait.
func (c *pool) update(change func(c *pool, now time.Duration)) {
	now := c.now()
	var g grants
	c.mu.Lock()
	change(c, now)
	for i := range c.q.of {
		for w := c.q.of[i].head; w != nil; {
			next := w.next
			if w.units > c.mostLocked() {
				c.expelLocked(w, TooMany, now, &g)
			}
			w = next
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
