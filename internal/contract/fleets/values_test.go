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

// T6: a call that demands a load gets none from before it, although it joins a flight that
// only asks the Tier, on behalf of a call that accepts any value.
func TestT6_ForcedCallsAcceptNoEarlierLoad(t *testing.T) {
	for name, refresh := range map[string]func(s *rig.Site, g *weir.Guard[string, rig.Row]) weir.Result[rig.Row]{
		"Refresh": func(s *rig.Site, g *weir.Guard[string, rig.Row]) weir.Result[rig.Row] {
			return g.RefreshResult(s.Context(), "k")
		},
		"RefreshMany": func(s *rig.Site, g *weir.Guard[string, rig.Row]) weir.Result[rig.Row] {
			return g.RefreshMany(s.Context(), []string{"k"})["k"]
		},
		"Bypass": func(s *rig.Site, g *weir.Guard[string, rig.Row]) weir.Result[rig.Row] {
			return g.GetWith(s.Context(), "k", weir.Policy{Bypass: true})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
			link := fleettest.NewFaults(s.Tier)
			a, b := s.Instance(nil), s.Instance(func(o *weir.Options) { o.Fleet.Tier = link })
			s.Get(a, "k", 0)
			time.Sleep(10 * time.Second)
			s.Version.Store(1)
			link.Hang()
			go s.Get(b, "k", 0) // any value is good enough
			synctest.Wait()
			got := make(chan weir.Result[rig.Row], 1)
			go func() { got <- refresh(s, b) }()
			synctest.Wait()
			link.Unhang()
			if r := <-got; r.Err != nil || r.Value.Version != 1 {
				t.Errorf("%s = %+v; want the version of a load after the call", name, r)
			}
			s.Loaded(2)
		})
	}
}

// T4: of two values that can stand in for a failed load, the newer one does, although the
// older one is in this instance's memory.
func TestT4_TheNewerValueStandsIn(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(2, func(o *weir.Options) { o.StaleIfError = 24 * time.Hour })
		s.Get(gs[0], "k", 0)
		time.Sleep(10 * time.Hour)
		s.Version.Store(1)
		s.Get(gs[1], "k", 1)
		time.Sleep(2 * time.Minute)
		s.Fail(errors.New("down"))
		if r := s.Get(gs[0], "k", 1); r.State != weir.StateStaleOnError || r.Age > 3*time.Minute {
			s.Errorf("got %+v; want the value of two minutes ago", r)
		}
	})
}

// T4: an expiry elsewhere ends the freshness of a value, and does not make it older.
func TestT4_AnExpiryDoesNotChangeTheAge(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(2, func(o *weir.Options) { o.TTL, o.StaleIfError = 10*time.Minute, time.Hour })
		s.Get(gs[0], "k", 0)
		time.Sleep(10 * time.Second)
		if err := gs[0].Expire(s.Context(), "k"); err != nil {
			s.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.Fail(errors.New("down"))
		r := gs[1].GetResult(s.Context(), "k")
		if r.Err != nil || r.State != weir.StateStaleOnError || r.Age < 12*time.Second || r.Age > 13*time.Second {
			s.Errorf("got %+v; want the value that is 12 s old", r)
		}
	})
}

// T3: a Tier that hangs, and has no Breaker in front of it, costs one deadline, and then
// nothing: a Guard puts one there.
func TestT3_ATierWithoutABreakerMayHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
		link := fleettest.NewFaults(s.Tier)
		g := s.Instance(func(o *weir.Options) { o.Fleet.Tier, o.TTL = link, time.Second })
		s.Takes = 0
		link.Hang()
		for i := range 20 {
			from := time.Now()
			s.Get(g, "k", 0)
			if took := time.Since(from); took > 2*fleet.DefaultDeadline || i > 5 && took > 0 {
				t.Errorf("call %d took %v; want at most a deadline, and nothing after some of them", i, took)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		if !g.Stats().Fleet.Open {
			t.Error("the breaker is not open")
		}
		link.Unhang()
	})
}

// Guards of different types that share a Namespace by mistake do not get each other's
// values, although each could decode them.
func TestFleet_AnotherTypeIsNotDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := fleet.NewMemory(fleet.MemoryOptions{})
		o := weir.Options{Name: "same", TTL: time.Hour}
		o.Fleet.Tier = tier
		type price struct{ Amount, Cents int }
		type weight struct{ Amount, Grams int }
		prices := weir.Must(weir.New(func(context.Context, string) (price, error) { return price{Amount: 1}, nil }, o))
		weights := weir.Must(weir.New(func(context.Context, string) (weight, error) { return weight{Amount: 2}, nil }, o))
		defer prices.Close(t.Context())
		defer weights.Close(t.Context())
		for range 2 {
			if p, err := prices.Get(t.Context(), "k"); err != nil || p.Amount != 1 {
				t.Errorf("the price is %+v, %v; want 1", p, err)
			}
			if w, err := weights.Get(t.Context(), "k"); err != nil || w.Amount != 2 {
				t.Errorf("the weight is %+v, %v; want 2", w, err)
			}
		}
		if n := weights.Stats().Fleet.Undecoded; n == 0 {
			t.Error("no value counts as not decoded")
		}
	})
}

// O2: the calls of an iteration that ends early are counted, also that for a key whose load
// has returned and is being settled.
func TestO2_AnIterationThatEndsEarlyCountsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rig.NewSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
		link := fleettest.NewFaults(s.Tier)
		g := s.Instance(func(o *weir.Options) { o.Fleet.Tier = link })
		s.Get(g, "a", 0)
		go s.Get(g, "b", 0)
		time.Sleep(s.Takes - time.Millisecond)
		link.Hang()
		time.Sleep(2 * time.Millisecond)
		for range g.GetManySeq(t.Context(), []string{"a", "b"}) {
			break
		}
		link.Unhang()
		time.Sleep(time.Second)
		if st := g.Stats(); st.Calls() != 4 {
			t.Errorf("%d calls are counted; want 4: %+v", st.Calls(), st)
		}
	})
}
