package scenarios

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/scenario"
)

// BrokenChaos is the scenario fleet-chaos with a tier that is broken in a way of
// package fleetlab's, and with one of the faults. Without a cap the instances'
// memory has none.
func BrokenChaos(how, fault string, cap bool) scenario.Scenario {
	s := fleetChaos
	s.Run = func(ctx context.Context, l *scenario.Lab) error {
		set := newChaosSetup(l)
		set.After = 2500 * time.Millisecond // longer than the longest bound, with the rest
		set.Service.Engine.Broken = how
		if !cap {
			set.Service.MemoryCap = time.Hour
		}
		i := slices.IndexFunc(chaosFaults, func(f chaosFault) bool { return f.name == fault })
		return runFleetChaos(ctx, l, set, chaosFaults[i:i+1])
	}
	return s
}
