package weir

import (
	"context"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/member"
)

// Set puts a value into memory as if it had been loaded now, and beats a load
// of the key that is running: its value is not kept. It returns ErrNotStored if
// only the latter happens, because there is no TTL or the value is too heavy, and
// otherwise ErrKey, or ErrClosed after Close.
//
// In a fleet it is set for all, if the error is nil, and what is too heavy for the
// memory of an instance is still in the Tier. If the Tier has not acknowledged it,
// the error is a *fleet.PendingError (it matches fleet.ErrUnavailable): the value is
// set here, and an invalidation of the key is queued for the others, because the
// value may be out of date by the time it reaches them. ctx is for the Tier.
func (g *Guard[K, V]) Set(ctx context.Context, key K, value V) error {
	return g.SetEntry(ctx, key, Entry[V]{Value: value})
}

// SetEntry is [Guard.Set] for a value with durations, tags, weight or version
// of its own. With NoStore it is ErrNotStored. NotModified is not allowed:
// ErrNotModified.
func (g *Guard[K, V]) SetEntry(ctx context.Context, key K, in Entry[V]) error {
	if in.NotModified {
		return ErrNotModified
	}
	if err := checkKey(key); err != nil {
		return err
	}
	in.Value = g.clone(in.Value) // the caller may go on to change its own
	e, keep, heavy := g.makeEntry(key, in, g.now(), g.tookBefore(key))
	w, unshared := g.setInFleet(ctx, key, in, e, keep || heavy)
	defer w.leave()
	if err := g.change(func() {
		g.flights.DetachLocked(key)
		if !keep {
			g.removeLocked(key)
			return
		}
		e.setTags(g.internLocked(in.Tags), g.seq)
		if w == nil || g.settlesLocked(key, e, w) {
			g.store.Set(key, e)
		}
		g.reelectLocked(key, g.now()) // if it stays as it is, without the load that was detached
	}); err != nil {
		return err
	}
	g.trim(1)
	if heavy {
		g.count.tooHeavy.Add(1)
		g.event(EventTooHeavy, key, nil)
	}
	if !keep && (w == nil || !heavy || in.NoStore) { // the Tier has room for what is too heavy
		return joined(ErrNotStored, unshared)
	}
	return unshared
}

// A setting is a Set on its way through the fleet, and how the Guard was before.
type setting[V any] struct {
	seat        *member.Seat
	before      *entry[V] // what memory had
	seq, clears uint64
}

func (w *setting[V]) leave() {
	if w != nil {
		w.seat.Leave()
	}
}

// setInFleet sets e, which is kept if share is true, for everybody. Without a
// fleet it does nothing and returns nil. What it returns is the caller's to leave.
func (g *Guard[K, V]) setInFleet(ctx context.Context, key K, in Entry[V], e *entry[V], share bool) (*setting[V], error) {
	if g.team == nil || g.closed.Load() {
		return nil, nil
	}
	var order fleet.Write
	var err error
	if share && !in.NoStore {
		if order.Entry, err = g.team.share(e, in.Tags, g.team.TagSeq(), g.now()); err != nil {
			g.count.unencoded.Add(1)
		}
	}
	name := g.nameOf(key)
	w := &setting[V]{seat: g.sitAt(key, name)}
	written := false
	defer func() { // ctx is the user's
		if !written {
			w.leave()
		}
	}()
	g.flights.Lock()
	w.seq, w.clears = g.seq, g.clears
	if held, ok := g.store.GetEntryQuietly(key); ok {
		w.before = held.Value
	}
	g.flights.Unlock()
	fence, unwritten := g.team.Write(ctx, name, order)
	if e.extra == nil {
		e.extra = &extra{}
	}
	e.extra.fence = fence
	e.capped(later(e.loadedAt, g.team.o.MemoryCap))
	written = true
	return w, joined(err, unwritten)
}

