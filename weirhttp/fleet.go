package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/plain"
)

// FleetOptions let several instances share one Cache through a fleet.Tier. All
// instances have the responses that one has fetched, one call runs for all of them,
// and a purge reaches all of them. Without a Tier there is no fleet.
//
// Only responses that may be served to every client enter the Tier: no response that
// could not be stored, and no response to credentials that a Policy compares. While
// the Tier is unavailable, each instance continues alone.
type FleetOptions struct {
	// Config says what is shared, and for how long. The instances of one Namespace
	// must have the same origin; empty means "http". While the Tier is unavailable,
	// stored responses live as long as without a fleet.
	fleet.Config

	// MaxObject is the maximum size of a body in the Tier. Each instance fetches
	// larger ones for itself. 0 means 256 KiB, at most 64 MiB.
	MaxObject int64
	// Logger gets a line when the Tier fails to acknowledge a purge, and when it has
	// acknowledged all of them. Nil means no log.
	Logger *slog.Logger
}

// Defaults and bounds of FleetOptions.
const (
	DefaultFleetObject = 256 << 10 // of FleetOptions.MaxObject, in bytes
	maxFleetObject     = 64 << 20
	defaultNamespace   = "http"
)

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError; or nil. Without a Tier only Logger and MaxObject may be set.
func (o FleetOptions) Validate() error {
	f := option.Faults{Package: "weirhttp", Prefix: "FleetOptions."}
	f.Adopt("", "Config.", o.Config.Validate())
	f.Check(o.MaxObject >= 0 && o.MaxObject <= maxFleetObject, "MaxObject", o.MaxObject, "from 0 to 64 MiB")
	return f.Err()
}

func (o FleetOptions) withDefaults() FleetOptions {
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	o.Config = o.Config.WithDefaults()
	o.MaxObject = cmp.Or(o.MaxObject, DefaultFleetObject)
	return o
}

// ErrFleet is matched by the error of a Cache that is already in a fleet with other
// options.
var ErrFleet = errors.New("weirhttp: the cache is in another fleet")

// ErrLongURL means that a purge has not reached the fleet because the URL is too long
// for it. Instances do not share responses for such a URL.
var ErrLongURL = errors.New("weirhttp: the URL is too long for the fleet")

// A fleetClient connects the Cache to a fleet.
type fleetClient struct {
	o      FleetOptions // with defaults
	cache  *Cache
	client *fleetclient.Client
	// epoch is a time in ns. Stored responses that were checked before it have to be
	// checked again, because pushes may have been missed. It is atomic because each
	// hit reads it.
	epoch atomic.Int64
}

// codec names the encoding of the values in the Tier.
const codec = "http/1"

// JoinFleet makes c a member of a fleet until [Cache.Close], for all Handlers with
// the same Options.Fleet. New calls it for a Handler with a Fleet. With several
// Handlers over one Cache, call JoinFleet first, and Close when the last of them is
// closed. It may be called again with the same options; with others the error matches
// [ErrFleet].
func (c *Cache) JoinFleet(o FleetOptions) error {
	_, _, err := c.join(o)
	return err
}

// join returns c's fleetClient, and whether it is new.
func (c *Cache) join(o FleetOptions) (m *fleetClient, fresh bool, err error) {
	if err := o.Validate(); err != nil || o.Tier == nil {
		return nil, false, err
	}
	o = o.withDefaults()
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.use == usedPrivately {
		return nil, false, ErrPrivateCache
	}
	if m := c.fleet.Load(); m != nil {
		if m.o != o {
			return nil, false, ErrFleet
		}
		return m, false, nil
	}
	m = &fleetClient{o: o, cache: c}
	m.client, err = fleetclient.New(fleetclient.Options{
		Tier: o.Tier, Namespace: o.Namespace, Lease: o.Lease, Keep: o.MaxKeep, Codec: codec,
		PushValue: o.Pushed(), PushMemory: o.PushMemory, MemoryCap: o.MemoryCap,
		Hooks: fleetclient.Hooks{Changed: m.changed, Tagged: m.tagged, Expired: m.expired, Reset: m.reset, Pending: m.pending},
	})
	if err != nil {
		return nil, false, fmt.Errorf("weirhttp: fleet: %w", err)
	}
	m.reset() // responses that were stored before may be out of date
	c.fleet.Store(m)
	return m, true, nil
}

