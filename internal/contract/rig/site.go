package rig

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
)

// A Row is a value of the fleet tests' source: a key and its version.
type Row struct {
	Key     string
	Version int
}

// A Site is a source, and the instances in front of it.
type Site struct {
	*testing.T
	Tier    fleet.Tier
	Takes   time.Duration
	Loads   atomic.Int64
	Version atomic.Int64
	fails   atomic.Pointer[error]
}

func NewSite(t *testing.T, tier fleet.Tier) *Site {
	return &Site{T: t, Tier: tier, Takes: 200 * time.Millisecond}
}

func (s *Site) Load(ctx context.Context, key string) (Row, error) {
	s.Loads.Add(1)
	v := int(s.Version.Load())
	select {
	case <-time.After(s.Takes):
	case <-ctx.Done():
		return Row{}, wait.Cause(ctx)
	}
	if err := s.fails.Load(); err != nil && *err != nil {
		return Row{}, *err
	}
	return Row{key, v}, nil
}

func (s *Site) Fail(err error) { s.fails.Store(&err) }

// Instance makes the Guard of one process.
func (s *Site) Instance(change func(*weir.Options)) *weir.Guard[string, Row] {
	s.Helper()
	o := weir.Options{Name: "rows", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.Tier, Lease: 600 * time.Millisecond}}}
	if change != nil {
		change(&o)
	}
	g, err := weir.New(s.Load, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { g.Close(context.Background()) })
	return g
}

func (s *Site) Instances(n int, change func(*weir.Options)) []*weir.Guard[string, Row] {
	s.Helper()
	all := make([]*weir.Guard[string, Row], n)
	for i := range all {
		all[i] = s.Instance(change)
	}
	return all
}

func (s *Site) Loaded(want int64) {
	s.Helper()
	if n := s.Loads.Load(); n != want {
		s.Errorf("%d loads; want %d", n, want)
	}
}

func (s *Site) Get(g *weir.Guard[string, Row], key string, version int) weir.Result[Row] {
	s.Helper()
	r := g.GetResult(s.Context(), key)
	if r.Err != nil || r.Value != (Row{key, version}) {
		s.Errorf("GetResult(%q) = %+v; want version %d", key, r, version)
	}
	return r
}

func InFleet(t *testing.T, fn func(*Site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))) })
}

// Odd is 1 for the keys with an odd number, and 0 for the others.
func Odd(key string) string {
	n, _ := strconv.Atoi(key)
	return strconv.Itoa(n % 2)
}

// Tagged makes Guards of a fleet, or one without, whose entries have the tags
// "all" and "odd-0" or "odd-1".
func (s *Site) Tagged(n int, tier fleet.Tier) []*weir.Guard[string, Row] {
	s.Helper()
	o := weir.Options{Name: "tagged", TTL: time.Hour, StaleIfError: time.Minute}
	if tier != nil {
		o.Fleet.Config = fleet.Config{Tier: tier, Cooling: -1}
	}
	all := make([]*weir.Guard[string, Row], n)
	for i := range all {
		all[i] = weir.Must(weir.NewFrom(weir.Source[string, Row]{LoadEntry: func(ctx context.Context, key string, _ weir.Previous[Row]) (weir.Entry[Row], error) {
			v, err := s.Load(ctx, key)
			return weir.Entry[Row]{Value: v, Tags: []string{"all", "odd-" + Odd(key)}}, err
		}}, o))
		s.Cleanup(func() { _ = all[i].Close(context.Background()) })
	}
	return all
}

func (s *Site) Wants(g *weir.Guard[string, Row], key, version int, state weir.State) {
	s.Helper()
	if r := g.GetResult(s.Context(), fmt.Sprint(key)); r.Err != nil || r.Value.Version != version || r.State != state {
		s.Errorf("GetResult(%d) = %+v; want version %d, %v", key, r, version, state)
	}
}

// Leased gives another instance the lease of a key, for a minute. free ends it, as if
// that instance had given its load up.
func (s *Site) Leased(name string) (free func()) {
	s.Helper()
	key := fleet.Key{Namespace: "rows", Name: name}
	a, err := s.Tier.Acquire(s.Context(), key, fleet.Ask{Lease: time.Minute})
	if err != nil || a.Grant != fleet.GrantLease {
		s.Fatalf("the lease of %q: %v, %v", name, a.Grant, err)
	}
	return func() { s.Tier.Settle(s.Context(), key, a.Fence, fleet.Outcome{}) }
}

// BulkSource loads rows of version 1, which takes as long as the site's loads, and keeps the
// largest number of its calls at a time in most.
func (s *Site) BulkSource(most *atomic.Int64) weir.Source[string, Row] {
	var running atomic.Int64
	return weir.Source[string, Row]{LoadMany: func(_ context.Context, keys []string) (map[string]Row, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(s.Takes)
		values := make(map[string]Row)
		for _, key := range keys {
			values[key] = Row{key, 1}
			s.Loads.Add(1)
		}
		return values, nil
	}}
}

// SiteGuard makes an instance for any Source.
func SiteGuard[K comparable, V any](s *Site, src weir.Source[K, V], o weir.Options) *weir.Guard[K, V] {
	s.Helper()
	if o.Fleet.Tier == nil {
		o.Fleet.Tier = s.Tier
	}
	o.Name, o.Fleet.Lease = "rows", 600*time.Millisecond
	g, err := weir.NewFrom(src, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { g.Close(context.Background()) })
	return g
}
