package fleets_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/contract/rig"
)

// A negative answer of another instance is one here too, also on the fast path
// of a hit.
func TestFleetNotFoundIsShared(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		s.Fail(fmt.Errorf("row 7: %w", weir.ErrNotFound))
		gs := s.Instances(2, func(o *weir.Options) { o.NegativeTTL = time.Minute })
		for _, g := range []*weir.Guard[string, rig.Row]{gs[0], gs[1], gs[1]} {
			if v, err := g.Get(s.Context(), "k"); !errors.Is(err, weir.ErrNotFound) || v != (rig.Row{}) || !strings.Contains(err.Error(), "row 7") {
				s.Errorf("Get = %v, %v; want not found, and of row 7", v, err)
			}
		}
		s.Loaded(1)
	})
}

func TestFleetSetAndExpireReachAll(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(2, func(o *weir.Options) { o.StaleIfError = time.Hour })
		s.Get(gs[0], "k", 0)
		s.Get(gs[1], "k", 0)
		if err := gs[0].Set(s.Context(), "k", rig.Row{Key: "k", Version: 5}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		s.Get(gs[0], "k", 5)
		s.Get(gs[1], "k", 5)
		s.Loaded(1)
		if err := gs[1].Expire(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		s.Fail(rig.ErrDown)
		for _, g := range gs {
			if r := s.Get(g, "k", 5); r.State != weir.StateStaleOnError {
				s.Errorf("State = %v; want stale on error", r.State)
			}
		}
		s.Loaded(2) // the other instance has received the failure
	})
}

func TestFleetPreviousValueComesFromTheTier(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		src := weir.Source[string, rig.Row]{LoadEntry: func(_ context.Context, key string, prev weir.Previous[rig.Row]) (weir.Entry[rig.Row], error) {
			s.Loads.Add(1)
			if prev.OK && prev.Version == "v1" {
				return weir.Entry[rig.Row]{NotModified: true}, nil
			}
			return weir.Entry[rig.Row]{Value: rig.Row{Key: key, Version: 1}, Version: "v1", Tags: []string{"t"}}, nil
		}}
		o := weir.Options{TTL: time.Minute, StaleIfError: time.Hour}
		a, b := rig.SiteGuard(s, src, o), rig.SiteGuard(s, src, o)
		s.Get(a, "k", 1)
		time.Sleep(2 * time.Minute)
		s.Get(b, "k", 1)
		s.Loaded(2)
		if n := b.Stats().NotModified; n != 1 {
			s.Errorf("NotModified = %d; want 1", n)
		}
		if err := a.InvalidateTags(s.Context(), "t"); err != nil { // the tags were kept
			s.Fatal(err)
		}
		synctest.Wait()
		s.Get(b, "k", 1)
		s.Loaded(3)
	})
}

// Keys with a KeyString are found when a push has their name.
func TestFleetKeyString(t *testing.T) {
	type id struct{ tenant, user string }
	rig.InFleet(t, func(s *rig.Site) {
		src := weir.Source[id, int]{
			Load:      func(_ context.Context, k id) (int, error) { s.Loads.Add(1); return strconv.Atoi(k.tenant + k.user) },
			KeyString: func(k id) string { return k.tenant + "/" + k.user },
		}
		a, b := rig.SiteGuard(s, src, weir.Options{TTL: time.Minute}), rig.SiteGuard(s, src, weir.Options{TTL: time.Minute})
		for i := range 3000 { // more than the index holds before it is swept
			if v, err := a.Get(s.Context(), id{"1", fmt.Sprintf("%04d", i)}); err != nil || v != 10_000+i {
				s.Fatalf("Get = %d, %v", v, err)
			}
		}
		b.Get(s.Context(), id{"1", "0007"})
		s.Loaded(3000)
		if err := b.Invalidate(s.Context(), id{"1", "0007"}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		a.Get(s.Context(), id{"1", "0007"})
		s.Loaded(3001)
	})
	if _, err := weir.NewFrom(weir.Source[id, int]{Load: func(context.Context, id) (int, error) { return 0, nil }},
		weir.Options{Name: "n", Fleet: weir.Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{})}}}); err == nil || !strings.Contains(err.Error(), "Source.KeyString") {
		t.Errorf("NewFrom = %v; want a fault of Source.KeyString", err)
	}
}