// Close leaves the fleet and closes the folder. It sends purges that the Tier has not acknowledged one last
// time, and waits until ctx ends for that and for leases that are being released.
// What is stored stays; responses from before a Close that left a fleet count as stale, because
// others may have purged them. If purges are still not acknowledged, the
// error is a *fleet.PendingError: they are lost, and other instances serve what was
// purged until it expires. The queue of the folder is written until ctx
// ends. Without a fleet and a folder Close does nothing. It may be called again.
func (c *Cache) Close(ctx context.Context) error {
	c.joining.Lock()
	if c.fleet.Load() != nil {
		c.left.Store(time.Now().UnixNano())
	}
	m, d := c.fleet.Swap(nil), c.folder.Load()
	c.joining.Unlock()
	var err error
	if m != nil {
		err = m.client.Close(ctx)
	}
	if d != nil { // last: what is purged until then is durable
		err = cmp.Or(err, d.Close(ctx))
	}
	return err
}

// changed implements fleetclient.Hooks.
func (c *fleetClient) changed(name string, fence uint64, removed bool) {
	key, place, ok := parseName(name)
	if !ok {
		return
	}
	c.cache.store.Supersede(key, place, fence, removed)
	if removed && place == 0 && key.Body == "" {
		c.cache.purgeReadsHere(key, false)
	}
	if removed && place == 0 {
		c.cache.mu.Lock()
		c.cache.detachBelowLocked(key, fence)
		c.cache.mu.Unlock()
	}
}

// tagged implements fleetclient.Hooks; the tag "" means everything.
func (c *fleetClient) tagged(tag string) { c.cache.purgeTagsHere(false, tag) }

// expired implements fleetclient.Hooks, likewise.
func (c *fleetClient) expired(tag string) { c.cache.purgeTagsHere(true, tag) }

// reset implements fleetclient.Hooks.
func (c *fleetClient) reset() { c.epoch.Store(time.Now().UnixNano()) }

// purge invalidates or expires key in the fleet, and then here the responses that
// were read from the Tier in between.
func (c *fleetClient) purge(ctx context.Context, key responses.Key, expire bool) (err error) {
	name, ok := nameOf(key)
	if !ok {
		return ErrLongURL
	}
	if c.cache.readsInFleet.Load() && key.Body == "" {
		order := c.client.InvalidateTags
		if expire {
			order = c.client.ExpireTags
		}
		defer func() {
			if also := order(ctx, readTag(key)); also != nil {
				err = cmp.Or(err, notInFleet(also))
			}
		}()
	}
	fence, err := c.client.Write(ctx, name, fleet.Write{Expire: expire})
	if err != nil {
		c.cache.purgeHere(key, expire) // drops responses read from the Tier in the meantime
		return notInFleet(err)
	}
	c.changed(name, fence, !expire)
	return nil
}

// purgeTags is purge for tags, "" for everything.
func (c *fleetClient) purgeTags(ctx context.Context, expire bool, tags ...string) error {
	order := c.client.InvalidateTags
	if expire {
		order = c.client.ExpireTags
	}
	err := order(ctx, tags...)
	c.cache.purgeTagsHere(expire, tags...) // drops responses read from the Tier in the meantime
	if err != nil {
		return notInFleet(err)
	}
	return nil
}

func notInFleet(err error) error {
	return fmt.Errorf("weirhttp: purged here, but not in the fleet: %w", err)
}

// pending implements fleetclient.Hooks.
func (c *fleetClient) pending(p fleetclient.Pending) {
	if c.o.Logger == nil {
		return
	}
	log := plain.Logger(c.o.Logger)
	switch {
	case p.Count > 0:
		log.Warn("purges are not acknowledged by the fleet; they are queued, and responses that they affect are not taken from it",
			"namespace", c.o.Namespace, "pending", p.Count, "all_reads_blocked", p.Blocked, "error", p.Err)
	default:
		log.Info("all queued purges are acknowledged by the fleet", "namespace", c.o.Namespace)
	}
}

// due reports whether s, which is stored, has to be checked before it is used: with the
// fleet, which may have something newer, or with the origin if the Cache has left the
// fleet. Responses that are too big, or whose URL is too long, are not shared, so MemoryCap
// does not apply to them.
func (h *Handler) due(s *responses.Stored, key responses.Key, now time.Time, capped bool) bool {
	m := h.cache.fleet.Load()
	checked := s.Checked.Load()
	if m == nil {
		return checked < h.cache.left.Load()
	}
	if checked < m.epoch.Load() {
		return true
	}
	return capped && h.fleet != nil && now.UnixNano()-checked > int64(m.o.MemoryCap) &&
		(s.Fence.Load() != 0 || int64(len(s.Body)) <= m.o.MaxObject && fits(key))
}
