package fleetsim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// A simCall is a finished call of a reader.
type simCall struct {
	in           *simInst
	kind         simKind
	began, ended time.Duration
	patience     time.Duration
}

// A simSeen is a result that shows what an instance's memory, or the tier, contained.
type simSeen struct {
	in    *simInst
	key   string
	ended time.Duration
	fence uint64
	id    string
}

// answeredLocked judges a result by the rules. w.mu must be held.
func (w *simWorld) answeredLocked(c simCall, key string, r weir.Result[simValue]) {
	w.answers++
	id := r.Value.ID
	if errors.Is(r.Err, weir.ErrNotFound) {
		id = simIdIn(r.Err.Error())
	}
	w.logLocked(c.in.name, "answer %s: %v from %v, %s (superseded %v; call of %v): %v", key, r.State, r.Source, id, r.Superseded, c.began, r.Err)
	if r.Err != nil && !errors.Is(r.Err, weir.ErrNotFound) {
		w.failedLocked(c, key, r)
		return
	}
	b := w.births[id]
	switch {
	case b == nil:
		w.breakLocked("value: %s got %q for %s, which was never made", c.in.name, id, key)
		return
	case b.key != key || r.Err == nil && (r.Value.Key != key || r.Value.Version != b.version):
		w.breakLocked("value: %s got %+v for %s, but %s was made", c.in.name, r.Value, key, id)
		return
	case r.State == weir.StateLoaded && r.Source == weir.FromLoad && b.in != c.in:
		w.breakLocked("value: %s claims to have loaded %s", c.in.name, id)
	case r.Source == weir.FromLoad && (b.ended < c.began || b.began > c.ended):
		w.breakLocked("late: %s got %s, loaded from %v to %v, for a call of %v", c.in.name, id, b.began, b.ended, c.began)
	}
	if c.in.crashed {
		return
	}
	for i := range w.engine.writes {
		w.outdatedLocked(c, b, r, &w.engine.writes[i])
	}
	for _, ack := range c.in.acked {
		w.undoneLocked(c, b, r, ack)
	}
	w.ageLocked(c, b, r)
	w.backLocked(c, b, r)
}

// outdatedLocked checks that no value is returned after the write wr has made it
// outdated, if the instance could know.
func (w *simWorld) outdatedLocked(c simCall, b *simBirth, r weir.Result[simValue], wr *simWrite) {
	switch {
	case wr.ack == nil && wr.by == c.in:
		return // a repeated write: for this instance, the original call counts, see undoneLocked
	case wr.key != "" && (wr.key != b.key || b.bornLocked() >= wr.at || wr.set == b.id):
		return
	case wr.key == "" && (!w.hasTag(b.key, wr.tags) || b.began >= wr.at || b.set && (b.at >= wr.at || b.ended == 0 || b.ended >= wr.at)):
		return
	case r.State == weir.StateStaleOnError && !wr.removed, r.State == weir.StateStale && wr.expired:
		return // an older value may be served instead of an error, or within its window
	}
	known, how := c.in.knownLocked(wr, c.began)
	if known && !(r.State == weir.StateStaleOnError && how != "told") {
		w.breakLocked("outdated: %s got %s (%v from %v, superseded %v) for a call of %v, after #%d (set %q, expired %v, tags %q) at %v, of which it was already %s",
			c.in.name, b.id, r.State, r.Source, r.Superseded, c.began, w.ordinal(wr.number), wr.set, wr.expired, wr.tags, wr.at, how)
		return
	}
	// It cannot have known. The remaining bounds are its memory's cap, the time for
	// what was in flight, and the windows.
	var limit, missed time.Duration
	if slices.Contains(wr.tags, "") {
		missed = w.o.cap // until the instance reads again what was cleared
	}
	switch {
	case r.State == weir.StateStaleOnError:
		return // ageLocked checks the windows
	case r.Source == weir.FromMemory:
		limit = max(wr.at, b.ended) + w.o.cap + missed
		if at := c.ended; at < limit || c.kind == simGetMany && c.began < limit { // which checks the memory first, and then waits for its other keys
			return
		}
	case r.Source == weir.FromTier:
		// The Tier was called before the write, at most three commands earlier.
		limit = wr.at + 3*w.slackLocked(c.in) + missed
		if w.o.pushes && b.settled > 0 { // or it was pushed, and is memory since
			limit = max(limit, max(wr.at, b.ended)+w.o.cap+missed)
		}
		if c.began < limit {
			return
		}
	default:
		limit = b.ended + w.slackLocked(c.in) // the call joined while the load was running
		if c.began < limit {
			return
		}
	}
	w.breakLocked("outdated: %s got %s (%v from %v) for a call of %v, although #%d (tags %q) was at %v, and the bound ended at %v",
		c.in.name, b.id, r.State, r.Source, c.began, w.ordinal(wr.number), wr.tags, wr.at, limit)
}

// slackLocked returns how long one command may take, including the pauses of the
// instance.
func (w *simWorld) slackLocked(in *simInst) time.Duration {
	slack := simDeadline + in.link.wasPaused
	if w.o.breaker {
		slack += simDeadline
	}
	return slack
}

func (w *simWorld) hasTag(key string, tags []string) bool {
	return slices.Contains(tags, "") || slices.ContainsFunc(w.o.tagsOf(key), func(t string) bool { return slices.Contains(tags, t) })
}