// F6 in a fleet: a load that panics does not block its key for the others.
func TestFleetPanicIsAFailureForAll(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		src := weir.Source[string, rig.Row]{Load: func(context.Context, string) (rig.Row, error) {
			if s.Loads.Add(1) == 1 {
				time.Sleep(time.Second)
				panic("boom")
			}
			return rig.Row{Key: "k", Version: 1}, nil
		}}
		a, b := rig.SiteGuard(s, src, weir.Options{TTL: time.Minute}), rig.SiteGuard(s, src, weir.Options{TTL: time.Minute})
		failed := make(chan error, 1)
		go func() { _, err := a.Get(s.Context(), "k"); failed <- err }()
		time.Sleep(ms)
		_, err := b.Get(s.Context(), "k")
		var remote *fleet.RemoteError
		if !errors.As(err, &remote) || err.Error() != "weir: the load panicked: boom" {
			s.Errorf("the other got %v; want a RemoteError about boom", err)
		}
		var p *weir.PanicError
		if err := <-failed; !errors.As(err, &p) {
			s.Errorf("it got %v; want a PanicError", err)
		}
		time.Sleep(fleet.DefaultCooling)
		s.Get(b, "k", 1)
		s.Loaded(2)
	})
}

// A value that the codec cannot encode is loaded by each instance, and counted.
func TestFleetUnencodableIsNotShared(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		src := weir.Source[string, any]{Load: func(context.Context, string) (any, error) {
			s.Loads.Add(1)
			return make(chan int), nil
		}}
		for range 2 {
			g := rig.SiteGuard(s, src, weir.Options{TTL: time.Minute})
			if v, err := g.Get(s.Context(), "k"); v == nil || err != nil {
				s.Errorf("Get = %v, %v; want a value", v, err)
			}
		}
		s.Loaded(2)
	})
}

func TestFleetLoadSeesItsFence(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		var fences []uint64
		src := weir.Source[string, rig.Row]{Load: func(ctx context.Context, key string) (rig.Row, error) {
			f, ok := fleet.FenceFrom(ctx)
			if !ok {
				s.Error("the load has no fence")
			}
			fences = append(fences, f)
			return rig.Row{Key: key, Version: 0}, nil
		}}
		g := rig.SiteGuard(s, src, weir.Options{})
		for range 3 {
			g.Refresh(s.Context(), "k")
			time.Sleep(time.Second)
		}
		if len(fences) != 3 || fences[0] >= fences[1] || fences[1] >= fences[2] {
			s.Errorf("fences %v; want three that grow", fences)
		}
	})
}

// A writeless Tier accepts no writes.
type writeless struct{ fleet.Tier }

func (writeless) Write(context.Context, fleet.Key, fleet.Write) (uint64, error) {
	return 0, &fleet.UnavailableError{Op: "write", Err: rig.ErrDown}
}

// An exiting Observer calls runtime.Goexit for one kind of Event, as t.FailNow does.
type exiting struct {
	weir.NopObserver
	at weir.EventKind
}

func (o exiting) Event(_ context.Context, e weir.Event) {
	if e.Kind == o.at {
		runtime.Goexit()
	}
}

// An exitingContext calls runtime.Goexit if somebody wants to wait for its end.
type exitingContext struct{ context.Context }

func (exitingContext) Done() <-chan struct{} { runtime.Goexit(); return nil }

// F6, T12: a write returns, and reports that the fleet does not know of it, though an
// Observer or the context exits on one of the goroutines that write.
func TestF6WriteReturnsThoughACallbackExits(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		g := s.Instance(func(o *weir.Options) {
			o.Fleet.Tier, o.Observer = writeless{s.Tier}, exiting{at: weir.EventInvalidationsPending}
		})
		for range 2 { // the first becomes pending; the second sends it again first
			for _, ctx := range []context.Context{s.Context(), exitingContext{s.Context()}} {
				for name, write := range map[string]func() error{
					"Invalidate": func() error { return g.Invalidate(ctx, "a", "b") },
					"Expire":     func() error { return g.Expire(ctx, "a", "b") },
					"SetMany":    func() error { return g.SetMany(ctx, map[string]rig.Row{"a": {}, "b": {}}) },
				} {
					done := make(chan error, 1)
					go func() {
						defer close(done)
						done <- write()
					}()
					var keys weir.KeyErrors[string]
					if err := <-done; err == nil || errors.As(err, &keys) && len(keys) != 2 {
						s.Errorf("%s = %v; want errors of both keys", name, err)
					}
				}
			}
		}
	})
}

