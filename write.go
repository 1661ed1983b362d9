package weir

import "context"

// Set puts a value into memory as if it had been loaded now, and beats a load
// of the key that is running: its value is not kept. Without a TTL only the
// latter happens. It returns ErrKey, or ErrClosed after Close. ctx is for the
// fleet's tier.
func (g *Guard[K, V]) Set(ctx context.Context, key K, value V) error {
	return g.SetEntry(ctx, key, Entry[V]{Value: value})
}

// SetEntry is [Guard.Set] for a value with durations, tags, weight or version
// of its own. NotModified is not allowed: ErrNotModified.
func (g *Guard[K, V]) SetEntry(ctx context.Context, key K, in Entry[V]) error {
	if in.NotModified {
		return ErrNotModified
	}
	if err := checkKey(key); err != nil {
		return err
	}
	in.Value = g.clone(in.Value) // the caller may go on to change its own
	e, keep, heavy := g.makeEntry(key, in, g.now(), g.tookBefore(key))
	if err := g.change(func() {
		g.flights.DetachLocked(key)
		if !keep {
			g.removeLocked(key)
			return
		}
		e.setTags(g.internLocked(in.Tags), g.seq)
		g.store.Set(key, e)
	}); err != nil {
		return err
	}
	if heavy {
		g.count.tooHeavy.Add(1)
		g.event(EventTooHeavy, key, nil)
	}
	g.trim(1)
	return nil
}

// Invalidate removes keys from memory, whether they are there or not, and
// beats loads of them that are running. It leaves no stale value to serve,
// even if the source is down; Expire does. It returns ErrKey, or ErrClosed
// after Close. ctx is for the fleet's tier.
func (g *Guard[K, V]) Invalidate(ctx context.Context, keys ...K) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	return g.change(func() {
		for _, key := range keys {
			g.flights.DetachLocked(key)
			g.store.Invalidate(key)
		}
	})
}

// Expire ends the freshness of keys: the next Get of each loads, or serves the
// stale value within its stale windows, which count from now but end no later
// than they did. It beats loads that are running, as Invalidate does.
func (g *Guard[K, V]) Expire(ctx context.Context, keys ...K) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	return g.change(func() {
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
	})
}

// Clear removes everything from memory and beats all loads that are running.
// When it returns, nothing that was loaded or set before the call is served;
// while it runs, some keys may be gone and others not yet.
func (g *Guard[K, V]) Clear(ctx context.Context) error {
	if err := g.change(func() { g.flights.DetachAllLocked(); g.clearing++ }); err != nil {
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
