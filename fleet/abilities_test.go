package fleet_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/fleet"
)

// A wrapper is a Tier that changes one operation of another.
type wrapper struct{ fleet.Tier }

func (w wrapper) Tags(context.Context, string, []string) (fleet.TagState, error) {
	return fleet.TagState{}, errors.New("not these")
}

// A modest Tier has no optional features.
type modest struct {
	fleet.BaseTier
	wrapper
}

func (modest) Abilities() fleet.Abilities { return fleet.BaseTier{}.Abilities() }

func TestAbilitiesOfWrappers(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	defer m.Close(context.Background())
	inner := fleet.WithBreaker(wrapper{m}, fleet.BreakerOptions{})
	defer inner.Close(context.Background())
	outer := wrapper{inner}

	a := outer.Abilities()
	if a.Meter == nil || a.Roster == nil || a.State == nil {
		t.Fatalf("Abilities = %+v; want a Meter, a Roster and a State", a)
	}
	key := fleet.Key{Namespace: "ns", Name: "k"}
	if got, err := a.Meter.Take(t.Context(), key, fleet.Rate{Permits: 1, Per: 1, Burst: 1}, 1); err != nil || got.Permits != 1 {
		t.Errorf("Take = %+v, %v; want one permit", got, err)
	}
	if got, err := a.Roster.Instances(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("Instances = %v, %v; want none", got, err)
	}
	if a.State().Open {
		t.Error("the breaker is open")
	}
}

func TestAbilitiesThatAreMissing(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	defer m.Close(context.Background())
	b := fleet.WithBreaker(modest{wrapper: wrapper{m}}, fleet.BreakerOptions{})
	defer b.Close(context.Background())
	if a := b.Abilities(); a.Meter != nil || a.Roster != nil || a.KeepsPushes {
		t.Errorf("Abilities = %+v; want those of a Tier that has none, and a State", a)
	}
	if _, err := b.Take(t.Context(), fleet.Key{}, fleet.Rate{}, 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Take = %v; want ErrUnsupported", err)
	}
}
