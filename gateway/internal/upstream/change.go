package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// A Change prepares a Pool for new Options. It has no effect before Commit. Call Commit or
// Drop before preparing another Change of the Pool.
type Change struct {
	pool    *Pool
	o       Options
	servers []*server
	opened  []*server // the new ones among servers
}

// Prepare returns a Change to o. A server that is kept with the same connection options
// keeps its connections, calls and health.
func (p *Pool) Prepare(o Options) (*Change, error) {
	c := &Change{pool: p, o: o}
	now := p.now.Load().servers
	for _, target := range o.Servers {
		u := target.URL
		s := find(now, keyOf(u, o))
		if s == nil {
			t, err := p.env.Open(u, o)
			if err != nil {
				c.Drop()
				return nil, fmt.Errorf("server %s: %w", u, err)
			}
			s = newServer(u, o, t)
			c.opened = append(c.opened, s)
		}
		c.servers = append(c.servers, s)
	}
	return c, nil
}

func find(servers []*server, k key) *server {
	for _, s := range servers {
		if s.key == k {
			return s
		}
	}
	return nil
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
	next := &settings{o: c.o, servers: c.servers}
	var members []choose.Member
	for i, t := range c.o.Servers {
		members = append(members, choose.Member{Server: &c.servers[i].known, Weight: t.Weight, Limit: t.MaxInFlight})
		next.limits = next.limits || t.MaxInFlight > 0
		if s := c.o.Sticky; s != nil {
			next.tokens = append(next.tokens, s.token(c.servers[i].url.String()))
		}
	}
	p.book.Set(p.instant(time.Now()), members, c.o.SlowStart)
	p.now.Store(next)
	var idle []*server
	for _, s := range was.servers {
		if find(c.servers, s.key) == nil {
			idle = p.goneLocked(s, idle)
		}
	}
	for _, s := range c.servers {
		if c.o.Health.Failures < 0 {
			s.readmitLocked()
		}
		if s.stop == nil || c.o.Health != was.o.Health {
			p.watchLocked(s)
		}
		p.barLocked(s)
	}
	p.mu.Unlock()
	for _, s := range idle {
		s.transport.Close()
	}
}

// Retire stops the checks and keeps no idle connections from now on. Later calls
// still find their servers.
func (p *Pool) Retire() {
	p.mu.Lock()
	var idle []*server
	for _, s := range p.now.Load().servers {
		idle = p.goneLocked(s, idle)
	}
	p.mu.Unlock()
	for _, s := range idle {
		s.transport.Close()
	}
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
