package fleetlab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/fleet"
)

// An Engine says where the tier of instances is.
type Engine struct {
	Addrs     []string // host:port; of a Cluster all nodes
	Cluster   bool
	Namespace string

	// Deadline of an operation, and the longest time between two probes of an
	// engine that is away. 0: the tier's defaults.
	Deadline, MaxProbe time.Duration

	// Broken, for a proof that experiments see it, is what the tier does not do.
	Broken string
}

// dialTime is how long the engine has to be there.
const dialTime = 5 * time.Second

// open returns a tier with connections of its own, and the function that gives
// it back.
func (e Engine) open() (fleet.Tier, func() error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	t, err := weirredis.New(ctx, weirredis.Options{
		Addresses: e.Addrs, Cluster: e.Cluster,
		Breaker: fleet.BreakerOptions{Deadline: e.Deadline, MaxProbe: e.MaxProbe, Probe: min(e.MaxProbe, fleet.DefaultProbe)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("fleetlab: the tier: %w", err)
	}
	b, err := newBroken(t, e.Broken)
	if err != nil {
		return nil, nil, errors.Join(err, t.Close(context.Background()))
	}
	return b, func() error { return t.Close(context.Background()) }, nil
}
