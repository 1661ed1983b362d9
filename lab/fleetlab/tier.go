package fleetlab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/fleet"
)

// An Engine is the engine of the instances' tier.
type Engine struct {
	Addrs     []string // host:port; all nodes of a Cluster
	Cluster   bool
	Namespace string

	// Deadline bounds an operation, and MaxProbe the time between two probes of an
	// engine that is down. 0: the tier's defaults.
	Deadline, MaxProbe time.Duration

	// Broken breaks the tier in one way, to prove that experiments detect it.
	Broken string
}

// dialTime is how long the engine has to accept a connection.
const dialTime = 5 * time.Second

// open returns a tier with its own connections, and the function that closes it.
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
