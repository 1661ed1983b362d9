package upstream

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// This file follows names whose addresses are servers (H37).

const (
	maxAddresses  = 64              // of a name
	absences      = 3               // answers without an address after which it leaves
	lookupTimeout = 5 * time.Second // of one lookup
	retryLookup   = time.Second     // after a failed one, while a name has no addresses
	tellEvery     = time.Minute     // a change of a name's addresses is reported at most this often
	reachTimeout  = 2 * time.Second // of a connection that only shows whether a family works
	reached       = 4               // addresses of a family that are tried for that
)

// A name is a host whose addresses are looked up while it is configured. Its servers change, and
// what is known of each belongs to the machine: an address that has left and comes back begins anew.
type name struct {
	key   key
	base  Target
	first chan struct{} // closed after the first lookup

	// Guarded by the Pool's mu.
	servers  []*server // by address
	six      bool      // the family in use, if there are servers
	looked   bool      // first is closed
	stop     context.CancelFunc
	period   time.Duration
	err      error  // of the latest lookup
	failures uint64 // of lookups
	told     time.Time
	untold   bool // the addresses have changed since then
}

// A place is what a Target is in a Pool: one server, or a name with any number of them.
type place struct {
	target Target
	server *server // nil for a name
	name   *name
}

// NameStats has the same fields as gateway.NameStats.
type NameStats struct {
	Name      string
	Addresses int
	Failures  uint64
	Error     string
}

// Names returns a snapshot of the names whose addresses are servers.
func (p *Pool) Names() (all []NameStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.now.Load().places {
		if n := at.name; n != nil {
			one := NameStats{Name: n.base.URL.String(), Addresses: len(n.servers), Failures: n.failures}
			if n.err != nil {
				one.Error = n.err.Error()
			}
			all = append(all, one)
		}
	}
	return all
}

// expandLocked returns the settings for places: the present servers of each. The Pool's mu must be held.
func expandLocked(o Options, places []place) *settings {
	next := &settings{o: o, places: places}
	add := func(s *server, t Target) {
		next.servers, next.targets = append(next.servers, s), append(next.targets, t)
		next.serving = next.serving || t.Weight > 0
		if o.Sticky != nil {
			next.tokens = append(next.tokens, o.Sticky.token(s.identity()))
		}
	}
	for _, at := range places {
		next.limits = next.limits || at.target.MaxInFlight > 0
		if at.server != nil {
			add(at.server, at.target)
			continue
		}
		for _, s := range at.name.servers {
			add(s, at.target)
		}
	}
	return next
}

// useLocked makes next the settings of p. p.mu must be held.
func (p *Pool) useLocked(next *settings) {
	var members []choose.Member
	for i, t := range next.targets {
		members = append(members, choose.Member{Server: &next.servers[i].known, Weight: t.Weight, Limit: t.MaxInFlight})
	}
	p.book.Set(p.instant(time.Now()), members, next.o.SlowStart)
	p.now.Store(next)
}

