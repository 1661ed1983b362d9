package entries_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// E6: SetMany sets each key as Set does, and reports the keys that it did not
// set.
func TestE6SetManyIsManySets(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		src := weir.Source[string, int]{Load: m.Load, Weigh: func(_ string, v int) uint32 { return uint32(v) }}
		g := rig.GuardFrom(s, src, weir.Options{TTL: time.Minute, MaxWeight: 50})
		running := s.Get(s.Context(), g, "a")
		err := g.SetMany(s.Context(), map[string]int{"a": 10, "b": 20, "heavy": 60})
		var failed weir.KeyErrors[string]
		if *rig.FleetOfOne { // values too heavy for memory are in the Tier
			if err != nil {
				s.Errorf("SetMany = %v; want nil", err)
			}
		} else if !errors.As(err, &failed) || len(failed) != 1 || !errors.Is(failed["heavy"], weir.ErrNotStored) || !errors.Is(err, weir.ErrNotStored) {
			s.Errorf("SetMany = %v; want ErrNotStored for the heavy key", err)
		}
		for key, v := range map[string]int{"a": 10, "b": 20} {
			if r, _ := g.Peek(key); r.Value != v || r.FreshFor != time.Minute {
				s.Errorf("%s: %+v; want %d", key, r, v)
			}
		}
		if !s.Want(running, 1, nil, time.Second).Superseded {
			s.Error("the load that ran was not superseded")
		}
		if err := g.SetMany(s.Context(), nil); err != nil {
			s.Errorf("SetMany of nothing = %v; want nil", err)
		}
		g.Close(s.Context())
		if err := g.SetMany(s.Context(), map[string]int{"a": 1}); !errors.Is(err, weir.ErrClosed) {
			s.Errorf("SetMany after Close = %v; want ErrClosed", err)
		}
	})
	rig.Tell(t, func(s *rig.Story) {
		g := rig.GuardFrom(s, weir.Source[any, int]{Load: func(context.Context, any) (int, error) { return 1, nil }}, weir.Options{TTL: time.Minute})
		if err := g.SetMany(s.Context(), map[any]int{1: 1, math.NaN(): 2}); err != weir.ErrKey {
			s.Errorf("SetMany with NaN = %v; want ErrKey", err)
		}
		if r, ok := g.Peek(1); ok {
			s.Errorf("Peek = %+v; want nothing set", r)
		}
		if err := g.SetNotFound(s.Context(), math.NaN()); err != weir.ErrKey {
			s.Errorf("SetNotFound of NaN = %v; want ErrKey", err)
		}
	})
}

// E4, E6: SetNotFound is kept for NegativeTTL, and overtakes a running load.
func TestE4SetNotFound(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Minute, NegativeTTL: 10 * sec}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(sec, nil)
		a := s.Ask("other")
		for _, key := range []string{"k", "other"} {
			if err := s.G.SetNotFound(s.Context(), key); err != nil {
				s.Errorf("SetNotFound(%q) = %v; want nil", key, err)
			}
			s.Want(s.Get(key), rig.Negative(weir.FromMemory, 0))
		}
		s.WantAt(a, sec, rig.Superseded(rig.Loaded(2)))
		s.Until(10*sec - 1)
		s.Want(s.Get("other"), rig.Negative(weir.FromMemory, 10*sec-1))
		s.Until(10 * sec)
		s.Want(s.Get("k"), rig.Loaded(3))
	})
	rig.Play(t, weir.Options{TTL: time.Minute}, func(s *rig.Scene) { // nothing that could be kept
		s.Prime("k")
		if err := s.G.SetNotFound(s.Context(), "k"); err != weir.ErrNotStored {
			s.Errorf("SetNotFound without a NegativeTTL = %v; want ErrNotStored", err)
		}
		s.Want(s.Get("k"), rig.Loaded(2)) // the value is gone
	})
}

// E6 in a fleet: a value set by one instance is available to all.
func TestFleetSetManyAndSetNotFound(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(2, func(o *weir.Options) { o.NegativeTTL = time.Minute })
		s.Get(gs[1], "a", 0) // in its memory
		values := make(map[string]rig.Row)
		for i := range 200 { // more than are sent concurrently
			key := string(rune('A' + i))
			values[key] = rig.Row{Key: key, Version: 7}
		}
		values["a"] = rig.Row{Key: "a", Version: 7}
		if err := gs[0].SetMany(s.Context(), values); err != nil {
			s.Errorf("SetMany = %v; want nil", err)
		}
		if err := gs[0].SetNotFound(s.Context(), "gone"); err != nil {
			s.Errorf("SetNotFound = %v; want nil", err)
		}
		synctest.Wait()
		for key, v := range values {
			if got, err := gs[1].Get(s.Context(), key); got != v || err != nil {
				s.Errorf("%q: %v, %v; want %v", key, got, err, v)
			}
		}
		if r := gs[1].GetResult(s.Context(), "gone"); r.State != weir.StateNegative || r.Source != weir.FromTier {
			s.Errorf("%+v; want not found, from the tier", r)
		}
		s.Loaded(1)
	})
}
