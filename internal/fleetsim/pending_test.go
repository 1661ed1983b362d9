package fleetsim_test

import (
	"slices"

	"github.com/weir-go/weir"
)

// simReplay is the longest time after the last fault within which an instance sends
// what is pending. It is the sum of the longest time between two attempts, a
// breaker's longest time between probes, and the time for the command.
const simReplay = 5 * sec

// covers reports whether a removal of this key, or of these tags, has the effect of
// ack.
func (a *simAck) covers(key string, tags []string) bool {
	if a.tags == nil {
		return a.key == key || slices.Contains(tags, "")
	}
	return len(tags) > 0 && (slices.Contains(tags, "") || slices.ContainsFunc(a.tags, func(t string) bool { return slices.Contains(tags, t) }))
}

// executedLocked records that the engine has executed a write. A repeated write must
// have a reason: a call of the instance for which it could not know whether it was
// executed. w.mu must be held.
func (w *simWorld) executedLocked(in *simInst, ack *simAck, key string, tags []string, ends bool) {
	now := w.now()
	if ack != nil {
		ack.done = true
		if ends {
			ack.paid = now
		}
		return
	}
	owed := false
	for _, a := range in.acked {
		if !a.covers(key, tags) || a.at != 0 && a.ok {
			continue
		}
		owed = true
		if a.paid != 0 {
			continue
		}
		a.paid = now
		if whole := max(a.at, in.link.faulty) + in.link.wasPaused; now > whole+simReplay {
			w.breakLocked("replay: %s sends %s of %q %q, which failed at %v, at %v; there was no fault since %v", in.name, simKinds[a.kind], a.key, a.tags, a.at, now, whole)
		}
	}
	if !owed {
		w.breakLocked("replay: %s invalidates %q %q, but none of its calls has failed", in.name, key, tags)
	}
}

// undoneLocked checks that, once an instance has returned from a call that
// invalidates, it returns no older value, whether or not the engine has executed the
// call. w.mu must be held.
func (w *simWorld) undoneLocked(c simCall, b *simBirth, r weir.Result[simValue], a *simAck) {
	if a.at == 0 || c.began < a.at || b.id == a.set {
		return
	}
	born := b.bornLocked()
	switch {
	case a.tags != nil:
		if !w.hasTag(b.key, a.tags) || b.began >= a.began {
			return
		}
		if b.set && (b.ended == 0 || b.ended >= a.began) { // its tags count from the end of its call
			return
		}
	case a.key != b.key || born >= a.began:
		return
	case a.kind != simInvalidate && r.State == weir.StateStaleOnError, a.kind == simExpire && r.State == weir.StateStale:
		return // an older value may be served instead of an error, or within its window
	}
	w.breakLocked("undone: %s got %s (%v from %v, superseded %v), born at %v, for a call of %v; its own %s of %q %q was from %v to %v (ok %v, executed at %v)",
		c.in.name, b.id, r.State, r.Source, r.Superseded, born, c.began, simKinds[a.kind], a.key, a.tags, a.began, a.at, a.ok, a.paid)
}

// settledUpLocked checks that at rest nothing is pending. w.mu must be held.
func (w *simWorld) settledUpLocked() {
	for _, in := range w.all {
		for _, a := range in.acked {
			if !in.crashed && a.at > 0 && !a.ok && a.paid == 0 {
				w.breakLocked("replay: the engine never executed %s by %s of %q %q", simKinds[a.kind], in.name, a.key, a.tags)
			}
		}
	}
}
