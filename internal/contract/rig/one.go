package rig

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// FleetOfOne gives each Guard of the other tests its own fleet, so that the
// contract of the core is tested with a fleet too.
var FleetOfOne = flag.Bool("fleet", false, "run the contract's tests with a fleet of one instance")

// ofOne returns o with a fleet of one, if the keys can be named.
func ofOne[K comparable, V any](src weir.Source[K, V], o weir.Options) weir.Options {
	alone := o
	alone.Fleet = weir.Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{}), Namespace: "one", MemoryCap: 1000 * time.Hour, MaxKeep: 1000 * time.Hour, Lease: time.Second, Cooling: -1}}
	if g, err := weir.NewFrom(src, alone); err == nil {
		g.Close(context.Background())
		alone.Fleet.Tier = fleet.NewMemory(fleet.MemoryOptions{})
		return alone
	}
	return o
}

// NotInFleet skips a test that adds keys to a bulk load while it waits for a
// permit: in a fleet the load is closed before it asks for its keys, and waits
// for the permit afterwards.
func NotInFleet(t *testing.T) {
	t.Helper()
	if *FleetOfOne {
		t.Skip("a fleet's bulk loads are closed earlier")
	}
}
