package weirhttp

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// DefaultCacheBytes is the bound of the Cache of a Handler whose Options have none.
const DefaultCacheBytes = 64 << 20

// MinCacheBytes is the smallest bound of a Cache.
const MinCacheBytes = 1 << 20

// A Cache stores responses and tracks flights. Handlers for the same URLs share one,
// so that a PUT through one of them invalidates what another has stored. It is safe
// for concurrent use. Without a fleet and a folder there is nothing to close.
type Cache struct {
	bytes int64
	store *responses.Store
	hints *sharingHints

	mu      sync.Mutex
	flights map[responses.Key][]*flight // guarded by mu; the flights that can be joined

	ahead budget      // for the bodies that are read before admission, and those of reads
	reads atomic.Bool // a read with a body was looked up, so a purge has to look for more of them
	// readsInFleet: responses to reads with a body may be in the fleet.
	readsInFleet atomic.Bool

	// folder is nil without a folder. It is atomic because each miss reads it.
	folder atomic.Pointer[disk.Store]

	joining sync.Mutex // held by JoinFleet, OpenFolder and Close
	// use is whose responses c has. guarded by joining
	use cacheUse
	// fleet is nil without a fleet. It is atomic because each hit reads it.
	fleet atomic.Pointer[fleetClient]
	// left is a time in ns: responses that were checked before it may have been purged
	// by instances of a fleet that c has left. It is atomic because each hit reads it.
	left atomic.Int64
}

// NewCache returns a Cache bounded by bytes. The bound covers everything that it
// keeps and the buffers of calls in flight. The error is an *OptionError if bytes is
// below MinCacheBytes.
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

// Invalidate removes the responses of one URL, with all variants and for all bodies, here and in the
// fleet of c, and returns how many there were here. A running call for the URL stores
// nothing, and no request joins it any more. scheme is "http" or "https"; host is as
// clients send it, and each spelling is a separate entry (decision 0026); target is
// path and query.
//
// After it returns without an error, no instance gets from the fleet what was fetched
// before, and the others drop their copies when the push arrives. With an error, the
// invalidation is done here but not everywhere. If the error is a
// *fleet.PendingError, the invalidation is queued until the Tier acknowledges it.
// Until then c takes no responses from the fleet that it affects, and others may
// serve their copies until they expire. With a folder, it is durable there as well; an
// error that does not match a *fleet.PendingError can mean that it is not. ctx is for
// the Tier and the folder; without both there is no error.
func (c *Cache) Invalidate(ctx context.Context, scheme, host, target string) (int, error) {
	return c.purge(ctx, responses.Key{Scheme: scheme, Host: host, Target: target}, false)
}

// Expire makes the responses of one URL stale, and keeps their stale-if-error window.
// The response of a running call is stale as well. Otherwise it is
// [Cache.Invalidate].
func (c *Cache) Expire(ctx context.Context, scheme, host, target string) (int, error) {
	return c.purge(ctx, responses.Key{Scheme: scheme, Host: host, Target: target}, true)
}

func (c *Cache) purge(ctx context.Context, key responses.Key, expire bool) (int, error) {
	n := c.purgeHere(key, expire)
	var err error
	if m := c.fleet.Load(); m != nil {
		err = m.purge(ctx, key, expire)
	}
	return n, cmp.Or(err, c.durable(ctx))
}

// purgeHere is purge on this instance only.
func (c *Cache) purgeHere(key responses.Key, expire bool) int {
	n := c.store.Purge(key, expire) + c.purgeReadsHere(key, expire)
	c.detach(key)
	return n
}

// purgeFor invalidates key, the key of w, for the unsafe request whose response w may
// store.
func (c *Cache) purgeFor(key responses.Key, w *responses.Write) {
	c.store.PurgeFor(w)
	c.purgeReadsHere(key, false)
	c.detach(key)
	_ = c.durable(context.Background()) // the folder counts an error
}

// purgeReadsHere purges the responses to reads with a body of a URL. They carry its tag
// (readTag). It returns their number.
func (c *Cache) purgeReadsHere(url responses.Key, expire bool) int {
	if !c.reads.Load() {
		return 0 // a read that begins from here on sees what the purge is about
	}
	tag := readTag(url)
	n := c.store.PurgeReads(expire, tag)
	c.detachReads(tag)
	return n
}

// detachReads hides the flights of reads with a body that carry the tag.
func (c *Cache) detachReads(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.flights {
		if key.Body != "" && readTag(key) == tag {
			c.detachLocked(key)
		}
	}
}

