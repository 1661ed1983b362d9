package fleetsim_test

import (
	"time"
)

// beginsLocked judges a load that begins, against the running loads of its key: for
// each of them there must be a reason why it does not hold this load back. w.mu must
// be held.
func (w *simWorld) beginsLocked(b *simBirth) {
	if b.in.crashed {
		return
	}
	if b.fence == 0 && !b.in.aloneLocked(b.key, b.began) {
		w.breakLocked("loads: %s loads %s without a lease, although the Tier has not failed", b.in.name, b.id)
	}
	if r := w.engine.register(b.key); b.fence != 0 && r.last != b.fence && r.grants[b.fence].ended == 0 && !w.troubledLocked(b) {
		w.breakLocked("loads: %s loads %s under #%d, although #%d followed", b.in.name, b.id, w.ordinal(b.fence), w.ordinal(r.last))
	}
	for _, other := range w.running[b.key] {
		if why := w.besideLocked(other, b); why != "" {
			w.breakLocked("loads: %s begins beside %s, which %s", b.id, other.id, why)
		}
	}
}

// aloneLocked reports whether the Tier has just failed for the instance, which then
// loads alone.
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

// troubledLocked reports whether the load's instance has had a problem since the
// lease was granted: a lost or late command, or a pause.
func (w *simWorld) troubledLocked(b *simBirth) bool {
	return b.in.crashed || b.in.link.faulty >= b.at-simDeadline
}

// besideLocked returns why b must not begin while other runs, or "" if it may.
func (w *simWorld) besideLocked(other, b *simBirth) string {
	g, own := w.engine.register(b.key).grants[other.fence], w.engine.register(b.key).grants[b.fence]
	switch {
	case other.ctx.Err() != nil, other.in.crashed:
		return "" // it was given up, or its instance is gone
	case g != nil && g.wrote, own != nil && (own.wrote || own.until < b.began):
		return "" // one of them is outdated, perhaps without knowing it
	case other.in == b.in:
		if w.detachedLocked(other) || w.troubledLocked(other) {
			return ""
		}
		return "the same instance runs, and is not outdated"
	case other.fence == 0 || b.fence == 0:
		return "" // one of them loads without the Tier; see aloneLocked
	}
	switch {
	case w.detachedLocked(other) || w.troubledLocked(other):
		return ""
	case g.ended > 0:
		return "has settled its lease but continues"
	case g.until > b.at:
		return "still has the lease"
	}
	return "let its lease expire without a reason"
}

// detachedLocked reports whether the load was made outdated at its instance since it
// began, by a write there or by a push.
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
