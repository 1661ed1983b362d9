package weir_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
)

// A row is a value of the fleet tests' source: a key and its version.
type row struct {
	Key     string
	Version int
}

// A site is a source, and the instances in front of it.
type site struct {
	*testing.T
	tier    fleet.Tier
	takes   time.Duration
	loads   atomic.Int64
	version atomic.Int64
	fails   atomic.Pointer[error]
}

func newSite(t *testing.T, tier fleet.Tier) *site {
	return &site{T: t, tier: tier, takes: 200 * time.Millisecond}
}

func (s *site) load(ctx context.Context, key string) (row, error) {
	s.loads.Add(1)
	v := int(s.version.Load())
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return row{}, context.Cause(ctx)
	}
	if err := s.fails.Load(); err != nil && *err != nil {
		return row{}, *err
	}
	return row{key, v}, nil
}

func (s *site) fail(err error) { s.fails.Store(&err) }

// instance makes the Guard of one process.
func (s *site) instance(change func(*weir.Options)) *weir.Guard[string, row] {
	s.Helper()
	o := weir.Options{Name: "rows", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.tier, Lease: 600 * time.Millisecond}}}
	if change != nil {
		change(&o)
	}
	g, err := weir.New(s.load, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { g.Close(context.Background()) })
	return g
}

func (s *site) instances(n int, change func(*weir.Options)) []*weir.Guard[string, row] {
	s.Helper()
	all := make([]*weir.Guard[string, row], n)
	for i := range all {
		all[i] = s.instance(change)
	}
	return all
}

func (s *site) loaded(want int64) {
	s.Helper()
	if n := s.loads.Load(); n != want {
		s.Errorf("%d loads; want %d", n, want)
	}
}

func (s *site) get(g *weir.Guard[string, row], key string, version int) weir.Result[row] {
	s.Helper()
	r := g.GetResult(s.Context(), key)
	if r.Err != nil || r.Value != (row{key, version}) {
		s.Errorf("GetResult(%q) = %+v; want version %d", key, r, version)
	}
	return r
}

func inFleet(t *testing.T, fn func(*site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(newSite(t, fleet.NewMemory(fleet.MemoryOptions{}))) })
}

// T2, T6.
func TestFleetOneLoadForAll(t *testing.T) {
	inFleet(t, func(s *site) {
		var wg sync.WaitGroup
		start := time.Now()
		for _, g := range s.instances(16, nil) {
			for range 64 {
				wg.Go(func() { s.get(g, "k", 0) })
			}
		}
		wg.Wait()
		s.loaded(1)
		if took := time.Since(start); took != s.takes {
			s.Errorf("it took %v; want %v", took, s.takes)
		}
	})
}

// T4.
func TestFleetValueIsFoundByOthers(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(3, func(o *weir.Options) { o.StaleWhileRevalidate = time.Minute })
		if r := s.get(gs[0], "k", 0); r.Source != weir.FromLoad {
			s.Errorf("the first got it from %v; want a load", r.Source)
		}
		time.Sleep(10 * time.Second)
		if r := s.get(gs[1], "k", 0); r.Source != weir.FromTier || r.State != weir.StateFresh || r.Age != 10*time.Second {
			s.Errorf("the second got %+v; want it fresh from the tier, 10 s old", r)
		}
		if r := s.get(gs[1], "k", 0); r.Source != weir.FromMemory {
			s.Errorf("the second's second got it from %v; want memory", r.Source)
		}
		s.loaded(1)
		s.version.Store(1)
		time.Sleep(50 * time.Second)
		if r := s.get(gs[2], "k", 0); r.State != weir.StateStale || r.Source != weir.FromTier {
			s.Errorf("the third got %+v; want it stale from the tier", r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.loaded(2)
		for _, g := range gs {
			s.get(g, "k", 1)
		}
		s.loaded(2)
	})
}

// T8.
func TestFleetInvalidateReachesAll(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(3, nil)
		for _, g := range gs {
			s.get(g, "k", 0)
		}
		s.version.Store(1)
		if err := gs[0].Invalidate(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		for _, g := range gs {
			s.get(g, "k", 1)
		}
		s.loaded(2)
	})
}

