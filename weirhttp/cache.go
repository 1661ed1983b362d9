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
	bytes   int64
	store   *responses.Store
	lessons *lessons

	mu      sync.Mutex
	flights map[responses.Key][]*flight // guarded by mu; those that can be joined

	ahead budget // of the bodies that are read before admission

	joining sync.Mutex // of JoinFleet and LeaveFleet
	// fleet is nil without one. An atomic, as each hit reads it.
	fleet atomic.Pointer[membership]
}

// NewCache returns a Cache that is bounded by bytes: everything that it keeps
// counts, and what calls in flight hold in buffers. The error is an
// *OptionError if bytes is below MinCacheBytes.
func NewCache(bytes int64) (*Cache, error) {
	if bytes < MinCacheBytes {
		return nil, &OptionError{"bytes", bytes, "at least 1 MiB (1048576)"}
	}
	return &Cache{
		bytes:   bytes,
		store:   responses.New(responses.Options{Bytes: bytes}),
		lessons: newLessons(),
		flights: make(map[responses.Key][]*flight),
	}, nil
}

// Purge removes the responses of one URL, with all variants, or with soft marks
// them stale, which keeps their stale-if-error window. A call that is in flight
// stores nothing, and nobody joins it any more. It returns how many responses
// there were. scheme is "http" or "https"; host as clients send it: each
// spelling is an entry of its own (decision 0026); target is path and query. In a fleet it is PurgeFleet, of which it does not tell the
// error.
func (c *Cache) Purge(scheme, host, target string, soft bool) int {
	n, _ := c.PurgeFleet(context.Background(), scheme, host, target, soft)
	return n
}

// PurgeFleet is Purge for all instances of the fleet that c is in. When it
// returns no error, none is served from the fleet what was fetched before, and
// the others drop their copies as soon as they are told. An error says that
// it was purged here, and not everywhere. If it is a *fleet.PendingError, the purge
// is queued until the Tier acknowledges it: meanwhile c takes nothing from the
// fleet that it touches, and others may serve their copies until they expire.
func (c *Cache) PurgeFleet(ctx context.Context, scheme, host, target string, soft bool) (int, error) {
	key := responses.Key{Scheme: scheme, Host: host, Target: target}
	n := c.purge(key, soft)
	if m := c.fleet.Load(); m != nil {
		return n, m.purge(ctx, key, soft)
	}
	return n, nil
}

// purge is Purge for this instance.
func (c *Cache) purge(key responses.Key, soft bool) int {
	n := c.store.Purge(key, soft)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachLocked(key)
	return n
}

// PurgeTags does so for all responses that carry one of the tags (Surrogate-Key
// or Cache-Tag). Which tags a call in flight will bring is not known, so nobody
// joins those any more that began before. In a fleet it is PurgeTagsFleet, of
// which it does not tell the error.
func (c *Cache) PurgeTags(soft bool, tags ...string) {
	_ = c.PurgeTagsFleet(context.Background(), soft, tags...)
}

// PurgeTagsFleet is PurgeTags for all instances of the fleet that c is in. There
// a soft purge removes as well. The error is as of PurgeFleet.
func (c *Cache) PurgeTagsFleet(ctx context.Context, soft bool, tags ...string) error {
	c.purgeTags(soft, tags...)
	if m := c.fleet.Load(); m != nil && len(tags) > 0 {
		return m.purgeTags(ctx, tags...)
	}
	return nil
}

func (c *Cache) purgeTags(soft bool, tags ...string) {
	c.store.PurgeTags(soft, tags...)
	c.detachAll()
}

// Clear removes everything. In a fleet it is ClearFleet, of which it does not
// tell the error.
func (c *Cache) Clear() { _ = c.ClearFleet(context.Background()) }

// ClearFleet is Clear for all instances of the fleet that c is in. The error is
// as of PurgeFleet.
func (c *Cache) ClearFleet(ctx context.Context) error {
	c.clear()
	if m := c.fleet.Load(); m != nil {
		return m.purgeTags(ctx, "")
	}
	return nil
}

func (c *Cache) clear() {
	c.store.Clear()
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

// detachBelowLocked does so with those whose calls began before the fence. One
// that still asks the fleet is told itself. c.mu must be held.
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
