package fleets_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/contract/rig"
)

var expiries = map[string]func(context.Context, *weir.Guard[string, rig.Row]) error{
	"tag": func(ctx context.Context, g *weir.Guard[string, rig.Row]) error {
		return g.ExpireTags(ctx, "other", "odd-1")
	},
	"all": func(ctx context.Context, g *weir.Guard[string, rig.Row]) error { return g.ExpireAll(ctx) },
}

// E6: an entry expired by tag is loaded again, and is served if the load fails,
// until its window, counted from the expiry, ends. Entries with other tags stay
// fresh.
func TestE6ExpireTagsKeepsTheWindows(t *testing.T) {
	for name, expire := range expiries {
		t.Run(name, func(t *testing.T) {
			rig.InFleet(t, func(s *rig.Site) {
				g := s.Tagged(1, nil)[0]
				s.Wants(g, 1, 0, weir.StateLoaded)
				s.Wants(g, 2, 0, weir.StateLoaded)
				s.Version.Store(1)
				s.Fail(errors.New("down"))
				time.Sleep(time.Minute)
				if err := expire(s.Context(), g); err != nil {
					s.Fatal(err)
				}
				s.Wants(g, 1, 0, weir.StateStaleOnError)
				if name == "tag" {
					s.Wants(g, 2, 0, weir.StateFresh)
				}
				time.Sleep(time.Minute)
				if r := g.GetResult(s.Context(), "1"); r.Err == nil {
					s.Errorf("GetResult = %+v after the window; want the error", r)
				}
				s.Fail(nil)
				s.Wants(g, 1, 1, weir.StateLoaded)
				s.Wants(g, 1, 1, weir.StateFresh)
			})
		})
	}
}

// E6: a running load is overtaken by the expiry of a tag that its entry has.
func TestE6ExpireTagsBeatsLoadsThatRun(t *testing.T) {
	for name, expire := range expiries {
		t.Run(name, func(t *testing.T) {
			rig.InFleet(t, func(s *rig.Site) {
				for _, tier := range []fleet.Tier{nil, s.Tier} {
					g := s.Tagged(1, tier)[0]
					s.Loads.Store(0)
					s.Version.Store(0)
					before := make(chan weir.Result[rig.Row], 1)
					go func() { before <- g.GetResult(s.Context(), "1") }()
					time.Sleep(s.Takes / 2)
					s.Version.Store(1)
					if err := expire(s.Context(), g); err != nil {
						s.Fatal(err)
					}
					s.Wants(g, 1, 1, weir.StateLoaded)
					if r := <-before; r.Value.Version != 0 || !r.Superseded {
						s.Errorf("who came before got %+v; want version 0, superseded", r)
					}
					s.Wants(g, 1, 1, weir.StateFresh)
					_ = g.InvalidateAll(s.Context())
				}
			})
		})
	}
}

// T8: an expiry by tag reaches all instances: those that have the value, those
// that get it from the Tier, and loads that run elsewhere. The stale windows
// stay.
func TestT8ExpireTagsReachesAll(t *testing.T) {
	for name, expire := range expiries {
		t.Run(name, func(t *testing.T) {
			rig.InFleet(t, func(s *rig.Site) {
				gs := s.Tagged(3, s.Tier)
				s.Wants(gs[0], 1, 0, weir.StateLoaded)
				s.Wants(gs[1], 1, 0, weir.StateFresh)
				s.Wants(gs[0], 2, 0, weir.StateLoaded)
				s.Version.Store(1)
				s.Fail(errors.New("down"))
				if err := expire(s.Context(), gs[0]); err != nil {
					s.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(30 * time.Second)
				for _, g := range gs { // the third has it from the Tier only
					s.Wants(g, 1, 0, weir.StateStaleOnError)
				}
				if name == "tag" {
					s.Wants(gs[2], 2, 0, weir.StateFresh)
				}
				time.Sleep(30 * time.Second)
				late := s.Tagged(1, s.Tier)[0]
				if r := late.GetResult(s.Context(), "1"); r.Err == nil {
					s.Errorf("GetResult = %+v after the window; want the error: it counts from the expiry", r)
				}
				s.Fail(nil)
				for i, g := range gs {
					want := weir.StateFresh
					if i == 0 {
						want = weir.StateLoaded
					}
					s.Wants(g, 1, 1, want)
				}

				before := make(chan struct{})
				_ = gs[0].Invalidate(s.Context(), "1")
				synctest.Wait()
				go func() { _, _ = gs[1].Get(s.Context(), "1"); close(before) }()
				time.Sleep(s.Takes / 2)
				s.Version.Store(2)
				if err := expire(s.Context(), gs[0]); err != nil {
					s.Fatal(err)
				}
				<-before
				for _, g := range gs {
					if v, err := g.Get(s.Context(), "1"); err != nil || v.Version != 2 {
						s.Errorf("Get = %v, %v after a load was overtaken; want version 2", v, err)
					}
				}
			})
		})
	}
}