// followLocked starts the lookups of n, or changes their period. p.mu must be held.
func (p *Pool) followLocked(n *name, period time.Duration) {
	if n.stop != nil && n.period == period {
		return
	}
	if n.stop != nil {
		n.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop, n.period = cancel, period
	p.env.Background.Go(func() { p.follow(ctx, n, period) })
}

// forgetLocked ends the lookups of n. p.mu must be held.
func (p *Pool) forgetLocked(n *name) {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
	if !n.looked { // requests that wait for it look again at what there is
		n.looked = true
		close(n.first)
	}
}

// follow looks n up each period until ctx ends. It is started by followLocked and ended by the
// name's stop.
func (p *Pool) follow(ctx context.Context, n *name, period time.Duration) {
	for {
		began := time.Now()
		none := p.lookUp(ctx, n)
		if ctx.Err() != nil {
			return
		}
		wait := period
		if none {
			wait = min(wait, retryLookup)
		}
		if pause(ctx, wait-time.Since(began)) != nil {
			return
		}
	}
}

// lookUp looks n up once and reports whether it has no addresses still.
func (p *Pool) lookUp(ctx context.Context, n *name) (none bool) {
	o := p.now.Load().o
	found, err := p.find(ctx, o, n.base.URL.Hostname())
	six := false
	if err == nil {
		found, six = p.family(ctx, o, n, found)
	}
	if ctx.Err() != nil {
		return false // another lookup may have begun
	}
	var idle []*server
	p.mu.Lock()
	if ctx.Err() != nil {
		p.mu.Unlock()
		return false
	}
	failing := n.err != nil
	if err == nil {
		idle, err = p.answeredLocked(n, found, six)
	}
	if n.err = err; err != nil {
		n.failures++
	}
	if !n.looked {
		n.looked = true
		close(n.first)
	}
	change, tell := n.changeLocked(failing)
	none = len(n.servers) == 0
	p.mu.Unlock()
	closeAll(idle)
	if tell {
		p.tell(change)
	}
	return none
}

// find returns the addresses of host, without duplicates.
func (p *Pool) find(ctx context.Context, o Options, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := p.env.Lookup(ctx, o, host)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() {
			addresses = append(addresses, a)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	if addresses = slices.Compact(addresses); len(addresses) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addresses, nil
}

// family returns the addresses of one family. A machine with two is one server, and DNS does not say which
// of them are of one machine. The family in use stays while one of its servers works, and otherwise it is the first
// that connects, IPv6 first (RFC 6724).
func (p *Pool) family(ctx context.Context, o Options, n *name, found []netip.Addr) (one []netip.Addr, six bool) {
	var four []netip.Addr
	for _, a := range found {
		if a.Is4() {
			four = append(four, a)
		}
	}
	ipv6 := slices.DeleteFunc(slices.Clone(found), netip.Addr.Is4)
	p.mu.Lock()
	known, six := len(n.servers) > 0, n.six
	works := slices.ContainsFunc(n.servers, func(s *server) bool { return !s.faultyLocked() })
	last := slices.ContainsFunc(n.servers, func(s *server) bool { return s.missing >= absences-1 })
	p.mu.Unlock()
	switch {
	case known && works && six && (len(ipv6) > 0 || !last):
		return ipv6, true
	case known && works && !six && (len(four) > 0 || !last):
		return four, false
	case len(four) == 0:
		return ipv6, true
	case len(ipv6) == 0:
		return four, false
	case p.reaches(ctx, o, n, ipv6):
		return ipv6, true
	case p.reaches(ctx, o, n, four) || known && !six:
		return four, false
	}
	return ipv6, true
}

// reaches reports whether one of the first addresses accepts a connection.
func (p *Pool) reaches(ctx context.Context, o Options, n *name, addresses []netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, min(cmp.Or(o.ConnectTimeout, reachTimeout), reachTimeout))
	defer cancel()
	ok := make(chan struct{}, reached)
	var all sync.WaitGroup
	for _, a := range addresses[:min(len(addresses), reached)] {
		all.Go(func() {
			if p.env.Connects(ctx, netip.AddrPortFrom(a, portOf(n.base.URL))) {
				ok <- struct{}{}
				cancel() // one is enough
			}
		})
	}
	all.Wait()
	return len(ok) > 0
}

// faultyLocked reports whether the latest calls or checks of s have failed. The Pool's mu must be held.
func (s *server) faultyLocked() bool { return s.fails.Load() > 0 || !s.usable() }

// answeredLocked applies a lookup. Its error is that of the only addresses there are. It returns the servers
// that have left. p.mu must be held.
func (p *Pool) answeredLocked(n *name, found []netip.Addr, six bool) (idle []*server, err error) {
	o := p.now.Load().o
	port := portOf(n.base.URL)
	switched := len(n.servers) > 0 && n.six != six
	var stay []*server
	for _, s := range n.servers {
		if i, ok := slices.BinarySearchFunc(found, s.key.at.Addr(), netip.Addr.Compare); ok {
			found = slices.Delete(found, i, i+1)
			s.missing = 0
		} else {
			s.missing++
		}
		if s.missing < absences && (s.missing == 0 || !s.faultyLocked()) && !switched {
			stay = append(stay, s)
		} else {
			idle = p.goneLocked(s, idle)
		}
	}
	var fresh []*server
	for _, a := range found[:min(len(found), max(maxAddresses-len(stay), 0))] {
		at := netip.AddrPortFrom(a, port)
		t, failed := p.env.Open(n.base.URL, at, o)
		if failed != nil {
			err = failed
			continue
		}
		fresh = append(fresh, newServer(n.base.URL, at, o, t))
	}
	if len(idle) == 0 && len(fresh) == 0 {
		return nil, err
	}
	n.servers, n.six, n.untold = append(stay, fresh...), six, true
	slices.SortFunc(n.servers, func(a, b *server) int { return a.key.at.Compare(b.key.at) })
	p.renewLocked(fresh)
	return idle, err
}

// renewLocked uses the present servers of all names, of which fresh are new. p.mu must be held.
func (p *Pool) renewLocked(fresh []*server) {
	now := p.now.Load()
	p.useLocked(expandLocked(now.o, now.places))
	for _, s := range fresh {
		p.watchLocked(s)
	}
}

// departLocked removes s, which has failed, if the latest answer was without it and there are others. It
// returns whether it did. p.mu must be held.
func (p *Pool) departLocked(s *server) bool {
	if s.missing == 0 {
		return false
	}
	for _, at := range p.now.Load().places {
		n := at.name
		if n == nil || len(n.servers) < 2 {
			continue
		}
		if i := slices.Index(n.servers, s); i >= 0 {
			n.servers = slices.Delete(slices.Clone(n.servers), i, i+1)
			n.untold = true
			p.goneLocked(s, nil)
			p.renewLocked(nil)
			return true
		}
	}
	return false
}

// changeLocked returns what is to be reported after a lookup; failing says whether the one before has
// failed. The Pool's mu must be held.
func (n *name) changeLocked(failing bool) (c ServerChange, tell bool) {
	c.Server = n.base.URL.String()
	switch {
	case n.err != nil && !failing:
		c.State, c.Err = Unresolved, n.err
		return c, true
	case n.err != nil:
		return c, false
	case !failing && (!n.untold || time.Since(n.told) < tellEvery):
		return c, false
	}
	c.State = Resolved
	for _, s := range n.servers {
		c.Addresses = append(c.Addresses, s.key.at.Addr())
	}
	n.told, n.untold = time.Now(), false
	return c, true
}

// resolved waits for the first lookup of each name while no server gets calls. Its error is a
// *fault.UnresolvedError if there are none after that.
func (p *Pool) resolved(ctx context.Context) (*settings, error) {
	for {
		now := p.now.Load()
		if now.serving {
			return now, nil
		}
		var first chan struct{}
		var cause error
		p.mu.Lock()
		for _, at := range now.places {
			if n := at.name; n != nil && !n.looked {
				first = n.first
			} else if n != nil {
				cause = cmp.Or(cause, n.err)
			}
		}
		p.mu.Unlock()
		if first == nil {
			if now := p.now.Load(); now.serving {
				return now, nil
			}
			return nil, &fault.UnresolvedError{Err: cmp.Or(cause, error(&net.DNSError{Err: "no addresses"}))}
		}
		select {
		case <-first:
		case <-ctx.Done():
			return nil, cmp.Or(context.Cause(ctx), context.Canceled)
		}
	}
}

func closeAll(servers []*server) {
	for _, s := range servers {
		s.transport.Close()
	}
}
