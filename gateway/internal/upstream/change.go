package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// A Change prepares a Pool for new Options. It has no effect before Commit. Call Commit or
// Drop before preparing another Change of the Pool.
type Change struct {
	pool   *Pool
	o      Options
	places []place
	opened []*server // the new ones
}

// Prepare returns a Change to o. A server that is kept with the same connection options
// keeps its connections, calls and health.
func (p *Pool) Prepare(o Options) (*Change, error) {
	c := &Change{pool: p, o: o}
	now := p.now.Load().places
	for _, target := range o.Servers {
		u := target.URL
		at := find(now, keyOf(u, o), target.Resolve > 0)
		at.target = target
		if target.Resolve > 0 {
			if at.name == nil {
				at.name = &name{key: keyOf(u, o), base: target, first: make(chan struct{})}
			}
		} else if at.server == nil {
			t, err := p.env.Open(u, netip.AddrPort{}, o)
			if err != nil {
				c.Drop()
				return nil, fmt.Errorf("server %s: %w", u, err)
			}
			at.server = newServer(u, netip.AddrPort{}, o, t)
			c.opened = append(c.opened, at.server)
		}
		c.places = append(c.places, at)
	}
	return c, nil
}

// find returns the place of a server or of a name with that key, or an empty one.
func find(places []place, k key, named bool) place {
	for _, at := range places {
		if named && at.name != nil && at.name.key == k || !named && at.server != nil && at.server.key == k {
			return at
		}
	}
	return place{}
}

// Drop discards the Change.
func (c *Change) Drop() {
	for _, s := range c.opened {
		s.transport.Close()
	}
}

// Commit applies the Change. A removed server gets no more calls. Its idle
// connections are closed now, and again when its last call has ended.
func (c *Change) Commit() {
	p := c.pool
	p.mu.Lock()
	was := p.now.Load()
	next := expandLocked(c.o, c.places)
	p.useLocked(next)
	var idle []*server
	for _, s := range was.servers {
		if !slices.Contains(next.servers, s) {
			idle = p.goneLocked(s, idle)
		}
	}
	for _, at := range was.places {
		if at.name != nil && find(c.places, at.name.key, true).name == nil {
			p.forgetLocked(at.name)
		}
	}
	for _, at := range c.places {
		if at.name != nil {
			p.followLocked(at.name, at.target.Resolve)
		}
	}
	for _, s := range next.servers {
		if c.o.Health.Failures < 0 {
			s.readmitLocked()
		}
		if s.stop == nil || c.o.Health != was.o.Health {
			p.watchLocked(s)
		}
		p.barLocked(s)
	}
	p.mu.Unlock()
	closeAll(idle)
}

// Retire stops the checks and lookups, and keeps no idle connections from now on. Later calls
// still find their servers.
func (p *Pool) Retire() {
	p.mu.Lock()
	var idle []*server
	for _, s := range p.now.Load().servers {
		idle = p.goneLocked(s, idle)
	}
	for _, at := range p.now.Load().places {
		if at.name != nil {
			p.forgetLocked(at.name)
		}
	}
	p.mu.Unlock()
	closeAll(idle)
}

// goneLocked marks s as gone and adds it to idle, the servers whose connections
// are to be closed. p.mu must be held.
func (p *Pool) goneLocked(s *server, idle []*server) []*server {
	s.gone.Store(true)
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
	return append(idle, s)
}

// watchLocked starts health checks of s and stops its previous ones. p.mu must
// be held.
func (p *Pool) watchLocked(s *server) {
	if s.stop != nil {
		s.stop()
	}
	s.stop, s.good, s.bad = nil, 0, 0
	h := p.now.Load().o.Health
	if h.Path == "" {
		s.ill = false
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	p.env.Background.Go(func() { p.watch(ctx, s, h) })
}

// Jitter is the Jitter of a Pool outside tests: it returns d plus or minus up to
// half of d.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}
