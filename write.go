package weir

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

// Set puts a value into memory as if it had been loaded now, and overtakes a
// running load of the key, whose value is not kept. It returns ErrNotStored if
// the value is not stored, because there is no TTL or it is too heavy, ErrKey for
// an invalid key, and ErrClosed after Close.
//
// In a fleet a nil error means that it is set for all instances. A value too heavy
// for the memory of an instance is still in the Tier. If the Tier has not
// acknowledged it, the error is a *fleet.PendingError (it matches
// fleet.ErrUnavailable): the value is set here, and an invalidation of the key is
// queued for the others, because the value may be out of date by the time it reaches
// them. ctx is used for the Tier.
func (g *Guard[K, V]) Set(ctx context.Context, key K, value V) error {
	return g.SetEntry(ctx, key, Entry[V]{Value: value})
}

// SetEntry is [Guard.Set] for a value with its own durations, tags, weight or
// version. It returns ErrNotStored for NoStore, and ErrNotModified for
// NotModified, which is not allowed.
func (g *Guard[K, V]) SetEntry(ctx context.Context, key K, in Entry[V]) error {
	if in.NotModified {
		return ErrNotModified
	}
	if err := checkKey(key); err != nil {
		return err
	}
	w := g.settingOf(key, in)
	g.set(ctx, w)
	return w.err
}

