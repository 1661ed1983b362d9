package fleetsim_test

import (
	"time"
)

// beginsLocked judges a load that begins, beside those of its key that run: for
// each of them there is a reason why it does not hold this one back. w.mu must be
// held.
func (w *simWorld) beginsLocked(b *simBirth) {
	if b.in.crashed {
		return
	}
	if b.fence == 0 && !b.in.aloneLocked(b.key, b.began) {
		w.breakLocked("loads: %s loads %s without a lease, though the Tier has not failed it", b.in.name, b.id)
	}
	if r := w.engine.register(b.key); b.fence != 0 && r.last != b.fence && r.grants[b.fence].ended == 0 && !w.troubledLocked(b) {
		w.breakLocked("loads: %s loads %s under #%d, which #%d has followed", b.in.name, b.id, w.ordinal(b.fence), w.ordinal(r.last))
	}
	for _, other := range w.running[b.key] {
		if why := w.besideLocked(other, b); why != "" {
			w.breakLocked("loads: %s begins beside %s, which %s", b.id, other.id, why)
		}
	}
}

// aloneLocked reports whether the Tier has just failed the instance, so that it
// loads by itself.
func (in *simInst) aloneLocked(key string, now time.Duration) bool {
	w := in.w
	most := time.Duration(0)
	if w.o.many || w.o.breaker {
		most = 3 * w.slackLocked(in)
	}
	for _, k := range []string{key, ""} {
		if at, ok := in.link.failed[k]; ok && now-at <= most {
			return true
		}
	}
	return in.link.dead || w.o.breaker && in.link.faulty > 0
}

// troubledLocked reports whether something has befallen the load's instance
// since the lease was granted: a command lost or late, a pause.
func (w *simWorld) troubledLocked(b *simBirth) bool {
	return b.in.crashed || b.in.link.faulty >= b.at-simDeadline
}

// besideLocked says what is wrong about b beginning while other runs; "" for
// nothing.
func (w *simWorld) besideLocked(other, b *simBirth) string {
	g, own := w.engine.register(b.key).grants[other.fence], w.engine.register(b.key).grants[b.fence]
	switch {
	case other.ctx.Err() != nil, other.in.crashed:
		return "" // it was given up, or nobody is there to know of it
	case g != nil && g.wrote, own != nil && (own.wrote || own.until < b.began):
		return "" // one of them is out of date, which it may not know
	case other.in == b.in:
		if w.detachedLocked(other) || w.troubledLocked(other) {
			return ""
		}
		return "the same instance runs, and nothing has put out of date"
	case other.fence == 0 || b.fence == 0:
		return "" // one of them is alone, see aloneLocked
	}
	switch {
	case w.detachedLocked(other) || w.troubledLocked(other):
		return ""
	case g.ended > 0:
		return "has settled its lease and goes on"
	case g.until > b.at:
		return "has the lease"
	}
	return "has let its lease run out, though nothing was in its way"
}

// detachedLocked reports whether something has put the load out of date at its
// instance since it began: a write there, or a push.
func (w *simWorld) detachedLocked(b *simBirth) bool {
	since := b.at - 3*w.slackLocked(b.in)
	for _, ack := range b.in.acked {
		if (ack.key == b.key && ack.tags == nil || ack.tags != nil) && (ack.at == 0 || ack.at >= since) {
			return true
		}
	}
	for _, h := range b.in.heard {
		if h.at >= since && (h.reset || h.tagged || h.key == b.key) {
			return true
		}
	}
	return false
}
