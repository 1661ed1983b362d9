package weirhttp

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/responses"
)

// DefaultCacheBytes is the bound of the Cache of a Handler that was given none.
const DefaultCacheBytes = 64 << 20

// MinCacheBytes is the least bound of a Cache.
const MinCacheBytes = 1 << 20

// A Cache is where responses are stored and flights are found. Handlers that
// answer for the same URLs share one, so that a PUT through one of them
// invalidates what another has stored. It is safe for concurrent use and has
// nothing to close.
type Cache struct {
	bytes int64
	store *responses.Store
	hints *sharingHints

	mu      sync.Mutex
	flights map[responses.Key][]*flight // guarded by mu; those that can be joined

	ahead budget // of the bodies that are read before admission

	joining sync.Mutex // of JoinFleet and LeaveFleet
	// fleet is nil without one. An atomic, as each hit reads it.
	fleet atomic.Pointer[fleetClient]
}

// NewCache returns a Cache that is bounded by bytes: everything that it keeps
// counts, and what calls in flight hold in buffers. The error is an
// *OptionError if bytes is below MinCacheBytes.
func NewCache(bytes int64) (*Cache, error) {
	if bytes < MinCacheBytes {
		return nil, &OptionError{Package: "weirhttp", Field: "bytes", Value: bytes, Bound: "at least 1 MiB (1048576)"}
	}
	return &Cache{
		bytes:   bytes,
		store:   responses.New(responses.Options{Bytes: bytes}),
		hints:   newSharingHints(),
		flights: make(map[responses.Key][]*flight),
	}, nil
}

// Invalidate removes the responses of one URL, with all variants, here and in the
// fleet that c is in, and returns how many there were here. A call that is running
// stores nothing, and nobody joins it any more. scheme is "http" or "https"; host
// as clients send it: each spelling is an entry of its own (decision 0026); target
// is path and query.
//
// When it returns no error, no instance serves from the fleet what was fetched
// before, and the others drop their copies when the push arrives. With an error it
// is done here, and not everywhere. If that is a *fleet.PendingError, it is queued
// until the Tier acknowledges it: meanwhile c takes nothing from the fleet that it
// touches, and others may serve their copies until they expire. ctx is for the
// Tier; without a fleet there is no error.
func (c *Cache) Invalidate(ctx context.Context, scheme, host, target string) (int, error) {
	return c.purge(ctx, responses.Key{Scheme: scheme, Host: host, Target: target}, false)
}

// Expire makes the responses of one URL stale, and keeps their stale-if-error
// window. What a running call brings is stale as well. Otherwise it is
// [Cache.Invalidate].
func (c *Cache) Expire(ctx context.Context, scheme, host, target string) (int, error) {
	return c.purge(ctx, responses.Key{Scheme: scheme, Host: host, Target: target}, true)
}

func (c *Cache) purge(ctx context.Context, key responses.Key, expire bool) (int, error) {
	n := c.purgeHere(key, expire)
	if m := c.fleet.Load(); m != nil {
		return n, m.purge(ctx, key, expire)
	}
	return n, nil
}

// purgeHere is purge for this instance.
func (c *Cache) purgeHere(key responses.Key, expire bool) int {
	n := c.store.Purge(key, expire)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachLocked(key)
	return n
}

// InvalidateTags removes all responses that carry one of the tags (Surrogate-Key
// or Cache-Tag), here and in the fleet. Which tags a running call will bring is not
// known, so nobody joins those any more that began before. The error is as of
// [Cache.Invalidate]. An empty tag is ignored: no response carries it.
func (c *Cache) InvalidateTags(ctx context.Context, tags ...string) error {
	return c.purgeTags(ctx, false, tags)
}

// ExpireTags makes all responses that carry one of the tags stale, and keeps their
// stale-if-error window. Otherwise it is [Cache.InvalidateTags].
func (c *Cache) ExpireTags(ctx context.Context, tags ...string) error {
	return c.purgeTags(ctx, true, tags)
}

func (c *Cache) purgeTags(ctx context.Context, expire bool, tags []string) error {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return tag == "" }) // it would stand for everything
	if len(tags) == 0 {
		return nil
	}
	c.purgeTagsHere(expire, tags...)
	if m := c.fleet.Load(); m != nil {
		return m.purgeTags(ctx, expire, tags...)
	}
	return nil
}

// InvalidateAll removes everything, here and in the fleet. The error is as of
// [Cache.Invalidate].
func (c *Cache) InvalidateAll(ctx context.Context) error { return c.purgeAll(ctx, false) }

// ExpireAll makes everything stale, here and in the fleet, and keeps the
// stale-if-error windows. It looks at every response. The error is as of
// [Cache.Invalidate].
func (c *Cache) ExpireAll(ctx context.Context) error { return c.purgeAll(ctx, true) }

func (c *Cache) purgeAll(ctx context.Context, expire bool) error {
	c.purgeTagsHere(expire, "")
	if m := c.fleet.Load(); m != nil {
		return m.purgeTags(ctx, expire, "")
	}
	return nil
}

// purgeTagsHere is purgeTags for this instance; "" alone is everything.
func (c *Cache) purgeTagsHere(expire bool, tags ...string) {
	switch {
	case len(tags) != 1 || tags[0] != "":
		c.store.PurgeTags(expire, tags...)
	case expire:
		c.store.ExpireAll()
	default:
		c.store.Clear()
	}
	c.detachAll()
}

// Stats returns a snapshot.
func (c *Cache) Stats() CacheStats {
	s := c.store.Stats()
	out := CacheStats{
		Bytes: s.Bytes, Used: s.Used, Reserved: s.Reserved, Responses: s.Responses,
		Stored: s.Stored, Evicted: s.Evicted, TooBig: s.TooBig, Overtaken: s.Overtaken, Purged: s.Purged,
	}
	if m := c.fleet.Load(); m != nil {
		out.Fleet = m.stats()
	}
	return out
}

func (c *Cache) detachAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.flights {
		c.detachLocked(key)
	}
}

// detachLocked makes the flights of key unknown to who comes after. c.mu must
// be held.
func (c *Cache) detachLocked(key responses.Key) {
	for _, f := range c.flights[key] {
		f.listed = false
	}
	delete(c.flights, key)
}

// detachBelowLocked does so with the flights whose calls began before the fence. A
// flight that still asks the fleet stays listed: it learns of the change itself.
// c.mu must be held.
func (c *Cache) detachBelowLocked(key responses.Key, fence uint64) {
	for _, f := range slices.Clone(c.flights[key]) {
		if !f.asking && f.root < fence {
			c.unlistLocked(f)
		}
	}
}

// findLocked returns the flight that a request of that group joins, or nil.
// c.mu must be held.
func (c *Cache) findLocked(key responses.Key, g group) *flight {
	for _, f := range c.flights[key] {
		if f.group == g {
			return f
		}
	}
	return nil
}

// listLocked makes f known under its key. c.mu must be held.
func (c *Cache) listLocked(f *flight) {
	f.listed = true
	c.flights[f.key] = append(c.flights[f.key], f)
}

// unlistLocked takes f out, if it is known. c.mu must be held.
func (c *Cache) unlistLocked(f *flight) {
	if !f.listed {
		return
	}
	f.listed = false
	left := slices.DeleteFunc(c.flights[f.key], func(o *flight) bool { return o == f })
	if len(left) == 0 {
		delete(c.flights, f.key)
		return
	}
	c.flights[f.key] = left
}
