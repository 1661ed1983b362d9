package proxy

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"

	"github.com/weir-go/weir/console/build"
	"github.com/weir-go/weir/fleet"
)

// newID returns an ID for this process.
func newID() string { return rand.Text()[:16] }

// A presence announces this program to the fleet until it is withdrawn.
type presence struct {
	stop context.CancelFunc
	done chan struct{}
}

// announce starts the presence. If the fleet is out of reach, its watcher reports that.
func announce(r fleet.Roster, tell func() fleet.Instance) *presence {
	ctx, cancel := context.WithCancel(context.Background())
	a := &presence{stop: cancel, done: make(chan struct{})}
	go func() { // ended by withdraw, which waits for it
		defer close(a.done)
		_ = fleet.Announce(ctx, r, tell, 0) // an entry that cannot be withdrawn expires soon
	}()
	return a
}

// withdraw ends the presence and removes the program from the fleet. It waits until ctx
// ends.
func (a *presence) withdraw(ctx context.Context) {
	if a == nil {
		return
	}
	a.stop()
	select {
	case <-a.done:
	case <-ctx.Done(): // it fails when the fleetClient is closed
	}
}

// instance returns what the program announces to the fleet.
func (p *proxy) instance() fleet.Instance {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	i := fleet.Instance{
		ID: p.id, Name: fmt.Sprintf("%s:%d", host, os.Getpid()), Address: *p.adminURL.Load(), Version: build.Version(),
		Started: p.started.UTC(), Counts: map[string]uint64{},
	}
	for _, r := range p.gateway.Stats().Routes {
		i.Counts["requests"] += r.Requests
		i.Counts["calls"] += r.Calls
		i.Counts["avoided"] += r.Hits + r.Stale + r.Joined
		i.Counts["refused"] += r.RefusedBy.Total()
	}
	return i
}
