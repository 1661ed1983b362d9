package weir

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

// A Fleet connects a Guard with the Guards of other instances that have the same
// Tier and Namespace. One load of a key serves all of them; they share its value
// or failure, and every Set and invalidation. Package fleet describes how. All
// of them must have the same source, and keys and values must mean the same to
// all. The zero Fleet is off.
//
// A Set, Invalidate or the like that returns nil holds for all instances. A push
// tells the others, about a millisecond later: their running loads of the key are
// overtaken, and an invalidated value is removed from their memories. A value that
// was replaced or expired is no longer fresh there, and may only be served instead of an
// error, within StaleIfError. An instance that misses the push, because it was lost
// or because the instance is cut off from the Tier, serves its memory as fresh for at
// most MemoryCap, and then only instead of an error. Without the Tier each instance
// continues alone.
//
// A Guard with a Fleet watches the Tier until Close, and serves nothing afterwards.
type Fleet struct {
	// Config says what is shared, and for how long. Its Namespace may be empty if
	// Options.Name is given. Options.FailureMemo is independent of its Cooling, and
	// applies to this instance only.
	fleet.Config

	// Codec turns values into bytes. Nil: fleet.JSON.
	Codec fleet.Codec

	// CancelLost cancels a load whose lease was lost (this instance was paused,
	// or the key was written) with ErrLeaseLost. Otherwise the load continues
	// for the callers that wait here, and its result is not kept.
	CancelLost bool
}

func (f Fleet) withDefaults(name string) Fleet {
	if f.Tier == nil {
		return Fleet{}
	}
	f.Namespace = orDefault(f.Namespace, name)
	f.Config = f.Config.WithDefaults()
	if f.Codec == nil {
		f.Codec = fleet.JSON{}
	}
	return f
}

// fleet checks the options of the Fleet.
func (c *checks) fleet(o Options) {
	f := o.Fleet
	c.Adopt("Options.Fleet.", "Config.", f.Config.Validate())
	if f.Tier == nil {
		c.Check(f == Fleet{Config: f.Config}, "Options.Fleet.Tier", nil, "given with the other fields of Options.Fleet")
		return
	}
	c.Filled("Options.Fleet.Codec", f.Codec)
	c.Check(f.MaxKeep <= 0 || f.MaxKeep >= o.TTL, "Options.Fleet.MaxKeep", f.MaxKeep, fmt.Sprintf("at least the TTL (%v), or fresh values are dropped", o.TTL))
	c.Check(o.TTL <= 0 || f.Cooling <= o.TTL, "Options.Fleet.Cooling", f.Cooling, fmt.Sprintf("at most the TTL (%v), or one failure lasts longer than a value", o.TTL))
	c.Check(f.Namespace != "" || o.Name != "", "Options.Fleet.Namespace", strconv.Quote(""), "given, here or as Options.Name")
	c.Check(f.Namespace != "" || len(o.Name) <= fleet.MaxName, "Options.Name", fmt.Sprintf("%d bytes long", len(o.Name)), "at most "+strconv.Itoa(fleet.MaxName)+" as the Namespace of a Fleet")
	c.Check(o.LoadTimeout >= 0, "Options.LoadTimeout", o.LoadTimeout, "0 (the default) or more with a Fleet, as a load that hangs would keep its lease")
}

// A fleetClient is the Guard's side of its fleet.
type fleetClient[K comparable, V any] struct {
	*fleetclient.Client
	o     Fleet
	names naming[K]
	// format names what the bytes of a value are: the codec, and the type that it has
	// encoded. Guards with another one that share a Namespace by mistake do not decode them.
	format string

	index map[string]K // guarded by the table's lock; keys that may be in memory or loading, if names cannot turn a name back into its key
	sweep int          // guarded by the table's lock: the size of index that triggers a sweep
}

