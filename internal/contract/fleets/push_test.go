package fleets_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
)

// T1: a pushed value is memory from its store on. The next call gets it without a request
// to the Tier, and MemoryCap counts from the store.
func TestT1_PushedValueIsMemory(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		all := s.Instances(3, func(o *weir.Options) {
			o.TTL, o.Fleet.MemoryCap, o.Fleet.PushValues = time.Hour, 10*time.Second, o.Name != ""
		})
		for _, g := range all {
			s.Get(g, "k", 0)
		}
		s.Version.Store(1)
		if r := all[0].RefreshResult(s.Context(), "k"); r.Err != nil {
			s.Fatal(r.Err)
		}
		synctest.Wait()
		for i, g := range all[1:] {
			time.Sleep(3 * time.Second)
			before := g.Stats().Fleet
			if r := s.Get(g, "k", 1); r.Source != weir.FromTier || r.State != weir.StateFresh && r.State != weir.StateLoaded {
				s.Errorf("instance %d got it %v from %v; want it as another instance's", i, r.State, r.Source)
			}
			if after := g.Stats().Fleet; after.Pushed != before.Pushed+1 || after.Acquires != before.Acquires {
				s.Errorf("instance %d sent %d requests, and used %d pushed values; want 0, 1", i, after.Acquires-before.Acquires, after.Pushed-before.Pushed)
			}
		}
		asked := func() (n uint64) {
			for _, g := range all[1:] {
				s.Get(g, "k", 1)
				n += g.Stats().Fleet.Acquires
			}
			return n
		}
		time.Sleep(4*time.Second - 2*ms)
		before := asked()
		if n := asked() - before; n != 0 {
			s.Errorf("before MemoryCap ends: %d requests; want 0", n)
		}
		time.Sleep(3 * ms)
		if n := asked() - before; n != 2 {
			s.Errorf("after MemoryCap: %d requests; want 2", n)
		}
		s.Loaded(2)
	})
}

// An instance without PushValues pushes nothing, and uses nothing that is pushed.
func TestPushValuesIsOffByDefault(t *testing.T) {
	for _, sender := range []bool{false, true} {
		rig.InFleet(t, func(s *rig.Site) {
			a := s.Instance(func(o *weir.Options) { o.Fleet.PushValues = sender })
			b := s.Instance(func(o *weir.Options) { o.Fleet.PushValues = !sender })
			for v := range 3 {
				s.Version.Store(int64(v))
				if err := a.Invalidate(s.Context(), "k"); err != nil {
					s.Fatal(err)
				}
				s.Get(a, "k", v)
				synctest.Wait()
				s.Get(b, "k", v)
			}
			if n := a.Stats().Fleet.Pushed + b.Stats().Fleet.Pushed; n != 0 {
				s.Errorf("sender %v: %d pushed values were used; want none", sender, n)
			}
		})
	}
}

// T2, T6: pushed values add no load. Crowds of 16 instances request cold keys, and each
// command is delayed at random. There is one load, and at most one more for each command
// that missed its deadline, with values in pushes and without. With values, a waiting
// instance sends one request, and without them a second one for the value.
func TestT6_PushedValuesAddNoLoads(t *testing.T) {
	const instances, callers, crowds = 16, 8, 5
	for seed := range histories.Seeds(t, 2, 8) {
		for _, pushes := range []bool{false, true} {
			missed := uint64(0)
			for _, most := range []time.Duration{fleet.DefaultDeadline - ms, fleet.DefaultDeadline + 10*ms} {
				synctest.Test(t, func(t *testing.T) {
					s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
					var all []*weir.Guard[string, rig.Row]
					for i := range instances {
						line := fleettest.NewFaults(s.Tier)
						var mu sync.Mutex
						r := rand.New(rand.NewPCG(seed, uint64(i)))
						line.Before(func(string) {
							mu.Lock()
							delay := time.Duration(r.Int64N(int64(most)))
							mu.Unlock()
							time.Sleep(delay)
						})
						b := fleet.WithBreaker(line, fleet.BreakerOptions{})
						t.Cleanup(func() { _ = b.Close(context.Background()) })
						all = append(all, s.Instance(func(o *weir.Options) { o.Fleet.Tier, o.Fleet.PushValues = b, pushes }))
					}
					count := func() (n weir.FleetStats) {
						for _, g := range all {
							f := g.Stats().Fleet
							n.Acquires, n.Pushed, n.Unavailable = n.Acquires+f.Acquires, n.Pushed+f.Pushed, n.Unavailable+f.Unavailable
						}
						return n
					}
					for crowd := range crowds {
						before, loads := count(), s.Loads.Load()
						var wg sync.WaitGroup
						for _, g := range all {
							for range callers {
								wg.Go(func() { s.Get(g, fmt.Sprint("k", crowd), 0) })
							}
						}
						wg.Wait()
						time.Sleep(time.Second) // replies that are late, and breakers
						after := count()
						extra, failed := s.Loads.Load()-loads-1, after.Unavailable-before.Unavailable
						missed += failed
						if extra < 0 || extra > int64(failed) {
							t.Errorf("seed %d, pushes %v: %d loads, and %d commands missed their deadline; want one load, and at most one more for each of those", seed, pushes, extra+1, failed)
						}
						asked, used := after.Acquires-before.Acquires, after.Pushed-before.Pushed
						wantAsked, wantUsed := uint64(2*instances-1), uint64(0)
						if pushes {
							wantAsked, wantUsed = instances, instances-1
						}
						if after.Unavailable == 0 && (asked != wantAsked || used != wantUsed) {
							t.Errorf("seed %d, pushes %v: %d requests, %d pushed values used; want %d, %d", seed, pushes, asked, used, wantAsked, wantUsed)
						}
					}
				})
			}
			if missed == 0 {
				t.Errorf("seed %d, pushes %v: no deadline was missed; want some", seed, pushes)
			}
		}
	}
}
