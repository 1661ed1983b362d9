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
	"github.com/weir-go/weir/internal/member"
	"github.com/weir-go/weir/internal/plain"
	"github.com/weir-go/weir/internal/responses"
)

// FleetOptions let several instances share one Cache, through a fleet.Tier: what
// one has fetched the others have too, one call runs for all of them, and a
// purge reaches all. Without a Tier there is no fleet.
//
// Nothing enters the Tier that may not be given to whoever asks: no answer that
// could not be stored, none to credentials that a Policy compares. When the Tier
// is unavailable each instance goes on by itself.
type FleetOptions struct {
	// Tier is what the instances share. It should have a breaker, see
	// fleet.WithBreaker. It is not closed.
	Tier fleet.Tier
	// Namespace keeps apart what shares a Tier. Instances of one namespace must
	// stand before the same origin. Empty means "http".
	Namespace string
	// Lease is how long an instance that died holds the others back. It is
	// extended while a call runs. 0 means 3 s, from 100 ms to 1 h.
	Lease time.Duration
	// MaxObject is up to which size a body goes into the Tier. What is bigger
	// each instance fetches for itself. 0 means 256 KiB, at most 64 MiB.
	MaxObject int64
	// MemoryCap is how long an instance uses its own copy before it asks the Tier
	// whether there is something newer: as late it may see a purge of which it
	// was not told. While the Tier is unavailable its copies live as long as without
	// a fleet. 0 means 60 s, at least 1 s.
	MemoryCap time.Duration
	// Keep is how long the Tier keeps an answer at most. 0 means 24 h.
	Keep time.Duration
	// Cooling is how long nobody else calls after a call has failed, where there
	// is something stale to be given. It doubles with each failure in a row, up
	// to MaxCooling. 0 means 1 s, and 30 s.
	Cooling, MaxCooling time.Duration
	// Logger gets a line when the Tier has not acknowledged a purge, and when it
	// has acknowledged all of them. Nil means no log.
	Logger *slog.Logger
}

// Defaults and bounds of FleetOptions.
const (
	DefaultFleetLease  = 3 * time.Second
	DefaultFleetObject = 256 << 10
	DefaultMemoryCap   = 60 * time.Second
	DefaultFleetKeep   = 24 * time.Hour
	DefaultCooling     = time.Second
	DefaultMaxCooling  = 30 * time.Second
	maxFleetObject     = 64 << 20
	minFleetLease      = 100 * time.Millisecond
	defaultNamespace   = "http"
)

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError, or nil. Without a Tier nothing is looked at.
func (o FleetOptions) Validate() error {
	if o.Tier == nil {
		return nil
	}
	var faults []error
	check := func(ok bool, field string, value any, bound string) {
		if !ok {
			faults = append(faults, &OptionError{"FleetOptions." + field, value, bound})
		}
	}
	within := func(field string, d, low, high time.Duration) {
		check(d == 0 || d >= low && d <= high, field, d, fmt.Sprintf("from %v to %v", low, high))
	}
	const year = 366 * 24 * time.Hour
	check(len(o.Namespace) <= fleet.MaxName, "Namespace", len(o.Namespace), "at most 4096 bytes")
	within("Lease", o.Lease, minFleetLease, fleet.MaxLease)
	check(o.MaxObject >= 0 && o.MaxObject <= maxFleetObject, "MaxObject", o.MaxObject, "from 0 to 64 MiB")
	within("MemoryCap", o.MemoryCap, time.Second, year)
	within("Keep", o.Keep, time.Second, year)
	within("Cooling", o.Cooling, time.Millisecond, time.Hour)
	within("MaxCooling", o.MaxCooling, max(cmp.Or(o.Cooling, DefaultCooling), time.Millisecond), 24*time.Hour)
	return errors.Join(faults...)
}

func (o FleetOptions) withDefaults() FleetOptions {
	o.Namespace = cmp.Or(o.Namespace, defaultNamespace)
	o.Lease = cmp.Or(o.Lease, DefaultFleetLease)
	o.MaxObject = cmp.Or(o.MaxObject, DefaultFleetObject)
	o.MemoryCap = cmp.Or(o.MemoryCap, DefaultMemoryCap)
	o.Keep = cmp.Or(o.Keep, DefaultFleetKeep)
	o.Cooling = cmp.Or(o.Cooling, DefaultCooling)
	o.MaxCooling = cmp.Or(o.MaxCooling, max(DefaultMaxCooling, o.Cooling))
	return o
}

// ErrFleet is matched by errors that say that a Cache is in a fleet already, or
// in another one.
var ErrFleet = errors.New("weirhttp: the cache is in another fleet")

// ErrLongURL says that a purge has not reached the fleet since the URL is too
// long for it. No instance shares what is stored for such a URL.
var ErrLongURL = errors.New("weirhttp: the URL is too long for the fleet")

// A membership is a Cache's part in a fleet.
type membership struct {
	o      FleetOptions // with defaults
	cache  *Cache
	member *member.Member
	// epoch is the instant (in ns) before which everything that the store holds
	// has to be checked: pushes may have been missed. An atomic, as each hit
	// reads it.
	epoch atomic.Int64
}