// InvalidateTags removes all responses that carry one of the tags (Surrogate-Key or
// Cache-Tag), here and in the fleet. The tags of running calls are not known yet, so
// no request joins a call that began before. The error is that of [Cache.Invalidate].
// An empty tag is ignored: no response carries it.
func (c *Cache) InvalidateTags(ctx context.Context, tags ...string) error {
	return c.purgeTags(ctx, false, tags)
}

// ExpireTags makes all responses that carry one of the tags stale, and keeps their
// stale-if-error window. Otherwise it is [Cache.InvalidateTags].
func (c *Cache) ExpireTags(ctx context.Context, tags ...string) error {
	return c.purgeTags(ctx, true, tags)
}

func (c *Cache) purgeTags(ctx context.Context, expire bool, tags []string) error {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return tag == "" }) // it would mean everything
	if len(tags) == 0 {
		return nil
	}
	return c.purgeTagged(ctx, expire, tags...)
}

// purgeTagged is purgeTags; a single "" means everything.
func (c *Cache) purgeTagged(ctx context.Context, expire bool, tags ...string) error {
	c.purgeTagsHere(expire, tags...)
	var err error
	if m := c.fleet.Load(); m != nil {
		err = m.purgeTags(ctx, expire, tags...)
	}
	return cmp.Or(err, c.durable(ctx))
}

// InvalidateAll removes everything, here and in the fleet. The error is that of
// [Cache.Invalidate].
func (c *Cache) InvalidateAll(ctx context.Context) error { return c.purgeTagged(ctx, false, "") }

// ExpireAll makes everything stale, here and in the fleet, and keeps the
// stale-if-error windows. It visits every response. The error is that of
// [Cache.Invalidate].
func (c *Cache) ExpireAll(ctx context.Context) error { return c.purgeTagged(ctx, true, "") }

// purgeTagsHere is purgeTags on this instance only; a single "" means everything.
func (c *Cache) purgeTagsHere(expire bool, tags ...string) {
	switch {
	case len(tags) == 1 && strings.HasPrefix(tags[0], readTagMark):
		c.store.PurgeReads(expire, tags[0])
		c.detachReads(tags[0])
		return
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
	out.Folder = c.folderStats()
	return out
}

// detach hides the flights of key from later requests.
func (c *Cache) detach(key responses.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachLocked(key)
}

func (c *Cache) detachAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.flights {
		c.detachLocked(key)
	}
}

// detachLocked hides the flights of key from later requests. c.mu must be held.
func (c *Cache) detachLocked(key responses.Key) {
	for _, f := range c.flights[key] {
		f.listed = false
	}
	delete(c.flights, key)
}

// detachBelowLocked hides the flights of key whose calls began before the fence. A
// flight that is still waiting for the fleet stays listed: it learns of the change
// itself. c.mu must be held.
func (c *Cache) detachBelowLocked(key responses.Key, fence uint64) {
	for _, f := range slices.Clone(c.flights[key]) {
		if f.phase != phaseAsking && f.root < fence {
			c.unlistLocked(f)
		}
	}
}

// findLocked returns the flight that a request of group g joins, or nil. c.mu must be
// held.
func (c *Cache) findLocked(key responses.Key, g group) *flight {
	for _, f := range c.flights[key] {
		if f.group == g {
			return f
		}
	}
	return nil
}

// learn updates the hint of a key and regroups its flights, see
// sharingHints.learn.
func (c *Cache) learn(key responses.Key, r *rfc9111.Response, with rfc9111.Credentials, now time.Time, relearn time.Duration) {
	if c.hints.learn(key, r, with, now, relearn) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.regroupLocked(key)
	}
}

// regroupLocked puts the flights of key whose head has not arrived into the groups of the
// requests that come from now on, which know other fields by which its responses vary.
// Otherwise they could not join. c.mu must be held.
func (c *Cache) regroupLocked(key responses.Key) {
	for _, f := range c.flights[key] {
		if len(f.waiting) == 0 {
			continue // its head has arrived, or no request waits for it
		}
		// The call of f may be changing the header fields of its request by now.
		w := f.waiting[max(0, slices.IndexFunc(f.waiting, func(w *joiner) bool { return w.leader }))]
		f.group.selected = f.group.handler.selects(key, &w.q)
	}
}

// listLocked lists f under its key. c.mu must be held.
func (c *Cache) listLocked(f *flight) {
	f.listed = true
	c.flights[f.key] = append(c.flights[f.key], f)
}

// unlistLocked removes f from the list, if it is listed. c.mu must be held.
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
