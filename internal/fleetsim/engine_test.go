package fleetsim_test

import (
	"context"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A simEngine is the engine: a fleet.Memory, and beside it another, simple record of
// each key, which gives the expected replies. It executes everything under the
// world's lock, so its history is a sequence.
type simEngine struct {
	w         *simWorld
	memory    *fleet.Memory
	registers map[string]*simRegister
	seq       uint64     // number of the last invalidation by tag
	writes    []simWrite // in order of execution
}

// A simRegister is the state of a key, as defined by the Tier's contract.
type simRegister struct {
	last     uint64
	lease    time.Duration // until when it is held; 0: no lease
	cooling  time.Duration // end of the cooling
	failures int           // consecutive failures
	fence    uint64        // fence of the entry
	expired  uint64        // fence of the last Expire
	id       string        // of the entry's value; "" for none
	fresh    time.Duration // until when the entry is fresh
	keep     time.Duration
	grants   map[uint64]*simGrant
}

// A simGrant is the life of a lease.
type simGrant struct {
	by       *simInst
	told     bool // the instance knows that it has the lease
	used     bool // a load has begun under it
	returned bool // the instance has sent a Settle
	at       time.Duration
	until    time.Duration // end as of the last extension
	ended    time.Duration // when a Settle or a Write ended it; 0: it expired
	wrote    bool          // ended by a Write
}

// A simWrite is an operation that makes values outdated.
type simWrite struct {
	at      time.Duration
	key     string // only for a Write
	tags    []string
	number  uint64 // fence, or number of the invalidation
	removed bool
	expired bool
	set     string // id of the value that was set
	by      *simInst
	ack     *simAck // the call; nil: an instance has repeated a write whose outcome it did not know
}

func (e *simEngine) register(key string) *simRegister {
	r := e.registers[key]
	if r == nil {
		r = &simRegister{grants: make(map[uint64]*simGrant)}
		e.registers[key] = r
	}
	return r
}

// nextLocked records a new fence and returns the register of its key.
func (e *simEngine) nextLocked(key string, fence uint64) *simRegister {
	r := e.register(key)
	if fence <= r.last {
		e.w.breakLocked("fence: %s got #%d after #%d", key, e.w.ordinal(fence), e.w.ordinal(r.last))
	}
	r.last = fence
	return r
}

func (e *simEngine) acquireLocked(l *simLink, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	w, now, r := e.w, e.w.now(), e.register(k.Name)
	ans, err := e.memory.Acquire(context.Background(), k, a)
	if err != nil {
		return ans, err
	}
	if r.keep <= now {
		r.id = ""
	}
	want := fleet.GrantLease
	switch {
	case r.id != "" && (a.Joined > 0 && r.fence >= a.Joined && r.fence > r.expired || r.fresh > now && r.fence > a.NewerThan):
		want = fleet.GrantFresh
	case r.lease > now:
		want = fleet.GrantHeld
	case r.cooling > now && !a.Cooled:
		want = fleet.GrantCooling
	}
	got := ""
	if ans.Entry != nil {
		got = simIdOf(ans.Entry.Data)
	}
	if ans.Grant != want || got != r.id || got != "" && ans.Entry.Fence != r.fence {
		w.breakLocked("tier: Acquire(%s, newer than #%d, joined #%d, cooled %v) = %v with %q; want %v with %q",
			k.Name, w.ordinal(a.NewerThan), w.ordinal(a.Joined), a.Cooled, ans.Grant, got, want, r.id)
	}
	if ans.Grant == fleet.GrantHeld && (ans.Remaining <= 0 || ans.Remaining > w.o.lease || ans.Fence != r.last) {
		w.breakLocked("lease: %s is held by #%d for %v; want #%d for at most %v", k.Name, w.ordinal(ans.Fence), ans.Remaining, w.ordinal(r.last), w.o.lease)
	}
	if ans.Grant == fleet.GrantLease {
		r = e.nextLocked(k.Name, ans.Fence)
		r.lease = now + a.Lease
		r.grants[ans.Fence] = &simGrant{by: l.in, at: now, until: r.lease}
	}
	w.logLocked("tier", "%s: acquire %s (newer than #%d, joined #%d, cooled %v): %v #%d, %q", l.in.name, k.Name,
		w.ordinal(a.NewerThan), w.ordinal(a.Joined), a.Cooled, ans.Grant, w.ordinal(ans.Fence), got)
	return ans, nil
}

func (e *simEngine) extendLocked(l *simLink, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	w, now, r := e.w, e.w.now(), e.register(k.Name)
	ok, err := e.memory.Extend(context.Background(), k, fence, d)
	if err != nil {
		return ok, err
	}
	if want := r.last == fence && r.lease > now; ok != want {
		w.breakLocked("tier: Extend(%s, #%d) = %v; want %v", k.Name, w.ordinal(fence), ok, want)
	}
	if ok {
		r.lease = now + d
		r.grants[fence].until = r.lease
	}
	w.logLocked("tier", "%s: extend %s #%d: %v", l.in.name, k.Name, w.ordinal(fence), ok)
	return ok, nil
}

func (e *simEngine) settleLocked(l *simLink, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	w, now, r := e.w, e.w.now(), e.register(k.Name)
	ok, err := e.memory.Settle(context.Background(), k, fence, o)
	if err != nil {
		return ok, err
	}
	if want := r.last == fence; ok != want {
		w.breakLocked("tier: Settle(%s, #%d) = %v although the last fence is #%d", k.Name, w.ordinal(fence), ok, w.ordinal(r.last))
	}
	what := "nothing"
	switch {
	case o.Entry != nil:
		what = simIdOf(o.Entry.Data)
	case o.Cool > 0:
		what = "failure " + o.Failure.Text
	}
	w.logLocked("tier", "%s: settle %s #%d with %s (remove %v): %v", l.in.name, k.Name, w.ordinal(fence), what, o.Remove, ok)
	if !ok {
		return false, nil
	}
	r.lease = 0
	if g := r.grants[fence]; g != nil && g.ended == 0 {
		g.ended = now
	}
	switch {
	case o.Entry != nil:
		e.storedLocked(l, k.Name, simIdOf(o.Entry.Data), fence)
		r.id, r.fence, r.fresh, r.keep, r.cooling = simIdOf(o.Entry.Data), fence, now+o.Entry.Fresh, now+o.Entry.Keep, 0
		if until := o.Entry.Until; until > 0 { // by the engine's clock, in µs
			left := int64(until) - w.start.Add(now).UnixMicro() //nolint:gosec // long before the end of int64
			r.fresh = min(r.fresh, now+time.Duration(left)*time.Microsecond)
		}
		r.failures = 0
	case o.Cool > 0:
		d := o.Cool
		for range r.failures {
			d = min(2*d, max(o.Cool, o.MaxCool))
		}
		r.failures++
		r.cooling = now + d
	}
	if o.Entry == nil && o.Remove {
		r.id = ""
	}
	return true, nil
}

// storedLocked checks what a load has stored: it belongs to the lease under which it
// is settled, and is not older than the value that it replaces.
func (e *simEngine) storedLocked(l *simLink, key, id string, fence uint64) {
	w := e.w
	b, old := w.births[id], w.births[e.register(key).id]
	if b == nil || b.key != key {
		w.breakLocked("settle: %s stores %q under %s", l.in.name, id, key)
		return
	}
	if b.fence != 0 && b.fence != fence {
		w.breakLocked("settle: %s stores %q, loaded under #%d, under #%d", l.in.name, id, w.ordinal(b.fence), w.ordinal(fence))
	}
	if b.settled = fence; old != nil && !old.set && b.version < old.version {
		w.breakLocked("back: %s had version %d in the tier, but %s stores version %d", key, old.version, l.in.name, b.version)
	}
}

func (e *simEngine) writeLocked(l *simLink, ack *simAck, k fleet.Key, change fleet.Write) (uint64, error) {
	w, now := e.w, e.w.now()
	fence, err := e.memory.Write(context.Background(), k, change)
	if err != nil {
		return fence, err
	}
	before := e.register(k.Name).last
	r := e.nextLocked(k.Name, fence)
	r.lease, r.cooling, r.failures = 0, 0, 0
	if g := r.grants[before]; g != nil && g.ended == 0 {
		g.ended, g.wrote = now, true
	}
	wr := simWrite{at: now, key: k.Name, number: fence, by: l.in, ack: ack}
	w.executedLocked(l.in, ack, k.Name, nil, change.Entry == nil)
	switch {
	case change.Entry != nil:
		wr.set = simIdOf(change.Entry.Data)
		r.id, r.fence, r.fresh, r.keep = wr.set, fence, now+change.Entry.Fresh, now+change.Entry.Keep
		if b := w.births[wr.set]; b == nil || b.key != k.Name {
			w.breakLocked("set: %s writes %q under %s", l.in.name, wr.set, k.Name)
		} else {
			b.settled, b.at = fence, now
		}
	case change.Expire:
		wr.expired = true
		r.fresh, r.expired = min(r.fresh, now), fence
	default:
		wr.removed = true
		r.id = ""
	}
	e.writes = append(e.writes, wr)
	w.logLocked("tier", "%s: write %s #%d: set %q, expire %v, remove %v", l.in.name, k.Name, w.ordinal(fence), wr.set, wr.expired, wr.removed)
	return fence, nil
}

func (e *simEngine) invalidateTagsLocked(l *simLink, ack *simAck, namespace string, tags []string, keep time.Duration) (uint64, error) {
	w := e.w
	seq, err := e.memory.InvalidateTags(context.Background(), namespace, tags, keep)
	if err != nil {
		return seq, err
	}
	if seq <= e.seq {
		w.breakLocked("fence: invalidation %d after %d", seq, e.seq)
	}
	e.seq = seq
	e.writes = append(e.writes, simWrite{at: w.now(), tags: tags, number: seq, removed: true, by: l.in, ack: ack})
	w.executedLocked(l.in, ack, "", tags, true)
	w.logLocked("tier", "%s: invalidate tags %q #%d", l.in.name, tags, w.ordinal(seq))
	return seq, nil
}

// simIdOf finds the ID of a value, or of a not-found result, in encoded data.
func simIdOf(data []byte) string {
	var v fleet.Value
	if v.UnmarshalBinary(data) != nil {
		return "?"
	}
	return simIdIn(string(v.Data))
}
