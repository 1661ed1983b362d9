package weir_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// T6: a call that demands a load gets none from before it, although it joins a flight that
// only asks the Tier, on behalf of a call that accepts any value.
func TestT6_ForcedCallsAcceptNoEarlierLoad(t *testing.T) {
	for name, refresh := range map[string]func(s *site, g *weir.Guard[string, row]) weir.Result[row]{
		"Refresh": func(s *site, g *weir.Guard[string, row]) weir.Result[row] { return g.RefreshResult(s.Context(), "k") },
		"RefreshMany": func(s *site, g *weir.Guard[string, row]) weir.Result[row] {
			return g.RefreshMany(s.Context(), []string{"k"})["k"]
		},
		"Bypass": func(s *site, g *weir.Guard[string, row]) weir.Result[row] {
			return g.GetWith(s.Context(), "k", weir.Policy{Bypass: true})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, fleet.NewMemory(fleet.MemoryOptions{}))
			link := fleettest.NewFaults(s.tier)
			a, b := s.instance(nil), s.instance(func(o *weir.Options) { o.Fleet.Tier = link })
			s.get(a, "k", 0)
			time.Sleep(10 * time.Second)
			s.version.Store(1)
			link.Hang()
			go s.get(b, "k", 0) // any value is good enough
			synctest.Wait()
			got := make(chan weir.Result[row], 1)
			go func() { got <- refresh(s, b) }()
			synctest.Wait()
			link.Unhang()
			if r := <-got; r.Err != nil || r.Value.Version != 1 {
				t.Errorf("%s = %+v; want the version of a load after the call", name, r)
			}
			s.loaded(2)
		})
	}
}

// T4: of two values that can stand in for a failed load, the newer one does, although the
// older one is in this instance's memory.
func TestT4_TheNewerValueStandsIn(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(2, func(o *weir.Options) { o.StaleIfError = 24 * time.Hour })
		s.get(gs[0], "k", 0)
		time.Sleep(10 * time.Hour)
		s.version.Store(1)
		s.get(gs[1], "k", 1)
		time.Sleep(2 * time.Minute)
		s.fail(errors.New("down"))
		if r := s.get(gs[0], "k", 1); r.State != weir.StateStaleOnError || r.Age > 3*time.Minute {
			s.Errorf("got %+v; want the value of two minutes ago", r)
		}
	})
}
