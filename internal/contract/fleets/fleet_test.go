package fleets_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// T2, T6.
func TestFleetOneLoadForAll(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var wg sync.WaitGroup
		start := time.Now()
		for _, g := range s.Instances(16, nil) {
			for range 64 {
				wg.Go(func() { s.Get(g, "k", 0) })
			}
		}
		wg.Wait()
		s.Loaded(1)
		if took := time.Since(start); took != s.Takes {
			s.Errorf("it took %v; want %v", took, s.Takes)
		}
	})
}

// T4.
func TestFleetValueIsFoundByOthers(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(3, func(o *weir.Options) { o.StaleWhileRevalidate = time.Minute })
		if r := s.Get(gs[0], "k", 0); r.Source != weir.FromLoad {
			s.Errorf("the first got it from %v; want a load", r.Source)
		}
		time.Sleep(10 * time.Second)
		if r := s.Get(gs[1], "k", 0); r.Source != weir.FromTier || r.State != weir.StateFresh || r.Age != 10*time.Second {
			s.Errorf("the second got %+v; want it fresh from the tier, 10 s old", r)
		}
		if r := s.Get(gs[1], "k", 0); r.Source != weir.FromMemory {
			s.Errorf("the second's second got it from %v; want memory", r.Source)
		}
		s.Loaded(1)
		s.Version.Store(1)
		time.Sleep(50 * time.Second)
		if r := s.Get(gs[2], "k", 0); r.State != weir.StateStale || r.Source != weir.FromTier {
			s.Errorf("the third got %+v; want it stale from the tier", r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.Loaded(2)
		for _, g := range gs {
			s.Get(g, "k", 1)
		}
		s.Loaded(2)
	})
}

// T8.
func TestFleetInvalidateReachesAll(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(3, nil)
		for _, g := range gs {
			s.Get(g, "k", 0)
		}
		s.Version.Store(1)
		if err := gs[0].Invalidate(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		for _, g := range gs {
			s.Get(g, "k", 1)
		}
		s.Loaded(2)
	})
}

// T5, T8.
func TestFleetInvalidateDuringALoad(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(2, nil)
		done := make(chan weir.Result[rig.Row], 2)
		go func() { done <- gs[0].GetResult(s.Context(), "k") }()
		time.Sleep(100 * time.Millisecond)
		s.Version.Store(1)
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
		s.Loaded(2)
		s.Get(gs[0], "k", 1)
		s.Get(gs[1], "k", 1)
		s.Loaded(2)
	})
}

// T8.
func TestFleetTags(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var gs []*weir.Guard[string, rig.Row]
		for range 2 {
			g := weir.Must(weir.NewFrom(weir.Source[string, rig.Row]{LoadEntry: func(ctx context.Context, key string, _ weir.Previous[rig.Row]) (weir.Entry[rig.Row], error) {
				v, err := s.Load(ctx, key)
				return weir.Entry[rig.Row]{Value: v, Tags: []string{"all", "odd-" + rig.Odd(key)}}, err
			}}, weir.Options{Name: "tagged", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.Tier}}}))
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
		s.Loaded(2)
		s.Version.Store(1)
		if err := gs[0].InvalidateTags(s.Context(), "odd-1"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		get(1, 1)
		get(2, 0)
		s.Loaded(3)
		s.Version.Store(2)
		if err := gs[1].InvalidateAll(s.Context()); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		get(1, 2)
		get(2, 2)
		s.Loaded(5)
	})
}

// T7.
func TestFleetFailureCools(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(4, nil)
		boom := errors.New("boom")
		s.Fail(boom)
		var wg sync.WaitGroup
		for _, g := range gs {
			wg.Go(func() {
				if _, err := g.Get(s.Context(), "k"); err == nil || err.Error() != "boom" {
					s.Errorf("Get = %v; want boom", err)
				}
			})
		}
		wg.Wait()
		s.Loaded(1)
		s.Fail(nil)
		time.Sleep(fleet.DefaultCooling)
		s.Get(gs[1], "k", 0)
		s.Loaded(2)
	})
}

func TestFleetWithoutTTLSharesTheLoad(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var wg sync.WaitGroup
		start := time.Now()
		for _, g := range s.Instances(8, func(o *weir.Options) { o.TTL = 0 }) {
			wg.Go(func() { s.Get(g, "k", 0) })
		}
		wg.Wait()
		s.Loaded(1)
		if took := time.Since(start); took != s.Takes {
			s.Errorf("it took %v; want %v", took, s.Takes)
		}
	})
}

func TestFleetNotStoredIsLoadedByEach(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var wg sync.WaitGroup
		start := time.Now()
		for range 4 {
			g := weir.Must(weir.NewFrom(weir.Source[string, rig.Row]{LoadEntry: func(ctx context.Context, key string, _ weir.Previous[rig.Row]) (weir.Entry[rig.Row], error) {
				v, err := s.Load(ctx, key)
				return weir.Entry[rig.Row]{Value: v, NoStore: true}, err
			}}, weir.Options{Name: "secret", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.Tier}}}))
			defer g.Close(s.Context())
			wg.Go(func() { s.Get(g, "k", 0) })
		}
		wg.Wait()
		s.Loaded(4)
		if took := time.Since(start); took != 2*s.Takes {
			s.Errorf("it took %v; want %v: one finds out, the others load at once", took, 2*s.Takes)
		}
	})
}

// T7.
func TestFleetAbandonedLoadPassesTheLeaseOn(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(2, nil)
		ctx, cancel := context.WithCancel(s.Context())
		go gs[0].Get(ctx, "k")
		time.Sleep(50 * time.Millisecond)
		done := make(chan time.Duration)
		start := time.Now()
		go func() { s.Get(gs[1], "k", 0); done <- time.Since(start) }()
		time.Sleep(50 * time.Millisecond)
		cancel()
		if took := <-done; took != 50*time.Millisecond+s.Takes {
			s.Errorf("the other was served after %v; want %v", took, 50*time.Millisecond+s.Takes)
		}
		s.Loaded(2)
	})
}

func TestFleetBulkLoads(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var calls atomic.Int64
		many := func(batch bool) *weir.Guard[string, rig.Row] {
			o := weir.Options{Name: "many", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.Tier}}}
			o.Limiter = one(s, 1)
			if batch {
				o.Batch = weir.Batching{MaxSize: 10}
			}
			g := weir.Must(weir.NewFrom(weir.Source[string, rig.Row]{LoadMany: func(ctx context.Context, keys []string) (map[string]rig.Row, error) {
				calls.Add(1)
				s.Loads.Add(int64(len(keys)) - 1)
				_, err := s.Load(ctx, "")
				m := make(map[string]rig.Row)
				for _, k := range keys {
					m[k] = rig.Row{Key: k, Version: 0}
				}
				return m, err
			}}, o))
			s.Cleanup(func() { g.Close(context.Background()) })
			return g
		}
		for _, batch := range []bool{false, true} {
			a, b := many(batch), many(batch)
			key := func(i int) string { return fmt.Sprint(batch, i) }
			s.Loads.Store(0)
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
			if took := time.Since(start); took != s.Takes {
				s.Errorf("batch %v: GetMany took %v; want %v", batch, took, s.Takes)
			}
			if n, c := s.Loads.Load(), calls.Load(); n != 4 || c != 3 {
				s.Errorf("batch %v: %d keys loaded in %d calls; want 4 in 3", batch, n, c)
			}
		}
	})
}

// one returns a limiter for n concurrent loads.
func one(s *rig.Site, n int) limit.Limiter {
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: n})
	if err != nil {
		s.Fatal(err)
	}
	return l
}
