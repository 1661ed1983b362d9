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
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/contract/rig"
)

// E5, T4: like a single load, a bulk load receives the Tier's old values of its
// keys, and its callers get them if it fails.
func TestFleetBulkLoadKnowsWhatTheTierHas(t *testing.T) {
	for _, gathers := range []bool{false, true} {
		rig.InFleet(t, func(s *rig.Site) {
			var broken bool
			src := weir.Source[string, rig.Row]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[rig.Row]) (map[string]weir.Entry[rig.Row], error) {
				s.Loads.Add(1)
				if broken {
					return nil, rig.ErrDown
				}
				entries := make(map[string]weir.Entry[rig.Row])
				for i, key := range keys {
					switch p := prev[i]; {
					case p.OK && (p.Value.Key != key || p.Version != "of "+key):
						s.Errorf("%s received %+v", key, p)
					case p.OK:
						entries[key] = weir.Entry[rig.Row]{NotModified: true}
					default:
						entries[key] = weir.Entry[rig.Row]{Value: rig.Row{Key: key, Version: 1}, Version: "of " + key, Tags: []string{"t"}}
					}
				}
				return entries, nil
			}}
			o := weir.Options{TTL: time.Minute, StaleIfError: time.Hour}
			if gathers {
				o.Batch = weir.Batching{MaxSize: 2, Linger: time.Second}
			}
			keys := []string{"a", "b"}
			many := func(g *weir.Guard[string, rig.Row], state weir.State) {
				s.Helper()
				for key, r := range g.GetMany(s.Context(), keys) {
					if r.Value != (rig.Row{Key: key, Version: 1}) || r.State != state {
						s.Errorf("gathered %v: %s = %+v; want version 1, %v", gathers, key, r, state)
					}
				}
			}
			gs := make([]*weir.Guard[string, rig.Row], 3)
			for i := range gs {
				gs[i] = rig.SiteGuard(s, src, o)
			}
			many(gs[0], weir.StateLoaded)
			time.Sleep(2 * time.Minute)
			many(gs[1], weir.StateLoaded)
			s.Loaded(2)
			if n := gs[1].Stats().NotModified; n != 2 {
				s.Errorf("NotModified = %d; want 2", n)
			}
			time.Sleep(2 * time.Minute)
			broken = true
			many(gs[2], weir.StateStaleOnError) // it has nothing in memory
			broken = false
			time.Sleep(time.Minute)
			if err := gs[0].InvalidateTags(s.Context(), "t"); err != nil { // the tags were kept
				s.Fatal(err)
			}
			synctest.Wait()
			s.Loads.Store(0)
			many(gs[2], weir.StateLoaded)
			s.Loaded(1)
		})
	}
}

// B1, T6: a bulk load that waits for another instance has no place, so other keys are
// loaded meanwhile. Once it has the lease it waits for a place again: no more than
// MaxParallel run at a time.
func TestB1BulkLoadThatWaitsForAnotherInstanceHasNoPlace(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var most atomic.Int64
		g := rig.SiteGuard(s, s.BulkSource(&most), weir.Options{TTL: time.Minute, Batch: weir.Batching{MaxSize: 2, MaxParallel: 2}})
		var wg sync.WaitGroup
		var frees []func()
		for i := range 4 {
			key := fmt.Sprint(i)
			frees = append(frees, s.Leased(key))
			wg.Go(func() { s.Get(g, key, 1) })
			synctest.Wait() // else they would be gathered
		}
		start := time.Now()
		s.Get(g, "other", 1)
		if took := time.Since(start); took != s.Takes {
			s.Errorf("a key that no other instance loads took %v; want %v", took, s.Takes)
		}
		for _, free := range frees {
			free()
		}
		start = time.Now()
		wg.Wait()
		if took := time.Since(start); took != 2*s.Takes || most.Load() != 2 {
			s.Errorf("four loads took %v, %d at a time; want %v, 2 at a time", took, most.Load(), 2*s.Takes)
		}
		s.Loaded(5)
	})
}