// knownLocked reports whether the instance knew of a write at an instant, and how.
// "told": by its own acknowledged call or by a push. "warned": it only knew that it
// had missed something, or learned of a later change.
func (in *simInst) knownLocked(wr *simWrite, at time.Duration) (bool, string) {
	for _, h := range in.heard {
		switch {
		case h.at > at || h.own && h.number != wr.number: // an own write says nothing about others
		case wr.key != "" && h.key == wr.key && h.number >= wr.number && (h.removed || !wr.removed),
			wr.key == "" && h.tagged && (h.tag == "" || slices.Contains(wr.tags, h.tag)) && h.number >= wr.number:
			return true, "told"
		}
	}
	if wr.by == in && wr.ack != nil && wr.ack.ok && wr.ack.at <= at {
		return true, "told"
	}
	for _, h := range in.heard {
		if h.at <= at && !h.own && (h.reset && h.at >= wr.at || wr.key != "" && h.key == wr.key && h.number >= wr.number) {
			return true, "warned"
		}
	}
	return false, ""
}

// ageLocked checks that nothing is served beyond its instants (E3), counted from the
// load's end. For values from the Tier, the delays to it and from it are added.
func (w *simWorld) ageLocked(c simCall, b *simBirth, r weir.Result[simValue]) {
	ttl := w.o.ttl
	if r.Err != nil {
		ttl = w.o.negative
	}
	made, late := b.ended, time.Duration(0)
	if b.set {
		made = b.began
	}
	if r.Source == weir.FromTier || b.in != c.in || b.settled > 0 {
		late = 2*(simDeadline+200*ms) + w.slackLocked(c.in) + w.slackLocked(b.in)
	}
	limit := made + ttl + late
	switch r.State {
	case weir.StateFresh, weir.StateNegative:
		if r.Source == weir.FromLoad {
			return
		}
	case weir.StateStale:
		limit += w.o.swr
	case weir.StateStaleOnError:
		limit += max(w.o.swr, w.o.sie)
	default:
		return
	}
	if at := max(c.began, made); at > limit {
		w.breakLocked("age: %s got %s (%v) in a call of %v; it ended at %v", c.in.name, b.id, r.State, c.began, limit)
	}
}

// backLocked checks that an instance does not go back behind what it has seen of the
// Tier's order.
func (w *simWorld) backLocked(c simCall, b *simBirth, r weir.Result[simValue]) {
	if b.settled == 0 || r.Superseded {
		return
	}
	for _, s := range w.seen {
		if s.in == c.in && s.key == b.key && s.ended < c.began && s.fence > b.settled {
			w.breakLocked("back: %s got %s (#%d) in a call of %v; at %v it had %s (#%d)", c.in.name, b.id, w.ordinal(b.settled), c.began, s.ended, s.id, w.ordinal(s.fence))
			break
		}
	}
	if r.Source == weir.FromMemory || r.Source == weir.FromTier {
		w.seen = append(w.seen, simSeen{c.in, b.key, c.ended, b.settled, b.id})
	}
}

// failedLocked judges a failure: it must be the caller's own, or come from a load.
func (w *simWorld) failedLocked(c simCall, key string, r weir.Result[simValue]) {
	var panicked *weir.PanicError
	var late *weir.TimeoutError
	var remote *fleet.RemoteError
	text := r.Err.Error()
	b := w.births[simIdIn(text)]
	switch {
	case c.in.crashed || c.in.closed > 0 && errors.Is(r.Err, weir.ErrClosed):
	case errors.Is(r.Err, fleet.ErrUnavailable):
		w.breakLocked("error: %s got %v for %s; the Tier's errors are not the callers'", c.in.name, r.Err, key)
	case errors.As(r.Err, &late):
	case errors.As(r.Err, &remote) && strings.Contains(text, "took longer than"):
	case errors.Is(r.Err, context.DeadlineExceeded):
		if c.patience == 0 || c.ended < c.began+c.patience {
			w.breakLocked("error: %s got %v for %s after %v, but its patience is %v", c.in.name, r.Err, key, c.ended-c.began, c.patience)
		}
	case errors.Is(r.Err, weir.ErrLeaseLost) && w.o.cancelLost:
	case errors.Is(r.Err, errSimBoom), errors.As(r.Err, &panicked), errors.As(r.Err, &remote):
		if b == nil || b.key != key || !b.failed {
			w.breakLocked("error: %s got %v for %s, but no load of the key ended with that", c.in.name, r.Err, key)
			return
		}
		longest := max(w.o.cooling[1], w.o.memo.Initial, w.o.memo.Max) + 2*(simDeadline+200*ms) + w.slackLocked(c.in) + w.slackLocked(b.in)
		if c.began > b.ended+longest {
			w.breakLocked("error: %s got %v in a call of %v, but the load failed at %v", c.in.name, r.Err, c.began, b.ended)
		}
	default:
		w.breakLocked("error: %s got %v for %s", c.in.name, r.Err, key)
	}
}

// wroteLocked judges the end of a write. w.mu must be held.
func (w *simWorld) wroteLocked(in *simInst, ack *simAck, err error) {
	switch {
	case in.crashed || in.closed > 0:
	case err == nil && !ack.done:
		w.breakLocked("write: %s got an acknowledgement for its %s of %s %q, but the engine has not executed it", in.name, simKinds[ack.kind], ack.key, ack.tags)
	case err != nil && !errors.Is(err, fleet.ErrUnavailable):
		w.breakLocked("write: %s: %s = %v", in.name, simKinds[ack.kind], err)
	}
}

// lastTagSeq returns the latest number that the engine has given to an invalidation
// by tag.
func (w *simWorld) lastTagSeq() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engine.seq
}
