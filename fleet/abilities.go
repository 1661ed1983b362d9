package fleet

import "context"

// Abilities are the optional features of a Tier; a nil or false field means that the
// Tier lacks it. A Tier that wraps another one returns the inner Tier's Abilities,
// and replaces those that it wraps as well.
type Abilities struct {
	Meter  Meter  // counts permits for the whole fleet
	Ledger Ledger // counts units of cost for the whole fleet
	Roster Roster // knows the instances of the fleet

	// State returns the state of the breaker in front of the engine.
	State func() BreakerState
	// Ping checks that the engine responds, and does nothing else. Without it a
	// [Breaker] calls Tags with the tag "" of the namespace "".
	Ping func(context.Context) error
	// KeepsPushes reports that the Tier watches its push connection separately from
	// its operations, and calls Lost and Reset of its Watchers itself if pushes may
	// have been missed.
	KeepsPushes bool
	// InProcess reports that the Tier is in this process, so that none of its operations
	// can hang. In front of another Tier without State, a Guard and a Handler put a
	// [Breaker] with its defaults (T3).
	InProcess bool
}

// A BaseTier has no Abilities. Every Tier embeds it, directly or through another
// Tier, so that later versions can add methods to the interface.
type BaseTier struct{}

// Abilities implements [Tier].
func (BaseTier) Abilities() Abilities { return Abilities{} }

func (BaseTier) embedded() {}
