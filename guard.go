package weir

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/gather"
	"github.com/weir-go/weir/internal/hotkeys"
	"github.com/weir-go/weir/internal/inflight"
)

// A Guard wraps an expensive function and calls it as rarely as its Options
// allow. Make one with [New] or [NewFrom]; the zero Guard is not usable. It is
// safe for concurrent use. An idle Guard owns no goroutine and no timer;
// [Guard.Close] ends what is running.
//
// Keys are compared with ==. Whatever decides the answer (tenant, language,
// permissions) belongs in the key.
type Guard[K comparable, V any] struct {
	o     Options
	src   Source[K, V]
	base  time.Time // instants count from here
	store *otter.Cache[K, *entry[V]]
	count counters

	hot    *hotkeys.Sketch[K] // nil without Options.HotKeys
	fleet  *fleetClient[K, V] // nil without a fleet
	closed atomic.Bool        // written under the table's lock; atomic for the paths that do not take it
	idle   chan struct{}      // closed when the Guard is closed and no load runs
	stored atomic.Uint64      // entries written, see trim

	// flights has the lock that guards all changes to a key's flight and entry,
	// and the fields below. Fresh hits do not take it.
	flights    inflight.Table[K, outcome[V]]
	seq        uint64          // guarded by flights: invalidations by tag so far
	tags       map[string]*tag // guarded by flights: the tags that entries may have
	changes    changes[K]      // guarded by flights: the keys and tags that Restore must leave alone
	tagFloor   uint64          // guarded by flights: a tag that is not in tags counts as invalidated then; see sweepTagsLocked
	tagSweep   int             // guarded by flights: the size of tags that triggers a sweep
	refreshing int             // guarded by flights: background loads
	stuck      int             // guarded by flights: loads beyond the hard timeout
	batches    *gather.Queue   // guarded by flights: the gathering loads, and the places of bulk loads; nil without Options.Batch
	telling    int             // guarded by flights: loads that have ended, while the Observer is being called
	clears     uint64          // guarded by flights: Clears so far
	clearing   int             // guarded by flights: Clears that are emptying the store

	loads inspect.Histogram // of the user's function
	waits inspect.Histogram // of calls for a load
}

// An outcome is a load's result for one key.
type outcome[V any] struct {
	crowd     admit.Crowd // guarded by the table's lock: callers that wait; only with a Limiter, or from within other loads
	entry     *entry[V]   // also when it was not stored
	overtaken bool        // one of the entry's tags was invalidated since the load began
	fromTier  bool        // another instance has loaded it
	at        instant     // with fromTier: when it was received
	late      instant     // if not 0: the fleet knows of a newer change, and callers that came from then on must look again
}

// New returns a Guard around load. It returns all faults of o at once, each an
// *OptionError.
func New[K comparable, V any](load func(ctx context.Context, key K) (V, error), o Options) (*Guard[K, V], error) {
	return NewFrom(Source[K, V]{Load: load}, o)
}

// NewFrom is New for a Source with more than one function.
func NewFrom[K comparable, V any](s Source[K, V], o Options) (*Guard[K, V], error) {
	if err := errors.Join(s.validate(o), o.Validate()); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	bound := &otter.Options[K, *entry[V]]{MaximumSize: o.MaxEntries}
	if o.MaxWeight > 0 {
		bound = &otter.Options[K, *entry[V]]{
			MaximumWeight: o.MaxWeight,
			Weigher:       func(_ K, e *entry[V]) uint32 { return e.weight },
		}
	}
	g := &Guard[K, V]{
		o:        o,
		src:      s,
		base:     time.Now(),
		count:    counters{hits: newStriped()},
		idle:     make(chan struct{}),
		tags:     make(map[string]*tag),
		tagSweep: minTagSweep,
	}
	if s.Cost != nil {
		g.count.costHits = newStriped()
	}
	bound.OnAtomicDeletion = g.deleted
	if o.ReportEvictions && o.Observer != nil {
		bound.OnDeletion = g.reportEviction
	}
	var err error
	if g.store, err = otter.New(bound); err != nil {
		return nil, err
	}
	g.o.Classify = g.classifier(o.Classify)
	if b := o.Batch; b.MaxSize > 0 {
		g.batches = gather.NewQueue(b.MaxSize, b.MaxParallel, b.Linger)
	}
	if o.HotKeys > 0 {
		g.hot = hotkeys.New[K](o.HotKeys, 0)
	}
	if err := g.joinFleet(); err != nil {
		return nil, err
	}
	return g, nil
}

// Must returns v, and panics if err is not nil. Use it for Guards and limiters
// whose options are constants in the program: Must(New(load, Options{...})).
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// clock returns the present instant.
func (g *Guard[K, V]) clock() instant { return instant(time.Since(g.base)) }

// lookup returns the entry for key in memory; nil if there is none, or if one
// of its tags was invalidated.
func (g *Guard[K, V]) lookup(key K) *entry[V] {
	e, ok := g.store.GetIfPresent(key)
	if !ok || e.outdated() {
		return nil
	}
	return e
}

// checkKey returns ErrKey for a key that could never be found again. An
// interface key whose dynamic type has no == panics here, as in a map, before
// any lock is taken.
func checkKey[K comparable](key K) error {
	if key != key {
		return ErrKey
	}
	return nil
}