// SetMany is [Guard.Set] for several keys; in a fleet it writes 64 of them to the
// Tier at a time. If some keys have an error, it returns them as KeyErrors[K]; the
// others are set. If a key is not equal to itself it returns ErrKey and sets nothing.
func (g *Guard[K, V]) SetMany(ctx context.Context, values map[K]V) error {
	if err := checkKeys(slices.Collect(maps.Keys(values))); err != nil {
		return err
	}
	all := make([]*setting[K, V], 0, len(values))
	for key, value := range values {
		all = append(all, g.settingOf(key, Entry[V]{Value: value}))
	}
	g.set(ctx, all...)
	errs := make(KeyErrors[K])
	for _, w := range all {
		if w.err != nil {
			errs[w.key] = w.err
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// SetNotFound puts the answer that the source does not have key into memory, for
// NegativeTTL, as if a load had returned ErrNotFound now. Otherwise it works
// like [Guard.Set]; without a NegativeTTL it returns ErrNotStored.
func (g *Guard[K, V]) SetNotFound(ctx context.Context, key K) error {
	if err := checkKey(key); err != nil {
		return err
	}
	e := newNegative[V](&g.o, g.o.NegativeTTL, ErrNotFound, g.clock(), g.tookBefore(key))
	w := &setting[K, V]{key: key, entry: e, keep: g.o.NegativeTTL > 0}
	g.set(ctx, w)
	return w.err
}

// A setting is the progress of a Set for one key, with the Guard's state before
// it.
type setting[K comparable, V any] struct {
	key   K
	entry *entry[V]
	tags  []string
	keep  bool // it goes into memory
	heavy bool // kept out of memory by its weight
	none  bool // not shared either: NoStore

	sub         *fleetclient.Subscription // nil without a fleet, like the next fields
	name        string
	order       fleet.Write
	before      *entry[V] // the entry in memory before
	seq, clears uint64
	unshared    error // why the other instances do not have it

	err error // what Set returns
}

// settingOf makes a setting of the user's Entry.
func (g *Guard[K, V]) settingOf(key K, in Entry[V]) *setting[K, V] {
	in.Value = g.clone(in.Value) // the caller may change its own copy later
	w := &setting[K, V]{key: key, tags: in.Tags, none: in.NoStore}
	w.entry, w.keep, w.heavy = g.makeEntry(key, in, g.clock(), g.tookBefore(key))
	return w
}

// set takes the settings through the fleet, and into memory.
func (g *Guard[K, V]) set(ctx context.Context, all ...*setting[K, V]) {
	if g.fleet != nil && !g.closed.Load() {
		defer func() {
			for _, w := range all {
				if w.sub != nil {
					w.sub.Close()
				}
			}
		}()
		for _, w := range all { // all of them before the next step: the user's hooks may not return
			g.prepareInFleet(w)
		}
		if len(all) == 1 {
			g.setInFleet(ctx, all[0])
		} else {
			atOnce(len(all), func(i int) { g.setInFleet(ctx, all[i]) })
		}
	}
	for _, w := range all {
		w.err = g.commit(ctx, w)
	}
}

// atOnce calls do for each number below n, 64 at a time, and waits for all.
func atOnce(n int, do func(i int)) {
	slots := make(chan struct{}, 64)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}

// prepareInFleet subscribes to the key of w, and prepares the entry for the fleet.
func (g *Guard[K, V]) prepareInFleet(w *setting[K, V]) {
	if (w.keep || w.heavy) && !w.none {
		var err error
		if w.order.Entry, err = g.fleet.share(w.entry, w.tags, g.fleet.TagSeq(), g.clock); err != nil {
			g.count.unencoded.Add(1)
			w.unshared = err
		}
	}
	w.name = g.nameOf(w.key)
	w.sub = g.subscribeName(w.key, w.name)
	g.flights.Lock()
	defer g.flights.Unlock()
	w.seq, w.clears = g.seq, g.clears
	if held, ok := g.store.GetEntryQuietly(w.key); ok {
		w.before = held.Value
	}
}

// setInFleet sets w, which is prepared, for all instances.
func (g *Guard[K, V]) setInFleet(ctx context.Context, w *setting[K, V]) {
	if w.entry.extra == nil {
		w.entry.extra = &extra{}
	}
	w.entry.capped(later(w.entry.loadedAt, g.fleet.o.MemoryCap))
	err := errExited // the rest of SetMany continues on another goroutine
	defer func() { w.unshared = joined(w.unshared, err) }()
	w.entry.extra.fence, err = g.fleet.Write(ctx, w.name, w.order)
}

// commit puts w into memory, or removes the entry there if w is not kept.
func (g *Guard[K, V]) commit(ctx context.Context, w *setting[K, V]) error {
	if err := g.change(func() {
		g.noteLocked(w.key)
		g.flights.DetachLocked(w.key)
		if !w.keep {
			g.removeLocked(w.key)
			return
		}
		w.entry.setTags(g.internLocked(w.tags), g.seq)
		if w.sub == nil || g.settlesLocked(w) {
			g.store.Set(w.key, w.entry)
		}
		g.reelectLocked(w.key, g.clock()) // in case the entry stays, without the load that was detached
	}); err != nil {
		return err
	}
	g.trim(1)
	if w.heavy {
		g.count.tooHeavy.Add(1)
		g.event(ctx, EventTooHeavy, w.key, nil)
	}
	if !w.keep && (w.sub == nil || !w.heavy || w.none) { // the Tier has room for what is too heavy
		return joined(ErrNotStored, w.unshared)
	}
	return w.unshared
}

// settlesLocked reports whether w's entry may go into memory, after the Write has been
// answered. Meanwhile others may have written or invalidated, here or elsewhere, before
// it or after it. If so, the entry in memory is as new as w's, or is removed. The table's
// lock must be held.
func (g *Guard[K, V]) settlesLocked(w *setting[K, V]) bool {
	key, e := w.key, w.entry
	if held, ok := g.store.GetEntryQuietly(key); ok {
		switch {
		case e.fence() == 0 && held.Value != w.before: // it is unknown which was first, and the key is being invalidated
			g.removeLocked(key)
			return false
		case held.Value.fence() > e.fence() && e.fence() > 0:
			return false
		}
	}
	if len(e.extra.tags) > 0 {
		e.extra.seq = w.seq
	}
	if w.sub.Overtaken(e.fence()) || w.clears != g.clears || e.overtakenLocked() {
		g.removeLocked(key)
		return false
	}
	return true
}

// Invalidate removes keys from memory and overtakes running loads of them, also
// of keys that are not in memory. It leaves no stale value to serve, even if
// the source is down; Expire does. It returns ErrKey, or ErrClosed after Close.
//
// In a fleet a nil error means that it is done for all instances: from then on the
// Tier returns nothing older. See [Fleet] for the memories of the others. If the
// Tier has not acknowledged it, the error is a *fleet.PendingError (it matches
// fleet.ErrUnavailable): it is done here, and queued for the others until the Tier
// acknowledges it. Until then this Guard takes no affected value from the Tier, and
// the others may serve the old value until its entry expires. There is no need to
// call it again. ctx is used for the Tier.
func (g *Guard[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	unshared := g.writeInFleet(ctx, keys, fleet.Write{})
	return g.changed(ctx, EventInvalidated, keys, unshared, g.change(func() {
		for _, key := range keys {
			g.noteLocked(key)
			g.flights.DetachLocked(key)
			g.store.Invalidate(key)
		}
	}))
}

// changed reports that keys were invalidated or expired, unless nothing was done
// here because of err, and returns both errors.
func (g *Guard[K, V]) changed(ctx context.Context, kind EventKind, keys []K, unshared, err error) error {
	if g.o.Observer != nil && err == nil && len(keys) > 0 {
		g.report(ctx, Event{Kind: kind, Key: keys[0], Keys: len(keys), Err: unshared})
	}
	return joined(unshared, err)
}

// changedTags is changed for tags; no tags means everything.
func (g *Guard[K, V]) changedTags(ctx context.Context, kind EventKind, tags []string, unshared, err error) error {
	if g.o.Observer != nil && err == nil {
		g.report(ctx, Event{Kind: kind, Tags: tags, Err: unshared})
	}
	return joined(unshared, err)
}

// Expire ends the freshness of keys: the next Get of each loads, or serves the
// stale value within its stale windows, which count from now but end no later
// than before. It overtakes running loads, as Invalidate does.
func (g *Guard[K, V]) Expire(ctx context.Context, keys ...K) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	unshared := g.writeInFleet(ctx, keys, fleet.Write{Expire: true})
	return g.changed(ctx, EventExpired, keys, unshared, g.change(func() {
		for _, key := range keys {
			g.noteLocked(key)
			g.flights.DetachLocked(key)
			switch e := g.lookup(key); {
			case e == nil:
			case e.kind != kindValue, g.clearing > 0:
				g.store.Invalidate(key)
			default:
				g.store.Set(key, e.expired(g.clock()))
			}
		}
	}))
}

// InvalidateAll removes everything from memory and overtakes all running loads.
// When it returns, nothing that was loaded or set before the call is served;
// while it runs, some keys may be gone and others not. It applies to the fleet
// as [Guard.Invalidate] does.
func (g *Guard[K, V]) InvalidateAll(ctx context.Context) error {
	unshared := g.tagsInFleet(ctx, "")
	return g.changedTags(ctx, EventInvalidated, nil, unshared, g.invalidateAll())
}

// ExpireAll ends the freshness of everything, as [Guard.Expire] does for keys, and
// overtakes all running loads. While it runs, some keys may still be fresh.
func (g *Guard[K, V]) ExpireAll(ctx context.Context) error {
	unshared := g.expireInFleet(ctx, "")
	return g.changedTags(ctx, EventExpired, nil, unshared, g.expireAll())
}

// expireAll is ExpireAll for this instance.
func (g *Guard[K, V]) expireAll() error {
	if err := g.change(func() { g.flights.DetachAllLocked(); g.clears++ }); err != nil {
		return err
	}
	g.eachEntry(func(*entry[V]) bool { return true }, func(e *entry[V], now instant) *entry[V] { return e.expired(now) })
	return nil
}

// eachEntry replaces each matching entry with the one that with returns, and
// removes those that hold no value.
func (g *Guard[K, V]) eachEntry(match func(*entry[V]) bool, with func(*entry[V], instant) *entry[V]) {
	const each = 256 // entries per locking, so that the lock is not held for long
	var keys []K
	replace := func() {
		g.flights.Lock()
		defer g.flights.Unlock()
		for _, key := range keys {
			held, ok := g.store.GetEntryQuietly(key)
			switch {
			case !ok || !match(held.Value):
			case held.Value.kind != kindValue || g.clearing > 0:
				g.store.Invalidate(key)
			default:
				g.store.Set(key, with(held.Value, g.clock()))
			}
		}
		keys = keys[:0]
	}
	for key, e := range g.store.All() {
		if !match(e) {
			continue
		}
		if keys = append(keys, key); len(keys) == each {
			replace()
		}
	}
	replace()
}

// invalidateAll is InvalidateAll for this instance.
func (g *Guard[K, V]) invalidateAll() error {
	if err := g.change(func() { g.flights.DetachAllLocked(); g.clearing++; g.clears++ }); err != nil {
		return err
	}
	// Not under the lock, because it is slow. Entries that others store
	// meanwhile are removed too, as if they had been stored a moment earlier.
	// But others must not store a copy of an entry that they found in memory:
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