// T4, T5: a holder that is cut off loses its lease. With CancelLost its load ends;
// without it the value goes to the callers that wait here.
func TestFleetLostLease(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
			s.Takes = 3 * time.Second
			link := fleettest.NewFaults(s.Tier)
			holder := s.Instance(func(o *weir.Options) {
				o.Fleet.Tier, o.Fleet.CancelLost = fleet.WithBreaker(link, fleet.BreakerOptions{}), cancel
			})
			other := s.Instance(nil)
			done := make(chan weir.Result[rig.Row], 1)
			go func() { done <- holder.GetResult(s.Context(), "k") }()
			time.Sleep(100 * ms)
			link.Hang()
			time.Sleep(time.Second) // the lease has run out
			s.Version.Store(1)
			go other.Get(s.Context(), "k")
			time.Sleep(100 * ms)
			link.Unhang()
			r := <-done
			switch {
			case cancel && r.Err != weir.ErrLeaseLost:
				s.Errorf("the holder's caller got %+v; want ErrLeaseLost", r)
			case !cancel && (r.Err != nil || r.Value.Version != 0 || !r.Superseded):
				s.Errorf("the holder's caller got %+v; want version 0, superseded", r)
			}
			time.Sleep(5 * time.Second)
			s.Get(other, "k", 1)
			s.Get(holder, "k", 1)
			s.Loaded(2)
		})
	}
}

// T3, T9, T10: without its Tier each instance continues alone; when the Tier is
// back, entries in memory are requested again.
func TestFleetAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
		link := fleettest.NewFaults(s.Tier)
		a := s.Instance(func(o *weir.Options) { o.Fleet.Tier = fleet.WithBreaker(link, fleet.BreakerOptions{}) })
		b := s.Instance(nil)
		s.Get(a, "k", 0)
		s.Get(b, "k", 0)
		time.Sleep(ms) // the lease was due for an extension when the load ended
		link.Hang()
		link.Deafen(true)
		start := time.Now()
		for i := range 5 {
			s.Get(a, fmt.Sprint(i), 0)
		}
		if took, want := time.Since(start), 3*fleet.DefaultDeadline+5*s.Takes; took != want {
			s.Errorf("five misses took %v; want %v: three deadlines, and the loads", took, want)
		}
		if err := a.Invalidate(s.Context(), "k"); !errors.Is(err, fleet.ErrUnavailable) {
			s.Errorf("Invalidate = %v; want ErrUnavailable", err)
		}
		if st := a.Stats().Fleet; st.Alone != 5 || st.Unavailable == 0 {
			s.Errorf("Stats.Fleet = %+v; want 5 alone", st)
		}
		s.Version.Store(1)
		if err := b.Invalidate(s.Context(), "0"); err != nil {
			s.Fatal(err)
		}
		s.Get(a, "0", 0) // it cannot know
		link.Deafen(false)
		link.Unhang()
		time.Sleep(3 * time.Second)
		s.Get(a, "0", 1)
	})
}