// settlesLocked reports whether e may go into memory, now that the Write has been
// answered: others may have written or invalidated meanwhile, here or elsewhere,
// after it or before. If they have, what is in memory is as new as it, or goes.
// The table's lock must be held.
func (g *Guard[K, V]) settlesLocked(key K, e *entry[V], w *setting[V]) bool {
	if held, ok := g.store.GetEntryQuietly(key); ok {
		switch {
		case e.fence() == 0 && held.Value != w.before: // nobody can say which was first, and the key is being invalidated
			g.removeLocked(key)
			return false
		case held.Value.fence() > e.fence() && e.fence() > 0:
			return false
		}
	}
	if len(e.extra.tags) > 0 {
		e.extra.seq = w.seq
	}
	if w.seat.Overtaken(e.fence()) || w.clears != g.clears || e.outdated() {
		g.removeLocked(key)
		return false
	}
	return true
}

// Invalidate removes keys from memory, whether they are there or not, and
// beats loads of them that are running. It leaves no stale value to serve,
// even if the source is down; Expire does. It returns ErrKey, or ErrClosed
// after Close.
//
// In a fleet it is done for all, if the error is nil: whoever asks the Tier from
// then on gets nothing older, and see [Fleet] for what others have in memory.
// If the Tier has not acknowledged it, the error is a *fleet.PendingError (it
// matches fleet.ErrUnavailable): it is done here, and queued for the others until
// the Tier acknowledges it. Meanwhile this Guard takes nothing from the Tier that it
// touches; the others may serve the old value until then, or until its entry
// expires. There is no need to call it again. ctx is for the Tier.
func (g *Guard[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	unshared := g.writeInFleet(ctx, keys, fleet.Write{})
	return joined(unshared, g.change(func() {
		for _, key := range keys {
			g.flights.DetachLocked(key)
			g.store.Invalidate(key)
		}
	}))
}

// Expire ends the freshness of keys: the next Get of each loads, or serves the
// stale value within its stale windows, which count from now but end no later
// than they did. It beats loads that are running, as Invalidate does.
func (g *Guard[K, V]) Expire(ctx context.Context, keys ...K) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	unshared := g.writeInFleet(ctx, keys, fleet.Write{Expire: true})
	return joined(unshared, g.change(func() {
		for _, key := range keys {
			g.flights.DetachLocked(key)
			switch e := g.lookup(key); {
			case e == nil:
			case e.kind != kindValue, g.clearing > 0:
				g.store.Invalidate(key)
			default:
				g.store.Set(key, e.expired(g.now()))
			}
		}
	}))
}

// Clear removes everything from memory and beats all loads that are running.
// When it returns, nothing that was loaded or set before the call is served;
// while it runs, some keys may be gone and others not yet.
func (g *Guard[K, V]) Clear(ctx context.Context) error {
	unshared := g.tagsInFleet(ctx, "")
	return joined(unshared, g.clearHere())
}

// clearHere is Clear for this instance.
func (g *Guard[K, V]) clearHere() error {
	if err := g.change(func() { g.flights.DetachAllLocked(); g.clearing++; g.clears++ }); err != nil {
		return err
	}
	// Not under the lock: it takes a while. What others store meanwhile goes
	// too, as if they had been a moment earlier; but they must not store again
	// what they found in memory:
	//
	//	A: a load fails; finds the old entry and makes a copy with the failure
	//	B: InvalidateAll removes the old entry and returns
	//	A: stores the copy
	g.store.InvalidateAll()
	g.flights.Lock()
	g.clearing--
	g.flights.Unlock()
	return nil
}

// change runs fn with the table locked, unless the Guard is closed.
func (g *Guard[K, V]) change(fn func()) error {
	g.flights.Lock()
	defer g.flights.Unlock()
	if g.closed.Load() {
		return ErrClosed
	}
	fn()
	return nil
}

func checkKeys[K comparable](keys []K) error {
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	return nil
}
