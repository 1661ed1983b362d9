package fleets_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/contract/rig"
)

// A closed Guard gets no pushes, so it cannot know what others invalidate. Until Close has
// left the fleet it serves what is fresh, as without one.
func TestT10ClosedGuardServesNothingThatOthersMayHaveInvalidated(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		all := s.Instances(2, func(o *weir.Options) { o.StaleIfError = time.Hour })
		a, b := all[0], all[1]
		s.Get(a, "k", 0)
		if err := a.Close(s.Context()); err != nil {
			s.Fatal(err)
		}
		if err := b.Invalidate(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		if r := a.GetResult(s.Context(), "k"); r.Err != weir.ErrClosed {
			s.Errorf("GetResult after Close and an invalidation elsewhere = %+v; want ErrClosed", r)
		}
		if r := a.GetMany(s.Context(), []string{"k"})["k"]; r.Err != weir.ErrClosed {
			s.Errorf("GetMany after Close = %+v; want ErrClosed", r)
		}
		if r, ok := a.Peek("k"); ok {
			s.Errorf("Peek after Close = %+v; want nothing", r)
		}
	})
}

// While a load that ignores its cancellation keeps Close waiting, the Guard is still in the
// fleet: fresh values are served, and an invalidation by another instance removes them.
func TestT10ClosingGuardFollowsItsFleet(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		ignores := make(chan struct{})
		load := func(ctx context.Context, key string) (rig.Row, error) {
			if key == "hangs" {
				<-ignores
			}
			return rig.Row{Key: key}, nil
		}
		a, err := weir.New(load, weir.Options{Name: "rows", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.Tier}}})
		if err != nil {
			s.Fatal(err)
		}
		b := s.Instance(nil)
		s.Get(a, "k", 0)
		s.Get(a, "kept", 0)
		go a.Get(s.Context(), "hangs")
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- a.Close(s.Context()) }()
		synctest.Wait()
		if err := b.Invalidate(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		if r := a.GetResult(s.Context(), "k"); r.Err != weir.ErrClosed {
			s.Errorf("invalidated while Close waits: %+v; want ErrClosed", r)
		}
		if r := s.Get(a, "kept", 0); r.Source != weir.FromMemory {
			s.Errorf("while Close waits: %+v; want it from memory", r)
		}
		close(ignores)
		if err := <-done; err != nil {
			s.Errorf("Close = %v; want nil", err)
		}
		if r := a.GetResult(s.Context(), "kept"); r.Err != weir.ErrClosed {
			s.Errorf("after Close: %+v; want ErrClosed", r)
		}
	})
}

// A holder's report may take long on its way to the Tier: that time is part of the value's age.
func TestT14FreshnessCountsFromTheLoadAndNotFromTheReport(t *testing.T) {
	const ms = time.Millisecond
	rig.InFleet(t, func(s *rig.Site) {
		slow := fleettest.NewFaults(s.Tier)
		slow.Before(func(op string) {
			if op == "settle" {
				time.Sleep(5 * ms)
			}
		})
		plain := s.Tier
		s.Tier, s.Takes = slow, 3*ms
		a := s.Instance(func(o *weir.Options) { o.TTL, o.Fleet.Cooling = 10*ms, 10*ms })
		s.Tier = plain
		b := s.Instance(func(o *weir.Options) { o.TTL, o.Fleet.Cooling = 10*ms, 10*ms })
		s.Get(a, "k", 0) // loaded at 3 ms, reported at 8 ms
		time.Sleep(2 * ms)
		if r := s.Get(b, "k", 0); r.Source != weir.FromTier || r.Age != 7*ms || r.FreshFor != 3*ms {
			s.Errorf("7 ms after the load: %+v; want it from the tier, 7 ms old and fresh for 3 ms", r)
		}
		time.Sleep(3 * ms)
		s.Version.Store(1)
		if r := s.Get(b, "k", 1); r.Source != weir.FromLoad {
			s.Errorf("10 ms after the load: %+v; want a load", r)
		}
	})
}

// A push of a change ends the freshness of the old value in the memory of others. The value is
// removed if it was invalidated; if it was replaced, it may still be served instead of an error.
// An instance that is cut off serves what is fresh for MemoryCap, and then only instead of an
// error. The comment of weir.Fleet and docs/explain/fleet.md say the same.
func TestT8WhatAPushLeavesInTheMemoryOfOthers(t *testing.T) {
	down := errors.New("source down")
	const capped = 10 * time.Second
	for name, c := range map[string]struct {
		change  func(*rig.Site, *weir.Guard[string, rig.Row]) error
		missed  bool // the instance is cut off before the change
		at      time.Duration
		served  bool
		fromErr bool
	}{
		"replaced":                   {change: setElsewhere, served: true, fromErr: true},
		"expired":                    {change: expireElsewhere, served: true, fromErr: true},
		"invalidated":                {change: invalidateElsewhere},
		"replaced, push missed":      {change: setElsewhere, missed: true, at: capped - time.Second, served: true},
		"invalidated, push missed":   {change: invalidateElsewhere, missed: true, at: capped - time.Second, served: true},
		"replaced, after the cap":    {change: setElsewhere, missed: true, at: capped, served: true, fromErr: true},
		"after all windows are over": {change: setElsewhere, missed: true, at: 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			rig.InFleet(t, func(s *rig.Site) {
				change := func(o *weir.Options) {
					o.StaleIfError = time.Hour
					o.Fleet.MemoryCap = capped
				}
				line, plain := fleettest.NewFaults(s.Tier), s.Tier
				s.Tier = line
				a := s.Instance(change)
				s.Tier = plain
				b := s.Instance(change)
				s.Get(a, "k", 0)
				if c.missed {
					line.Cut()
				}
				s.Version.Store(1)
				if err := c.change(s, b); err != nil {
					s.Fatal(err)
				}
				synctest.Wait()
				if !c.missed {
					line.Cut()
				}
				time.Sleep(c.at)
				s.Fail(down)
				r := a.GetResult(s.Context(), "k")
				switch {
				case !c.served:
					if !errors.Is(r.Err, down) {
						s.Errorf("got %+v; want the source's error", r)
					}
				case r.Err != nil || r.Value.Version != 0 || (r.State == weir.StateStaleOnError) != c.fromErr:
					s.Errorf("got %+v; want the old value, instead of an error: %v", r, c.fromErr)
				}
			})
		})
	}
}

func setElsewhere(s *rig.Site, g *weir.Guard[string, rig.Row]) error {
	return g.Set(s.Context(), "k", rig.Row{Key: "k", Version: 1})
}
func expireElsewhere(s *rig.Site, g *weir.Guard[string, rig.Row]) error {
	return g.Expire(s.Context(), "k")
}
func invalidateElsewhere(s *rig.Site, g *weir.Guard[string, rig.Row]) error {
	return g.Invalidate(s.Context(), "k")
}