// A delayed Tier takes a millisecond longer to answer for one key.
type delayed struct {
	fleet.Tier
	key string
}

func (d delayed) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	if k.Name == d.key {
		time.Sleep(ms)
	}
	return d.Tier.Acquire(ctx, k, a)
}

// B1, T6: places and leases are never waited for in a circle. Here a has a place for 2 and
// the lease of 1, and b a place for 1 and the lease of 2: the loads of the leases were split
// off bulk loads, and need a place too.
func TestB1PlacesAndLeasesInACircle(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		free1, free2 := s.Leased("1"), s.Leased("2")
		var most atomic.Int64
		instance := func(late string) *weir.Guard[string, rig.Row] {
			return rig.SiteGuard(s, s.BulkSource(&most), weir.Options{TTL: time.Minute, LoadTimeout: time.Second,
				Batch: weir.Batching{MaxSize: 9, MaxParallel: 1}, Fleet: weir.Fleet{Config: fleet.Config{Tier: delayed{s.Tier, late}}}})
		}
		a, b := instance("2"), instance("1")
		var answered atomic.Int64
		get := func(g *weir.Guard[string, rig.Row], keys ...string) {
			go func() {
				for _, r := range g.GetMany(s.Context(), keys) {
					if r.Err == nil {
						answered.Add(1)
					}
				}
			}()
		}
		get(a, "x", "1")
		get(b, "y", "2")
		time.Sleep(time.Second)
		get(a, "2")
		get(b, "1")
		time.Sleep(time.Second)
		free1()
		free2()
		time.Sleep(time.Second)
		if n := answered.Load(); n != 6 {
			s.Errorf("%d of 6 keys are answered; want all", n)
		}
		s.Loaded(4)
	})
}

// B1: a bulk load that had no place while it waited for another instance, and finds all
// places stuck, fails at once.
func TestB1PlacesHangWhileALoadWaitsForAnotherInstance(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var most atomic.Int64
		s.Takes = 10 * time.Second
		g := rig.SiteGuard(s, s.BulkSource(&most), weir.Options{TTL: time.Minute, LoadTimeout: time.Second, Batch: weir.Batching{MaxSize: 2, MaxParallel: 1}})
		free := s.Leased("k")
		done := make(chan error, 1)
		go func() { _, err := g.Get(s.Context(), "k"); done <- err }()
		synctest.Wait()
		if _, err := g.Get(s.Context(), "hangs"); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Get = %v; want the hard timeout", err)
		}
		start := time.Now()
		free()
		if err := <-done; err != weir.ErrStuck || time.Since(start) != 0 {
			s.Errorf("Get = %v after %v; want ErrStuck at once", err, time.Since(start))
		}
		if n := g.Stats().StuckRefusals; n != 1 {
			s.Errorf("StuckRefusals = %d; want 1", n)
		}
		time.Sleep(s.Takes)
		synctest.Wait()
		s.Takes = 0
		s.Get(g, "k", 1) // its lease was given up
	})
}

// F3: a bulk load that is split up may leave a part without callers, because those of the
// other keys have kept it from being abandoned.
func TestF3SplitLoadIsAbandonedInParts(t *testing.T) {
	for _, stays := range []string{"x", "k"} { // the key whose caller stays
		for _, grace := range []time.Duration{0, 2 * time.Second, weir.Never} {
			rig.InFleet(t, func(s *rig.Site) {
				s.Takes = 5 * time.Second
				s.Leased("k")
				slow := delayed{s.Tier, "k"} // the caller leaves before it answers
				var most atomic.Int64
				g := rig.SiteGuard(s, s.BulkSource(&most), weir.Options{TTL: time.Hour, AbandonGrace: grace, Fleet: weir.Fleet{Config: fleet.Config{Tier: slow}}})
				ctx, leave := context.WithCancel(s.Context())
				go g.GetMany(ctx, []string{"k", "x"})
				synctest.Wait()
				go g.Get(s.Context(), stays)
				synctest.Wait()
				leave()
				want := []int{1, 1}
				switch grace {
				case 2 * time.Second:
					want = []int{2, 1}
				case weir.Never:
					want = []int{2, 2}
				}
				for i, at := range []time.Duration{time.Second, 2 * time.Second} {
					time.Sleep(at)
					if n := g.Stats().Flights; n != want[i] {
						s.Errorf("%s stays, grace %v: %d flights after %v; want %d", stays, grace, n, at, want[i])
					}
				}
				if n := int(g.Stats().Abandoned); n != 2-want[1] {
					s.Errorf("%s stays, grace %v: %d abandoned; want %d", stays, grace, n, 2-want[1])
				}
			})
		}
	}
}