func TestFleetFaultsInOptions(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	load := func(context.Context, string) (int, error) { return 0, nil }
	for want, f := range map[string]fleet.Config{
		"Options.Fleet.Tier":       {Lease: time.Second},
		"Options.Fleet.Namespace":  {Tier: tier},
		"Options.Fleet.Lease":      {Tier: tier, Namespace: "n", Lease: fleet.MinLease - 1},
		"Options.Fleet.MemoryCap":  {Tier: tier, Namespace: "n", MemoryCap: -1},
		"Options.Fleet.MaxKeep":    {Tier: tier, Namespace: "n", MaxKeep: -1},
		"Options.Fleet.MaxCooling": {Tier: tier, Namespace: "n", Cooling: 2 * ms, MaxCooling: ms},
	} {
		_, err := weir.New(load, weir.Options{Fleet: weir.Fleet{Config: f}})
		var fault *weir.OptionError
		if !errors.As(err, &fault) || fault.Field != want {
			t.Errorf("New = %v; want a fault of %s", err, want)
		}
	}
	if _, err := weir.New(load, weir.Options{LoadTimeout: -1, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier, Namespace: "n"}}}); err == nil {
		t.Error("New with a fleet and no LoadTimeout = nil; want a fault")
	}
}

// B2 and E2 in a fleet: only one instance refreshes ahead.
func TestFleetRefreshAheadByOne(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(8, func(o *weir.Options) { o.RefreshAhead = 0.5; o.RefreshJitter = -1 })
		for _, g := range gs {
			s.Get(g, "k", 0)
		}
		s.Version.Store(1)
		time.Sleep(31 * time.Second)
		var stale atomic.Int64
		for _, g := range gs {
			if s.Get(g, "k", 0).State != weir.StateFresh {
				stale.Add(1)
			}
		}
		time.Sleep(time.Second)
		for _, g := range gs {
			s.Get(g, "k", 1)
		}
		if s.Loaded(2); stale.Load() > 0 {
			s.Errorf("%d had to wait or were served stale", stale.Load())
		}
	})
}

// T1: pushes may be lost unnoticed, so entries in memory are requested again
// after MemoryCap.
func TestFleetMemoryCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
		link := fleettest.NewFaults(s.Tier)
		deaf := s.Instance(func(o *weir.Options) {
			o.TTL, o.Fleet.Tier, o.Fleet.MemoryCap = time.Hour, link, 10*time.Second
		})
		other := s.Instance(func(o *weir.Options) { o.TTL = time.Hour })
		s.Get(deaf, "k", 0)
		link.Deafen(true)
		s.Version.Store(1)
		if err := other.Invalidate(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		s.Get(other, "k", 1)
		time.Sleep(10*time.Second - s.Takes - ms)
		s.Get(deaf, "k", 0)
		time.Sleep(2 * ms)
		if r := s.Get(deaf, "k", 1); r.Source != weir.FromTier {
			s.Errorf("it came from %v; want the tier", r.Source)
		}
		s.Loaded(2)
	})
}

// keeper is a link whose pushes arrive even if its operations fail, like those
// of an engine that is only slow.
type keeper struct{ *fleettest.Faults }

func (keeper) Abilities() fleet.Abilities { return fleet.Abilities{KeepsPushes: true} }

// T10: after an engine was only slow, entries in memory are not requested
// again; changes pushed meanwhile apply.
func TestFleetSlowEngineIsNotAskedForAll(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
			link := fleettest.NewFaults(s.Tier)
			var tier fleet.Tier = link
			if keeps {
				tier = keeper{link}
			}
			a := s.Instance(func(o *weir.Options) { o.Fleet.Tier = fleet.WithBreaker(tier, fleet.BreakerOptions{}) })
			b := s.Instance(nil)
			for i := range 10 {
				s.Get(a, fmt.Sprint(i), 0)
			}
			time.Sleep(ms)
			link.Hang()
			for i := range 3 {
				s.Get(a, fmt.Sprint("slow", i), 0)
			}
			s.Version.Store(1)
			if err := b.Invalidate(s.Context(), "7"); err != nil {
				s.Fatal(err)
			}
			link.Unhang()
			time.Sleep(3 * time.Second)
			before := a.Stats().Fleet
			for i := range 10 {
				version := 0
				if i == 7 {
					version = 1
				}
				s.Get(a, fmt.Sprint(i), version)
			}
			asked, want := a.Stats().Fleet.Acquires-before.Acquires, uint64(10)
			if keeps {
				want = 1
			}
			if asked != want || keeps != (before.Resets == 0) {
				s.Errorf("keeps pushes %v: %d questions after it, %d resets; want %d", keeps, asked, before.Resets, want)
			}
		})
	}
}