// codec is the name of what the Tier's values are written in.
const codec = "http/1"

// JoinFleet makes c a member of a fleet, for all Handlers whose Options.Fleet
// say the same; until [Cache.LeaveFleet]. New does so, for a Handler with a
// Fleet; who has several Handlers over one Cache calls it first, and leaves when
// the last of them is closed. It may be called again with the same options; with
// others the error matches [ErrFleet].
func (c *Cache) JoinFleet(o FleetOptions) error {
	_, _, err := c.join(o)
	return err
}

// join returns c's membership, and whether it is a new one.
func (c *Cache) join(o FleetOptions) (m *membership, fresh bool, err error) {
	if err := o.Validate(); err != nil || o.Tier == nil {
		return nil, false, err
	}
	o = o.withDefaults()
	c.joining.Lock()
	defer c.joining.Unlock()
	if m := c.fleet.Load(); m != nil {
		if m.o != o {
			return nil, false, ErrFleet
		}
		return m, false, nil
	}
	m = &membership{o: o, cache: c}
	m.member, err = member.New(member.Options{
		Tier: o.Tier, Namespace: o.Namespace, Lease: o.Lease, Keep: o.Keep, Codec: codec,
		Hooks: member.Hooks{Changed: m.changed, Tagged: m.tagged, Reset: m.reset, Pending: m.pending},
	})
	if err != nil {
		return nil, false, fmt.Errorf("weirhttp: fleet: %w", err)
	}
	m.reset() // what was stored before is not known to be true
	c.fleet.Store(m)
	return m, true, nil
}

// LeaveFleet ends what JoinFleet began, sends purges that the Tier has not
// acknowledged a last time, and waits until ctx ends for that and for leases that
// are being given up. What is stored stays. If purges are still not acknowledged,
// the error is a *fleet.PendingError: they are lost, and other instances serve what
// was purged until it expires.
func (c *Cache) LeaveFleet(ctx context.Context) error {
	c.joining.Lock()
	m := c.fleet.Swap(nil)
	c.joining.Unlock()
	if m == nil {
		return nil
	}
	return m.member.Close(ctx)
}

// changed is of member.Hooks.
func (m *membership) changed(name string, fence uint64, removed bool) {
	key, place, ok := parseName(name)
	if !ok {
		return
	}
	m.cache.store.Supersede(key, place, fence, removed)
	if removed && place == 0 {
		m.cache.mu.Lock()
		m.cache.detachBelowLocked(key, fence)
		m.cache.mu.Unlock()
	}
}

// tagged is of member.Hooks: the tag "" is everything.
func (m *membership) tagged(tag string) {
	if tag == "" {
		m.cache.clear()
		return
	}
	m.cache.purgeTags(false, tag)
}

// reset is of member.Hooks.
func (m *membership) reset() { m.epoch.Store(time.Now().UnixNano()) }

// purge purges key for the others, and here what was read before they knew.
func (m *membership) purge(ctx context.Context, key responses.Key, soft bool) error {
	name, ok := nameOf(key)
	if !ok {
		return ErrLongURL
	}
	fence, err := m.member.Write(ctx, name, fleet.Write{Expire: soft})
	if err != nil {
		m.cache.purge(key, soft) // what was read of the Tier meanwhile
		return notInFleet(err)
	}
	m.changed(name, fence, !soft)
	return nil
}

// purgeTags does so for tags, "" for everything. That a purge is soft is not
// told: for the fleet it is a whole one.
func (m *membership) purgeTags(ctx context.Context, tags ...string) error {
	err := m.member.InvalidateTags(ctx, tags...)
	for _, tag := range tags { // what was read of the tier meanwhile
		m.tagged(tag)
	}
	if err != nil {
		return notInFleet(err)
	}
	return nil
}

func notInFleet(err error) error {
	return fmt.Errorf("weirhttp: purged here, but not in the fleet: %w", err)
}

// pending is of member.Hooks.
func (m *membership) pending(p member.Pending) {
	if m.o.Logger == nil {
		return
	}
	log := plain.Logger(m.o.Logger)
	switch {
	case p.Count > 0:
		log.Warn("purges are not acknowledged by the fleet; they are queued, and what they touch is not taken from it",
			"namespace", m.o.Namespace, "pending", p.Count, "all_reads_blocked", p.Blocked, "error", p.Err)
	default:
		log.Info("all queued purges are acknowledged by the fleet", "namespace", m.o.Namespace)
	}
}

// due reports whether s, which is in the store, has to be checked before it is
// used: the fleet may have something newer. big and long ones are not shared, so
// there is nothing to ask after some time.
func (h *Handler) due(s *responses.Stored, key responses.Key, now time.Time, capped bool) bool {
	m := h.cache.fleet.Load()
	if m == nil {
		return false
	}
	checked := s.Checked.Load()
	if checked < m.epoch.Load() {
		return true
	}
	return capped && h.fleet != nil && now.UnixNano()-checked > int64(m.o.MemoryCap) &&
		(s.Fence.Load() != 0 || int64(len(s.Body)) <= m.o.MaxObject && fits(key))
}
