package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
)

// cutGrace is how long handlers have to return and be logged after they are cut off.
const cutGrace = time.Second

// lingering is how long connections without a request are kept after the sockets are
// closed. net/http drops a request whose header it reads after Shutdown, and one can be
// on its way.
const lingering = 500 * time.Millisecond

// linger closes the connections without a request after d, or at once if there are no
// connections.
func (p *proxy) linger(d time.Duration) {
	if p.slots.Taken() == 0 {
		d = 0
	}
	time.AfterFunc(d, func() { close(p.closeIdle) })
}

// drain shuts the proxy down, in the steps that the package comment describes. A second
// signal ends the program early; the caller of Run implements that.
func (p *proxy) drain() error {
	// Not ready, and each response asks its client to disconnect. When the log line
	// appears, both are in effect.
	p.state.Store(draining)
	for _, d := range p.listeners {
		if !d.admin {
			d.server.Leave()
		}
	}
	s := p.settings
	p.noteManager(p.manager.Stopping(fmt.Sprintf("draining for up to %v", s.DrainDelay+s.DrainTimeout)))
	p.o.OnDrain("requests in progress")
	p.logger.Info("draining", "delay", s.DrainDelay.String(), "timeout", s.DrainTimeout.String(),
		"requests", p.public.requests.Load(), "upgrades", p.public.upgrades.Load())

	// New requests are still served.
	time.Sleep(s.DrainDelay)

	// Clients that wait for a job get a response, and no more jobs start.
	p.jobs.drain()

	// The sockets are closed, and requests that have begun can finish. Requests left
	// after the timeout are counted before they are cut off.
	var requests, upgrades atomic.Int64
	timeout := time.AfterFunc(s.DrainTimeout, func() {
		requests.Store(p.public.requests.Load())
		upgrades.Store(p.public.upgrades.Load())
		p.endDrain()
	})
	defer timeout.Stop()
	p.linger(min(lingering, s.DrainTimeout/2))
	for _, d := range p.listeners {
		if !d.admin {
			p.retired.Go(func() { _ = d.server.Retire(p.drainCtx, p.closeIdle) }) // its error means that it was cut off, which is counted
		}
	}
	p.retired.Wait()
	p.public.wait(p.drainCtx) // upgraded connections, which the servers do not track

	if err := p.keys.drain(p.drainCtx); err != nil {
		p.logger.Warn("calls with an idempotency key are cut off; their outcome is unknown")
	}

	p.cut()
	p.shutdown()
	if n := upgrades.Load(); n > 0 {
		p.logger.Info("upgraded connections were closed", "upgrades", n)
	}
	if n := requests.Load(); n > 0 {
		return fmt.Errorf("the drain timeout of %v was over: %s cut", s.DrainTimeout, counted(int(n), "request was", "requests were"))
	}
	p.logger.Info("stopped", "uptime", time.Since(p.started).Round(time.Second).String())
	return nil
}

// shutdown closes the rest, as far as it was opened: the admin listener, which reported
// on the drain until now, the gateway, the jobs and the fleet.
func (p *proxy) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), cutGrace)
	defer cancel()
	p.public.wait(ctx)
	p.endDrain()
	p.presence.withdraw(ctx)
	p.adminUI.close()
	for _, d := range p.listeners {
		d.closeStreams()
		_ = d.server.Close() // cut off, or idle
	}
	if p.gateway != nil {
		var lost *fleet.PendingError
		switch err := p.gateway.Close(ctx); {
		case errors.As(err, &lost):
			p.logger.Warn("purges were lost because the fleet did not acknowledge them; other instances serve the purged entries until they expire", "purges", lost.Pending)
		case err != nil:
			p.logger.Warn("the gateway did not close in time", "error", err)
		}
	}
	p.keys.close()
	p.jobs.close()
	p.fleet.close()
	p.telemetry.close()
}
