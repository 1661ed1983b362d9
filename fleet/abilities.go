package fleet

import "context"

// Abilities are what a Tier can do beyond its operations; nil, or false, is what it
// cannot. A Tier that wraps another one returns the other's, with those that it
// wraps too in its own form.
type Abilities struct {
	Meter  Meter  // counts permits for the whole fleet
	Roster Roster // knows the instances of the fleet

	// State returns how the breaker before the engine stands.
	State func() BreakerState
	// Ping asks the engine for a sign of life, and nothing else. Without it a
	// [Breaker] asks for the tag "" of the namespace "".
	Ping func(context.Context) error
	// KeepsPushes says that the Tier looks after its pushes apart from its operations,
	// and tells Watchers Lost and Reset itself when some may have been missed.
	KeepsPushes bool
}

// A BaseTier is what every Tier embeds, or a Tier that does, so that later versions
// can add to the interface: it has no Abilities.
type BaseTier struct{}

// Abilities is of [Tier].
func (BaseTier) Abilities() Abilities { return Abilities{} }

func (BaseTier) embedded() {}