// T5, T8.
func TestFleetInvalidateDuringALoad(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(2, nil)
		done := make(chan weir.Result[row], 2)
		go func() { done <- gs[0].GetResult(s.Context(), "k") }()
		time.Sleep(100 * time.Millisecond)
		s.version.Store(1)
		if err := gs[1].Invalidate(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		for _, g := range gs {
			go func() { r := g.GetResult(s.Context(), "k"); done <- r }()
		}
		if r := <-done; r.Value.Version != 0 || !r.Superseded {
			s.Errorf("who came before got %+v; want version 0, superseded", r)
		}
		for range gs {
			if r := <-done; r.Value.Version != 1 || r.Superseded {
				s.Errorf("who came after got %+v; want version 1", r)
			}
		}
		s.loaded(2)
		s.get(gs[0], "k", 1)
		s.get(gs[1], "k", 1)
		s.loaded(2)
	})
}

// T8.
func TestFleetTags(t *testing.T) {
	inFleet(t, func(s *site) {
		var gs []*weir.Guard[string, row]
		for range 2 {
			g := weir.Must(weir.NewFrom(weir.Source[string, row]{LoadEntry: func(ctx context.Context, key string, _ weir.Previous[row]) (weir.Entry[row], error) {
				v, err := s.load(ctx, key)
				return weir.Entry[row]{Value: v, Tags: []string{"all", "odd-" + odd(key)}}, err
			}}, weir.Options{Name: "tagged", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.tier}}}))
			defer g.Close(s.Context())
			gs = append(gs, g)
		}
		get := func(key, version int) {
			s.Helper()
			for _, g := range gs {
				if v, err := g.Get(s.Context(), fmt.Sprint(key)); err != nil || v.Version != version {
					s.Errorf("Get(%d) = %v, %v; want version %d", key, v, err, version)
				}
			}
		}
		get(1, 0)
		get(2, 0)
		s.loaded(2)
		s.version.Store(1)
		if err := gs[0].InvalidateTags(s.Context(), "odd-1"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		get(1, 1)
		get(2, 0)
		s.loaded(3)
		s.version.Store(2)
		if err := gs[1].InvalidateAll(s.Context()); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		get(1, 2)
		get(2, 2)
		s.loaded(5)
	})
}

// T7.
func TestFleetFailureCools(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(4, nil)
		boom := errors.New("boom")
		s.fail(boom)
		var wg sync.WaitGroup
		for _, g := range gs {
			wg.Go(func() {
				if _, err := g.Get(s.Context(), "k"); err == nil || err.Error() != "boom" {
					s.Errorf("Get = %v; want boom", err)
				}
			})
		}
		wg.Wait()
		s.loaded(1)
		s.fail(nil)
		time.Sleep(fleet.DefaultCooling)
		s.get(gs[1], "k", 0)
		s.loaded(2)
	})
}

func TestFleetWithoutTTLSharesTheLoad(t *testing.T) {
	inFleet(t, func(s *site) {
		var wg sync.WaitGroup
		start := time.Now()
		for _, g := range s.instances(8, func(o *weir.Options) { o.TTL = 0 }) {
			wg.Go(func() { s.get(g, "k", 0) })
		}
		wg.Wait()
		s.loaded(1)
		if took := time.Since(start); took != s.takes {
			s.Errorf("it took %v; want %v", took, s.takes)
		}
	})
}

func TestFleetNotStoredIsLoadedByEach(t *testing.T) {
	inFleet(t, func(s *site) {
		var wg sync.WaitGroup
		start := time.Now()
		for range 4 {
			g := weir.Must(weir.NewFrom(weir.Source[string, row]{LoadEntry: func(ctx context.Context, key string, _ weir.Previous[row]) (weir.Entry[row], error) {
				v, err := s.load(ctx, key)
				return weir.Entry[row]{Value: v, NoStore: true}, err
			}}, weir.Options{Name: "secret", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.tier}}}))
			defer g.Close(s.Context())
			wg.Go(func() { s.get(g, "k", 0) })
		}
		wg.Wait()
		s.loaded(4)
		if took := time.Since(start); took != 2*s.takes {
			s.Errorf("it took %v; want %v: one finds out, the others load at once", took, 2*s.takes)
		}
	})
}

