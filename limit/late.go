package limit

import "time"

// lateLocked returns the classes of t in which waiting does not end in time: served first come,
// first served, the oldest caller would get its permit after MaxWait, or too late to be of
// use, as for most of those before it. A queue that stands is not late as long as each
// caller in it is served in time. c.mu must be held.
func (c *pool) lateLocked(t *tenant, now time.Duration) (l late) {
	if c.overAfter == forever || t.line.n == 0 {
		return l
	}
	for i := range t.line.of {
		w := t.line.of[i].head
		if w == nil {
			continue
		}
		turn := later(now, c.waitLocked(t.ahead(&c.q, t.line.above(i), w.units)+w.units-1, now))
		l[i] = c.overAfter > 0 && now-w.joined > c.overAfter || turn > w.until ||
			t.left.short() && later(turn, nanoseconds(c.callLocked())) > t.left.end(w)
	}
	return l
}

// callLocked returns how long a call takes, in nanoseconds. The permits of calls whose callers
// leave are held for less, where the source notices. c.mu must be held.
func (c *pool) callLocked() float64 { return max(c.drain.held, c.storm.usual) }

// later returns t+d, or forever.
func later(t, d time.Duration) time.Duration {
	if d >= forever-t {
		return forever
	}
	return t + d
}

// A patience tells whether permits come too late to be of use: because little is left
// until the caller's deadline, or because callers without a deadline, such as those of HTTP,
// leave as old as those that get a permit.
//
// Some callers always leave early, from anywhere in the queue, or have a deadline that is
// too short for a call. So it is the share of the last few callers that counts, and of those
// that leave only the oldest.
type patience struct {
	share float64       // that is late, of the last few callers
	age   time.Duration // of the last caller without a deadline that left as one of the oldest
}

// patienceWindow is roughly how many callers the share covers.
const patienceWindow = 8

// short reports whether most of the last callers waited too long.
func (p *patience) short() bool { return p.share > 0.5 }

// end returns when the call of w is of no more use.
func (p *patience) end(w *waiter) time.Duration {
	if w.deadline == forever && p.age > 0 {
		return later(w.joined, p.age)
	}
	return w.deadline
}

// granted records that w, as the oldest caller of its class, gets a permit now, for a call
// that takes held.
func (p *patience) granted(w *waiter, now time.Duration, held float64) {
	switch {
	case w.deadline < forever:
		p.count(float64(w.deadline-now) < held)
	case now-w.joined > p.age:
		p.count(false)
	}
}

// left records that a caller without a deadline left after age, when the oldest caller of
// its class had waited for oldest.
func (p *patience) left(age, oldest time.Duration) {
	late := age >= oldest-oldest/10
	if late {
		p.age = age
	}
	p.count(late)
}

// late records that a caller without a deadline got its permit with too little time left for
// its call: it left after age.
func (p *patience) late(age time.Duration) {
	p.age = age
	p.count(true)
}

func (p *patience) count(late bool) {
	hit := 0.0
	if late {
		hit = 1
	}
	p.share += (hit - p.share) / patienceWindow
}