// joinFleet creates the Guard's fleetClient, if its Options have a Fleet.
func (g *Guard[K, V]) joinFleet() error {
	if g.o.Fleet.Tier == nil {
		return nil
	}
	t := &fleetClient[K, V]{o: g.o.Fleet, names: namingOf(g.src.KeyString), index: make(map[string]K), sweep: minTagSweep}
	t.format = t.o.Codec.Name() + " of " + reflect.TypeFor[V]().String()
	g.fleet = t
	g.flights.Splits = true
	m, err := fleetclient.New(fleetclient.Options{
		Tier: t.o.Tier, Namespace: t.o.Namespace, Lease: t.o.Lease, Keep: t.o.MaxKeep, TagKeep: 2 * (t.o.MaxKeep + g.o.LoadTimeout), Recheck: t.o.MemoryCap, Codec: t.format,
		PushValue: t.o.Pushed(), PushMemory: t.o.PushMemory, MemoryCap: t.o.MemoryCap,
		Hooks: fleetclient.Hooks{Changed: g.changedElsewhere, Tagged: g.taggedElsewhere, Expired: g.expiredElsewhere, Reset: g.demoteAll, Pending: g.pendingInFleet},
	})
	t.Client = m
	return err
}

// A naming turns keys into names for the Tier, and names into keys if it can.
type naming[K comparable] struct {
	name func(K) string
	key  func(string) (K, bool) // nil: not possible
}