// T7.
func TestFleetAbandonedLoadPassesTheLeaseOn(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(2, nil)
		ctx, cancel := context.WithCancel(s.Context())
		go gs[0].Get(ctx, "k")
		time.Sleep(50 * time.Millisecond)
		done := make(chan time.Duration)
		start := time.Now()
		go func() { s.get(gs[1], "k", 0); done <- time.Since(start) }()
		time.Sleep(50 * time.Millisecond)
		cancel()
		if took := <-done; took != 50*time.Millisecond+s.takes {
			s.Errorf("the other was served after %v; want %v", took, 50*time.Millisecond+s.takes)
		}
		s.loaded(2)
	})
}

func TestFleetBulkLoads(t *testing.T) {
	inFleet(t, func(s *site) {
		var calls atomic.Int64
		many := func(batch bool) *weir.Guard[string, row] {
			o := weir.Options{Name: "many", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.tier}}}
			o.Limiter = one(s, 1)
			if batch {
				o.Batch = weir.Batching{MaxSize: 10}
			}
			g := weir.Must(weir.NewFrom(weir.Source[string, row]{LoadMany: func(ctx context.Context, keys []string) (map[string]row, error) {
				calls.Add(1)
				s.loads.Add(int64(len(keys)) - 1)
				_, err := s.load(ctx, "")
				m := make(map[string]row)
				for _, k := range keys {
					m[k] = row{k, 0}
				}
				return m, err
			}}, o))
			s.Cleanup(func() { g.Close(context.Background()) })
			return g
		}
		for _, batch := range []bool{false, true} {
			a, b := many(batch), many(batch)
			key := func(i int) string { return fmt.Sprint(batch, i) }
			s.loads.Store(0)
			calls.Store(0)
			if _, err := a.Get(s.Context(), key(0)); err != nil {
				s.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() { a.Get(s.Context(), key(1)) }) // b must wait for this one
			synctest.Wait()
			start := time.Now()
			got := b.GetMany(s.Context(), []string{key(0), key(1), key(2), key(3)})
			wg.Wait()
			for i := range 4 {
				if r := got[key(i)]; r.Err != nil || r.Value.Key != key(i) {
					s.Errorf("batch %v: GetMany[%s] = %+v", batch, key(i), r)
				}
			}
			if took := time.Since(start); took != s.takes {
				s.Errorf("batch %v: GetMany took %v; want %v", batch, took, s.takes)
			}
			if n, c := s.loads.Load(), calls.Load(); n != 4 || c != 3 {
				s.Errorf("batch %v: %d keys loaded in %d calls; want 4 in 3", batch, n, c)
			}
		}
	})
}

// one returns a limiter for n concurrent loads.
func one(s *site, n int) limit.Limiter {
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: n})
	if err != nil {
		s.Fatal(err)
	}
	return l
}

// inFleetOfOne gives each Guard of the other tests its own fleet, so that the
// contract of the core is tested with a fleet too.
var inFleetOfOne = flag.Bool("fleet", false, "run the contract's tests with a fleet of one instance")

// ofOne returns o with a fleet of one, if the keys can be named.
func ofOne[K comparable, V any](src weir.Source[K, V], o weir.Options) weir.Options {
	alone := o
	alone.Fleet = weir.Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{}), Namespace: "one", MemoryCap: 1000 * time.Hour, MaxKeep: 1000 * time.Hour, Lease: time.Second, Cooling: -1}}
	if g, err := weir.NewFrom(src, alone); err == nil {
		g.Close(context.Background())
		alone.Fleet.Tier = fleet.NewMemory(fleet.MemoryOptions{})
		return alone
	}
	return o
}

// notInFleet skips a test that adds keys to a bulk load while it waits for a
// permit: in a fleet the load is closed before it asks for its keys, and waits
// for the permit afterwards.
func notInFleet(t *testing.T) {
	t.Helper()
	if *inFleetOfOne {
		t.Skip("a fleet's bulk loads are closed earlier")
	}
}