// E5, T4: of two old values, the newer one is a load's Previous, whether it is loaded alone, in
// a bulk or in a batch, and whichever of memory and the Tier has it.
func TestT4_TheNewerValueIsThePrevious(t *testing.T) {
	for _, gathers := range []bool{false, true} {
		for _, bulk := range []bool{false, true} {
			rig.InFleet(t, func(s *rig.Site) {
				var received []weir.Previous[rig.Row]
				one := func(key string, p weir.Previous[rig.Row]) weir.Entry[rig.Row] {
					received = append(received, p)
					return weir.Entry[rig.Row]{Value: rig.Row{Key: key, Version: int(s.Version.Load())}}
				}
				src := weir.Source[string, rig.Row]{LoadEntries: func(_ context.Context, keys []string, prev []weir.Previous[rig.Row]) (map[string]weir.Entry[rig.Row], error) {
					entries := make(map[string]weir.Entry[rig.Row])
					for i, key := range keys {
						entries[key] = one(key, prev[i])
					}
					return entries, nil
				}}
				if !bulk && !gathers {
					src = weir.Source[string, rig.Row]{LoadEntry: func(_ context.Context, key string, prev weir.Previous[rig.Row]) (weir.Entry[rig.Row], error) {
						return one(key, prev), nil
					}}
				}
				link := fleettest.NewFaults(s.Tier)
				o := weir.Options{TTL: time.Minute, StaleIfError: 24 * time.Hour}
				if gathers {
					o.Batch = weir.Batching{MaxSize: 2, Linger: time.Second}
				}
				a := rig.SiteGuard(s, src, o)
				o.Fleet.Tier = link
				b := rig.SiteGuard(s, src, o)
				load := func(g *weir.Guard[string, rig.Row]) {
					s.Helper()
					received = nil
					keys := []string{"k"}
					if bulk {
						keys = []string{"k", "l"}
					}
					for key, r := range g.GetMany(s.Context(), keys) {
						if r.Err != nil {
							s.Errorf("%s: %v", key, r.Err)
						}
					}
				}
				newer := func(where string, version int, age time.Duration) {
					s.Helper()
					for _, p := range received {
						if !p.OK || p.Value.Version != version || p.Age < age || p.Age > age+10*time.Second {
							s.Errorf("bulk %v, gathered %v: the newer one is in %s: received %+v; want version %d, %v old", bulk, gathers, where, p, version, age)
						}
					}
					if len(received) == 0 {
						s.Error("nothing was loaded")
					}
				}
				load(a)
				load(b)
				time.Sleep(10 * time.Hour)
				s.Version.Store(1)
				load(b)
				time.Sleep(2 * time.Minute)
				s.Version.Store(2)
				load(a)
				newer("the Tier", 1, 2*time.Minute)

				link.Cut()
				time.Sleep(time.Hour)
				s.Version.Store(3)
				load(b) // alone: the Tier still has version 2
				time.Sleep(2 * time.Minute)
				link.Mend()
				time.Sleep(5 * time.Second)
				load(b)
				newer("memory", 3, 2*time.Minute)
			})
		}
	}
}