// namingOf returns the user's naming, or one for strings and integers. For
// other keys the naming has a nil name.
func namingOf[K comparable](user func(K) string) naming[K] {
	if user != nil {
		return naming[K]{name: user}
	}
	switch kind := reflect.TypeFor[K]().Kind(); kind {
	case reflect.String:
		return naming[K]{
			func(k K) string { return reflect.ValueOf(k).String() },
			func(s string) (k K, ok bool) { reflect.ValueOf(&k).Elem().SetString(s); return k, true },
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return naming[K]{
			func(k K) string { return strconv.FormatInt(reflect.ValueOf(k).Int(), 10) },
			func(s string) (k K, ok bool) {
				n, err := strconv.ParseInt(s, 10, 64)
				v := reflect.ValueOf(&k).Elem()
				if err != nil || v.OverflowInt(n) {
					return k, false
				}
				v.SetInt(n)
				return k, true
			},
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return naming[K]{
			func(k K) string { return strconv.FormatUint(reflect.ValueOf(k).Uint(), 10) },
			func(s string) (k K, ok bool) {
				n, err := strconv.ParseUint(s, 10, 64)
				v := reflect.ValueOf(&k).Elem()
				if err != nil || v.OverflowUint(n) {
					return k, false
				}
				v.SetUint(n)
				return k, true
			},
		}
	}
	return naming[K]{}
}

// subscribe subscribes to key: pushes about it count from then on.
func (g *Guard[K, V]) subscribe(key K) *fleetclient.Subscription {
	return g.subscribeName(key, g.nameOf(key))
}

// subscribeName is subscribe for a key whose name is known.
func (g *Guard[K, V]) subscribeName(key K, name string) *fleetclient.Subscription {
	t := g.fleet
	if t.names.key == nil {
		g.flights.Lock()
		g.sweepIndexLocked()
		t.index[name] = key
		g.flights.Unlock()
	}
	return t.Subscribe(name)
}

// sweepIndexLocked drops the names of keys that are neither in memory nor
// loading, if the index is large. The table's lock must be held.
func (g *Guard[K, V]) sweepIndexLocked() {
	t := g.fleet
	if len(t.index) < t.sweep {
		return
	}
	for name, key := range t.index {
		if _, held := g.store.GetEntryQuietly(key); !held && !t.Subscribed(name) {
			delete(t.index, name)
		}
	}
	t.sweep = max(minTagSweep, 2*len(t.index))
}

// keyLocked returns the key that has a name. The table's lock must be held.
func (t *fleetClient[K, V]) keyLocked(name string) (K, bool) {
	if t.names.key != nil {
		return t.names.key(name)
	}
	key, ok := t.index[name]
	return key, ok
}

// changedElsewhere handles changes of keys by other instances.
func (g *Guard[K, V]) changedElsewhere(name string, fence uint64, removed bool) {
	g.flights.Lock()
	defer g.flights.Unlock()
	key, ok := g.fleet.keyLocked(name)
	if !ok {
		return
	}
	// A load that began before is overtaken. One that only waits is not, unless
	// the key was removed: it may have its answer already.
	if f := g.flights.FindLocked(key); f != nil && f.Load().Fence < fence && (removed || f.Load().Fence > 0) {
		g.flights.DetachLocked(key)
	}
	held, ok := g.store.GetEntryQuietly(key)
	switch {
	case !ok:
	case held.Value.fence() >= fence:
		g.reelectLocked(key, g.clock()) // the detached load may have been its refresh
	case removed || held.Value.kind != kindValue || g.clearing > 0:
		g.store.Invalidate(key)
	default:
		g.store.Set(key, held.Value.demoted(g.clock()))
	}
}

// taggedElsewhere handles invalidations by tag by other instances.
func (g *Guard[K, V]) taggedElsewhere(tag string) {
	if tag == "" {
		_ = g.invalidateAll() // fails only if closed, and then nothing loads any more
		return
	}
	_ = g.invalidateTags(tag) // as above
}

// expiredElsewhere handles tags that another instance has expired.
func (g *Guard[K, V]) expiredElsewhere(tag string) {
	if tag == "" {
		_ = g.expireAll() // as above
		return
	}
	_ = g.expireTags(tag) // as above
}

// demoteAll makes all entries in memory stale, because pushes may have been
// missed: they are served only instead of an error.
func (g *Guard[K, V]) demoteAll() {
	g.eachEntry(func(*entry[V]) bool { return true }, func(e *entry[V], now instant) *entry[V] { return e.demoted(now) })
}

// pendingInFleet is called when the Tier has not acknowledged invalidations, and
// when it has acknowledged all of them.
func (g *Guard[K, V]) pendingInFleet(p fleetclient.Pending) {
	kind := EventInvalidationsSent
	if p.Count > 0 {
		kind = EventInvalidationsPending
	}
	g.report(context.Background(), Event{Kind: kind, Err: p.Err})
}

// fence is the fence of the lease or write that made e, 0 if there was none.
func (e *entry[V]) fence() uint64 {
	if e.extra == nil {
		return 0
	}
	return e.extra.fence
}

// demoted returns a copy of e that is served only instead of an error.
func (e *entry[V]) demoted(now instant) *entry[V] {
	c := e.clone()
	c.extra.memo = memo{}
	c.freshUntil = min(e.freshUntil, now)
	c.staleUntil = c.freshUntil
	c.refreshFrom.Store(c.freshUntil)
	return c
}

// capped limits how long memory may serve e to until, except instead of an
// error. e must not be stored yet.
func (e *entry[V]) capped(until instant) {
	e.freshUntil = min(e.freshUntil, until)
	e.staleUntil = max(e.freshUntil, min(e.staleUntil, until))
	if due := e.due(); due != nil {
		due.Store(min(due.Load(), e.freshUntil))
	}
}

// share returns e in the form in which others get it. clock is read after the user's codec,
// which may take long.
func (t *fleetClient[K, V]) share(e *entry[V], tags []string, tagSeq uint64, clock func() instant) (*fleet.Entry, error) {
	v := fleet.Value{
		TTL:    max(0, time.Duration(e.freshUntil-e.loadedAt)),
		SWR:    time.Duration(e.staleUntil - e.freshUntil),
		SIE:    time.Duration(e.errorUntil - e.freshUntil),
		Cost:   time.Duration(e.took.nanoseconds()),
		Weight: e.weight, TagSeq: tagSeq, Tags: tags, Codec: t.format,
	}
	if e.extra != nil {
		v.Version = e.extra.version
	}
	var err error
	if e.kind == kindNegative {
		v.Kind, v.Data = fleet.KindNotFound, []byte(e.extra.err.Error())
	} else if v.Data, err = t.o.Codec.Marshal(e.value); err != nil {
		return nil, err
	}
	data, err := v.AppendBinary(nil)
	now := clock()
	// The Tier keeps it this long for callers elsewhere that wait for this
	// load, fresh or not.
	keep := max(time.Duration(e.errorUntil-now), t.o.Lease)
	return &fleet.Entry{Data: data, Fresh: time.Duration(e.freshUntil - now), Keep: keep}, err
}

// received makes an entry of the Tier's answer to a request that was sent at
// asked. It returns nil if there is no value or it cannot be decoded.
func (g *Guard[K, V]) received(a fleetclient.Answer, asked instant) *entry[V] {
	v := a.Value
	if v == nil {
		return nil
	}
	e := &entry[V]{weight: max(v.Weight, 1), took: newLoadTime(int64(v.Cost)), extra: &extra{fence: a.Entry.Fence, version: v.Version}}
	if v.Kind == fleet.KindNotFound {
		e.kind, e.extra.err = kindNegative, remoteNotFound(v.Data)
	} else if g.decode(v.Data, &e.value) != nil {
		g.count.undecoded.Add(1)
		return nil
	}
	for _, name := range v.Tags { // for a load that renews it; memory has its own tags
		e.extra.tags = append(e.extra.tags, &tag{name: name})
	}
	e.freshUntil = min(asked+int64(a.Entry.Fresh), horizon)
	e.loadedAt = e.freshUntil - int64(v.TTL)
	if fence := a.Entry.Fence; fence < a.Now {
		// If an expiry has ended its freshness, the TTL makes it too old. The lease of its load
		// began at the fence, by the engine's clock.
		since := int64(min(a.Now-fence, math.MaxInt64/1000)) * int64(time.Microsecond) //nolint:gosec // bounded
		e.loadedAt = max(e.loadedAt, min(asked, asked-since+int64(v.Cost)))
	}
	e.staleUntil = later(e.freshUntil, v.SWR)
	e.errorUntil = max(e.staleUntil, later(e.freshUntil, v.SIE))
	if e.kind == kindNegative {
		e.refreshNegative(&g.o)
	} else {
		e.refreshFrom.Store(refreshFrom(&g.o, e))
	}
	return e
}

// remoteNotFound is the error for a key that another instance did not find in
// the source.
func remoteNotFound(text []byte) error {
	if string(text) == ErrNotFound.Error() {
		return ErrNotFound
	}
	return notFound{&fleet.RemoteError{Failure: fleet.Failure{Kind: ClassNotFound.String(), Text: string(text)}}}
}

// failure returns the outcome that the fleet gets for a failed load. pause is for how long the
// source has stated that it must not be called; 0 for no statement.
func (t *fleetClient[K, V]) failure(err error, class Class, pause time.Duration) fleet.Outcome {
	if class == ClassCanceled {
		return fleet.Outcome{}
	}
	kind, text := class.String(), err.Error()
	if pause > 0 {
		kind += statedKind
	}
	o := t.o.Failed(fleet.Failure{Kind: kind, Text: text[:min(len(text), fleet.MaxFailureText)]})
	o.Cool, o.MaxCool = max(o.Cool, pause), max(o.MaxCool, pause)
	return o
}

// unshared returns the outcome that makes other instances load for themselves.
func (t *fleetClient[K, V]) unshared() fleet.Outcome {
	return fleet.Outcome{Failure: fleet.Failure{Kind: fleet.Uncacheable}, Cool: t.o.Lease, MaxCool: t.o.Lease, Remove: true}
}

// writeInFleet changes keys for all instances, several at a time, and returns
// the first error. Without a fleet it does nothing.
func (g *Guard[K, V]) writeInFleet(ctx context.Context, keys []K, w fleet.Write) error {
	if g.fleet == nil || g.closed.Load() {
		return nil
	}
	const atOnce = 64
	errs, slots := make(chan error, len(keys)), make(chan struct{}, atOnce)
	names := make([]string, len(keys)) // all of them first: KeyString may not return
	for i, key := range keys {
		names[i] = g.nameOf(key)
	}
	for _, name := range names {
		slots <- struct{}{}
		go func() { // ends within the Tier's deadline
			err := errExited
			defer func() {
				<-slots
				errs <- err
			}()
			_, err = g.fleet.Write(ctx, name, w)
		}()
	}
	var first error
	for range keys {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// errExited is the error for a write to the Tier during which the user's code, such as
// the context, called runtime.Goexit.
var errExited = errors.New("weir: a write to the tier called runtime.Goexit")

// tagsInFleet invalidates tags for all instances. Without a fleet it does
// nothing.
func (g *Guard[K, V]) tagsInFleet(ctx context.Context, tags ...string) error {
	if g.fleet == nil || g.closed.Load() || len(tags) == 0 {
		return nil
	}
	return g.fleet.InvalidateTags(ctx, tags...)
}

// expireInFleet ends the freshness of tags for all instances. Without a fleet
// it does nothing.
func (g *Guard[K, V]) expireInFleet(ctx context.Context, tags ...string) error {
	if g.fleet == nil || g.closed.Load() || len(tags) == 0 {
		return nil
	}
	return g.fleet.ExpireTags(ctx, tags...)
}
