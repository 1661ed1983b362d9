package scenarios

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/scenario"
)

// BrokenChaos is the scenario fleet-chaos with a tier broken in one of fleetlab's
// ways, and with a single fault. Without cap the instances' memory has no MemoryCap.
func BrokenChaos(how, fault string, cap bool) scenario.Scenario {
	s := fleetChaos
	s.Run = func(ctx context.Context, l *scenario.Lab) error {
		set := newChaosSetup(l)
		set.After = 2500 * time.Millisecond // longer than the longest bound, with everything else added
		set.Service.Engine.Broken = how
		if !cap {
			set.Service.MemoryCap = time.Hour
		}
		i := slices.IndexFunc(chaosFaults, func(f chaosFault) bool { return f.name == fault })
		return runFleetChaos(ctx, l, set, chaosFaults[i:i+1])
	}
	return s
}
