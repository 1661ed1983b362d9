package weir_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// odd is 1 for the keys with an odd number, and 0 for the others.
func odd(key string) string {
	n, _ := strconv.Atoi(key)
	return strconv.Itoa(n % 2)
}

// tagged makes Guards of a fleet, or one without, whose entries have the tags
// "all" and "odd-0" or "odd-1".
func (s *site) tagged(n int, tier fleet.Tier) []*weir.Guard[string, row] {
	s.Helper()
	o := weir.Options{Name: "tagged", TTL: time.Hour, StaleIfError: time.Minute}
	if tier != nil {
		o.Fleet.Config = fleet.Config{Tier: tier, Cooling: -1}
	}
	all := make([]*weir.Guard[string, row], n)
	for i := range all {
		all[i] = weir.Must(weir.NewFrom(weir.Source[string, row]{LoadEntry: func(ctx context.Context, key string, _ weir.Previous[row]) (weir.Entry[row], error) {
			v, err := s.load(ctx, key)
			return weir.Entry[row]{Value: v, Tags: []string{"all", "odd-" + odd(key)}}, err
		}}, o))
		s.Cleanup(func() { _ = all[i].Close(context.Background()) })
	}
	return all
}

func (s *site) wants(g *weir.Guard[string, row], key, version int, state weir.State) {
	s.Helper()
	if r := g.GetResult(s.Context(), fmt.Sprint(key)); r.Err != nil || r.Value.Version != version || r.State != state {
		s.Errorf("GetResult(%d) = %+v; want version %d, %v", key, r, version, state)
	}
}

var expiries = map[string]func(context.Context, *weir.Guard[string, row]) error{
	"tag": func(ctx context.Context, g *weir.Guard[string, row]) error {
		return g.ExpireTags(ctx, "other", "odd-1")
	},
	"all": func(ctx context.Context, g *weir.Guard[string, row]) error { return g.ExpireAll(ctx) },
}

// E6: an entry expired by tag is loaded again, and is served if the load fails,
// until its window, counted from the expiry, ends. Entries with other tags stay
// fresh.
func TestE6ExpireTagsKeepsTheWindows(t *testing.T) {
	for name, expire := range expiries {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(s *site) {
				g := s.tagged(1, nil)[0]
				s.wants(g, 1, 0, weir.StateLoaded)
				s.wants(g, 2, 0, weir.StateLoaded)
				s.version.Store(1)
				s.fail(errors.New("down"))
				time.Sleep(time.Minute)
				if err := expire(s.Context(), g); err != nil {
					s.Fatal(err)
				}
				s.wants(g, 1, 0, weir.StateStaleOnError)
				if name == "tag" {
					s.wants(g, 2, 0, weir.StateFresh)
				}
				time.Sleep(time.Minute)
				if r := g.GetResult(s.Context(), "1"); r.Err == nil {
					s.Errorf("GetResult = %+v after the window; want the error", r)
				}
				s.fail(nil)
				s.wants(g, 1, 1, weir.StateLoaded)
				s.wants(g, 1, 1, weir.StateFresh)
			})
		})
	}
}

// E6: a running load is overtaken by the expiry of a tag that its entry has.
func TestE6ExpireTagsBeatsLoadsThatRun(t *testing.T) {
	for name, expire := range expiries {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(s *site) {
				for _, tier := range []fleet.Tier{nil, s.tier} {
					g := s.tagged(1, tier)[0]
					s.loads.Store(0)
					s.version.Store(0)
					before := make(chan weir.Result[row], 1)
					go func() { before <- g.GetResult(s.Context(), "1") }()
					time.Sleep(s.takes / 2)
					s.version.Store(1)
					if err := expire(s.Context(), g); err != nil {
						s.Fatal(err)
					}
					s.wants(g, 1, 1, weir.StateLoaded)
					if r := <-before; r.Value.Version != 0 || !r.Superseded {
						s.Errorf("who came before got %+v; want version 0, superseded", r)
					}
					s.wants(g, 1, 1, weir.StateFresh)
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
			inFleet(t, func(s *site) {
				gs := s.tagged(3, s.tier)
				s.wants(gs[0], 1, 0, weir.StateLoaded)
				s.wants(gs[1], 1, 0, weir.StateFresh)
				s.wants(gs[0], 2, 0, weir.StateLoaded)
				s.version.Store(1)
				s.fail(errors.New("down"))
				if err := expire(s.Context(), gs[0]); err != nil {
					s.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(30 * time.Second)
				for _, g := range gs { // the third has it from the Tier only
					s.wants(g, 1, 0, weir.StateStaleOnError)
				}
				if name == "tag" {
					s.wants(gs[2], 2, 0, weir.StateFresh)
				}
				time.Sleep(30 * time.Second)
				late := s.tagged(1, s.tier)[0]
				if r := late.GetResult(s.Context(), "1"); r.Err == nil {
					s.Errorf("GetResult = %+v after the window; want the error: it counts from the expiry", r)
				}
				s.fail(nil)
				for i, g := range gs {
					want := weir.StateFresh
					if i == 0 {
						want = weir.StateLoaded
					}
					s.wants(g, 1, 1, want)
				}

				before := make(chan struct{})
				_ = gs[0].Invalidate(s.Context(), "1")
				synctest.Wait()
				go func() { _, _ = gs[1].Get(s.Context(), "1"); close(before) }()
				time.Sleep(s.takes / 2)
				s.version.Store(2)
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
