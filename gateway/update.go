package gateway

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/weir-go/weir/gateway/internal/route"
	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/weirhttp"
)

// Update replaces the Gateway's configuration for new requests; requests in flight finish
// under the old one. If it returns an error, nothing has changed: the error joins an
// [*OptionError] for every fault of c, or is [ErrClosed].
//
// Unchanged parts keep their state. An upstream is identified by its name. It keeps its
// limit and queue, its counters, and each of its servers with connections and health, as
// long as their configuration is equal. A removed server gets no new calls and finishes
// those in flight; then its connections are closed. A changed limit counts the calls that
// already run under it, unless it switches between fixed and adaptive. TLS counts as
// unchanged if the pointer is the same. A route is identified by its name, too. It keeps
// its counters if it is unchanged and has no Rewrite, and Name, TrustedProxies, MaxDrain,
// Clients, Fleet and Observer are unchanged too. If a route changes, its own Concurrency
// counts the calls in flight, and its clients keep their spent rate, unless RateBy, NoFleet
// or TrustedProxies change. The cache cannot change: c.Cache must be nil or the current
// one. Neither can Fleet, except for its settings of rates.
func (g *Gateway) Update(c Config) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return ErrClosed
	}
	c = c.clone()
	f := option.Faults{Package: "gateway"}
	f.Check(c.Cache == nil || c.Cache == g.cache, "Cache", "another", "nil, or the one that New was given")
	f.Check(c.Claims == nil || c.Claims == g.claims, "Claims", "another", "nil, or those that New was given")
	for i, r := range c.Routes {
		f.Check(r.Idempotency == nil || g.claims != nil, index("Routes", i)+".Idempotency", "set", "nil without Claims, which New was not given")
	}
	if was := g.now.Load(); was != nil {
		f.Check(c.Fleet.options() == was.config.Fleet.options(), "Fleet", "another", "the one that New was given")
	}
	f.Add(c.Validate())
	if err := f.Err(); err != nil {
		return err
	}
	p := plan{g: g, before: g.now.Load()}
	if p.before == nil {
		p.before = &state{}
	}
	if err := p.make(c); err != nil {
		p.drop()
		return err
	}
	p.commit()
	return nil
}

// A plan is an Update that has been prepared but not committed.
type plan struct {
	g             *Gateway
	before, after *state
	fresh         []*source // to be retired if the plan is dropped
	changes       []*upstream.Change
	limits        []func() // functions that apply the changed limits
}

// make prepares everything that can fail.
func (p *plan) make(c Config) error {
	p.after = &state{config: c, name: cmp.Or(c.Name, defaultName), sources: map[string]*source{}, reading: c.reading()}
	for i, u := range c.Upstreams {
		src, err := p.source(u)
		if err != nil {
			return fmt.Errorf("gateway: %s (%s): %w", index("Upstreams", i), u.Name, err)
		}
		p.after.sources[u.Name] = src
	}
	var rules []route.Rule
	for i, r := range c.Routes {
		rules = append(rules, route.Rule{Hosts: r.Hosts, Path: r.Path, Methods: r.Methods, Match: route.Match(r.PathMatch)})
		src := p.after.sources[c.upstream(r).Name]
		h := p.kept(c, r, src)
		if h == nil {
			var err error
			if h, err = p.handler(c, r, src); err != nil {
				return fmt.Errorf("gateway: %s (%s): %w", index("Routes", i), r.Name, err)
			}
		}
		p.after.handlers = append(p.after.handlers, h)
	}
	p.after.index = route.New(rules)
	return nil
}

// source returns the source for u: the existing one of that name, to be changed, or a new
// one.
func (p *plan) source(u Upstream) (*source, error) {
	src := p.before.sources[u.Name]
	old := Upstream{}
	if src != nil {
		old = p.before.config.Upstreams[slices.IndexFunc(p.before.config.Upstreams, func(o Upstream) bool { return o.Name == u.Name })]
		change, err := src.pool.Prepare(u.poolOptions())
		if err != nil {
			return nil, err
		}
		p.changes = append(p.changes, change)
	} else {
		pool, err := upstream.New(u.poolOptions(), upstream.Surroundings{
			Open: openTransport, Lookup: lookup, Connects: connects, Background: &p.g.background, Jitter: upstream.Jitter, Apart: apart,
			Changed: func(c upstream.ServerChange) { p.g.serverChanged(u.Name, c) },
		})
		if err != nil {
			return nil, err
		}
		src = &source{name: u.Name, pool: pool, stated: weirhttp.NewStatedLimits(u.stated())}
		src.shared = weirhttp.NewSharedLimiter(&src.calls, 1) // until commit
		p.fresh = append(p.fresh, src)
	}
	if src.calls.now.Load() == nil || !u.sameCalls(old) {
		gate, err := u.callGate(p.g.storm)
		if err != nil {
			return nil, err
		}
		p.limits = append(p.limits, func() { src.calls.set(gate) })
	}
	if src.streams.now.Load() == nil || u.Streams != old.Streams {
		gate, err := u.streamGate()
		if err != nil {
			return nil, err
		}
		p.limits = append(p.limits, func() { src.streams.set(gate) })
	}
	p.limits = append(p.limits, func() {
		src.budget.set("upstream", u.Name, u.Budget, p.after.config.Fleet)
		src.stated.Update(u.stated())
	})
	return src, nil
}

// kept returns the existing handler for r, or nil if r or the settings around it have
// changed.
func (p *plan) kept(c Config, r Route, src *source) *handler {
	was := p.before.config
	if c.Name != was.Name || c.MaxDrain != was.MaxDrain || c.KeepUnderscores != was.KeepUnderscores || c.Clients != was.Clients || !same(c.Observer, was.Observer) ||
		!slices.Equal(c.TrustedProxies, was.TrustedProxies) || (c.Fleet == nil) != (was.Fleet == nil) ||
		c.Fleet != nil && *c.Fleet != *was.Fleet {
		return nil
	}
	for _, h := range p.before.handlers {
		if h.route.Name == r.Name && h.source == src && h.path == r.path(c.upstream(r)) && reflect.DeepEqual(h.route, r) &&
			h.cost == r.cost(c.upstream(r)) && h.obeys == (c.upstream(r).MaxPause > 0) &&
			h.tells == fieldOf(c.upstream(r).TellDeadline) && h.standby.same(p, c, r) {
			return h
		}
	}
	return nil
}

// named returns the handler of the route of that name, or an empty one.
func (s *state) named(name string) *handler {
	for _, h := range s.handlers {
		if h.route.Name == name {
			return h
		}
	}
	return new(handler)
}

// same compares observers, some of which are not comparable.
func same(a, b weirhttp.Observer) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// drop discards the plan.
func (p *plan) drop() {
	for _, c := range p.changes {
		c.Drop()
	}
	for _, s := range p.fresh {
		s.pool.Retire()
	}
}

// commit applies the plan. Requests in flight use the servers and limits of the new
// configuration under the handlers of the old one; a removed source serves them until they
// end.
func (p *plan) commit() {
	for _, put := range p.limits {
		put()
	}
	for _, c := range p.changes {
		c.Commit()
	}
	for _, src := range p.after.sources {
		src.shared.SetBlockedShare(p.after.config.Clients.BlockedShare)
	}
	p.g.now.Store(p.after)
	for name, src := range p.before.sources {
		if p.after.sources[name] == nil {
			src.pool.Retire()
		}
	}
}
