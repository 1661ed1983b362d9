package gateway

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Defaults for a Config.
const (
	defaultName      = "weir"
	defaultDrain     = 256 << 10
	defaultQueueWait = 10 * time.Second
	defaultIdle      = 60 * time.Second
)

// clone returns a deep copy of c, so that Update can compare it with the original even if
// the caller changes c in place.
func (c Config) clone() Config {
	c.TrustedProxies = slices.Clone(c.TrustedProxies)
	if c.Fleet != nil {
		fleet := *c.Fleet
		c.Fleet = &fleet
	}
	c.Upstreams = slices.Clone(c.Upstreams)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Servers = slices.Clone(u.Servers)
		u.ServerSettings = slices.Clone(u.ServerSettings)
		u.Failures = slices.Clone(u.Failures)
		if u.Affinity != nil {
			affinity := *u.Affinity
			affinity.By = slices.Clone(affinity.By)
			u.Affinity = &affinity
		}
		if u.Sticky != nil {
			sticky := *u.Sticky
			sticky.Key = slices.Clone(sticky.Key)
			u.Sticky = &sticky
		}
		if u.TellDeadline != nil {
			field := *u.TellDeadline
			u.TellDeadline = &field
		}
		if u.Budget != nil {
			budget := *u.Budget
			u.Budget = &budget
		}
		u.Retry.On = slices.Clone(u.Retry.On)
		u.Retry.Methods = slices.Clone(u.Retry.Methods)
	}
	c.Routes = slices.Clone(c.Routes)
	for i := range c.Routes {
		c.Routes[i] = c.Routes[i].clone()
	}
	return c
}

func (r Route) clone() Route {
	if r.Budget != nil {
		budget := *r.Budget
		r.Budget = &budget
	}
	if r.Deadline != nil {
		field := *r.Deadline
		r.Deadline = &field
	}
	if r.ClientBudget != nil {
		budget := *r.ClientBudget
		r.ClientBudget = &budget
	}
	if r.Rate != nil {
		rate := *r.Rate
		r.Rate = &rate
	}
	if r.Hedge != nil {
		own := *r.Hedge
		r.Hedge = &own
	}
	if r.Idempotency != nil {
		own := *r.Idempotency
		own.Keep, own.Principal = slices.Clone(own.Keep), slices.Clone(own.Principal)
		r.Idempotency = &own
	}
	for _, list := range []*[]string{
		&r.Hosts, &r.Methods, &r.RemoveRequest, &r.RemoveResponse, &r.Cache.Vary, &r.Cache.VaryCookies,
		&r.Query.Keep, &r.Query.Drop, &r.Cache.IgnoreHeaders, &r.Cache.UnkeyedHeaders, &r.Cache.IgnoreCookies, &r.Cache.Targeted, &r.Cache.Overrides,
		&r.Events.IncompleteTypes, &r.Events.IncompleteData,
	} {
		*list = slices.Clone(*list)
	}
	r.Failures = slices.Clone(r.Failures)
	r.Reads = cloneReads(r.Reads)
	r.Fallback = r.Fallback.clone()
	r.SetRequest, r.SetResponse = r.SetRequest.Clone(), r.SetResponse.Clone()
	return r
}

func cloneReads(rules []weirhttp.ReadRule) []weirhttp.ReadRule {
	rules = slices.Clone(rules)
	for i := range rules {
		r := &rules[i]
		for _, list := range []*[]string{&r.Methods, &r.Types, &r.Ignore} {
			*list = slices.Clone(*list)
		}
		r.Only = slices.Clone(r.Only)
		for i := range r.Only {
			r.Only[i].Values = slices.Clone(r.Only[i].Values)
		}
	}
	return rules
}

// stated returns the options of what u obeys.
func (u Upstream) stated() weirhttp.StatedLimitsOptions {
	return weirhttp.StatedLimitsOptions{Name: u.Name, MaxPause: cmp.Or(u.MaxPause, -1), MaxWait: u.QueueWait}
}

// cost returns what calls of r cost, which go to u.
func (r Route) cost(u Upstream) weirhttp.Cost { return cmp.Or(r.Cost, u.Cost) }

// options returns the options that r sets for its own Handler.
func (r Route) options() weirhttp.Options {
	o := weirhttp.Options{
		Policy: r.Cache, Reads: r.Reads, Events: r.Events, Query: r.Query, MaxVariants: r.MaxVariants,
		NoStore: r.NoStore, NoCoalescing: r.Coalesce == CoalesceNone, FinishAbandoned: r.FinishAbandoned, Observe: r.Observe,
		MaxObject: r.MaxObject, RefreshAhead: r.RefreshAhead, Cooling: r.Cooling, MaxCooling: r.MaxCooling,
		HeadTimeout: r.Timeout, IdleTimeout: r.IdleTimeout, StreamIdleTimeout: r.StreamIdleTimeout,
		ReceiptKey: r.ReceiptKey, NoReceipt: r.NoReceipt,
		HotKeys: max(cmp.Or(r.HotKeys, DefaultHotKeys), 0), Deadline: fieldOf(r.Deadline),
		Route:   r.Name,
		Gateway: true, RequestID: forward.RequestID,
	}
	if p := r.Priority; p != limit.Normal {
		o.Priority = func(*http.Request) limit.Priority { return p }
	}
	return o
}

// fieldOf returns what p points to, or no field.
func fieldOf(p *weirhttp.DurationField) weirhttp.DurationField {
	if p == nil {
		return weirhttp.DurationField{}
	}
	return *p
}

// handler returns the handler for r, which calls up.
func (p *plan) handler(c Config, r Route, up *source) (*handler, error) {
	g, was := p.g, p.before.named(r.Name)
	trusted := trust(c.TrustedProxies)
	h := &handler{route: r, source: up, rejected: &g.rejected, errors: g.writeError, path: r.path(c.upstream(r)), trust: trusted, underscores: c.KeepUnderscores}
	o := r.options()
	o.Policy.ForwardingDropped = len(trusted) == 0 // see received
	hides := r.hidesAddress()
	o.Policy.AnyClient = o.Policy.AnyClient || hides || r.Coalesce == CoalesceAnyClient
	// What the servers do not get from the client cannot matter to them.
	o.Policy.UnkeyedHeaders = slices.Concat(o.Policy.UnkeyedHeaders, canonicalNames(r.RemoveRequest), slices.Sorted(maps.Keys(canonical(r.SetRequest))))
	o.Name = cmp.Or(c.Name, defaultName)
	o.Cache, o.StoredTargets = g.cache, g.storedTargets
	o.Scheme = trusted.scheme
	o.Idempotency = r.Idempotency.policy(g.claims, trusted)
	o.Observer = c.Observer
	o.ErrorHandler = g.writeError
	if !r.NoFleet {
		o.Fleet = c.Fleet.options()
	}
	o.Clients = c.Clients
	if r.Concurrency > 0 {
		own, err := newGate(r.Name, false, bounds{r.Concurrency, r.Queue, r.QueueWait, r.OverloadAfter, c.upstream(r).MaxRetryAfter, c.upstream(r).MinConcurrency, g.storm})
		if err != nil {
			return nil, err
		}
		if h.calls = was.calls; h.calls == nil {
			h.calls = &valve{own: true}
			h.calls.set(own)
		} else {
			p.limits = append(p.limits, func() { h.calls.set(own) })
		}
	}
	if h.budget = was.budget; h.budget == nil {
		h.budget = &purse{own: true}
	}
	p.limits = append(p.limits, func() { h.budget.set("route", r.Name, r.Budget, c.Fleet) })
	h.cost, h.obeys = r.cost(c.upstream(r)), c.upstream(r).MaxPause > 0
	h.tells = fieldOf(c.upstream(r).TellDeadline)
	if err := p.clientBudget(c, h, was, trusted.client); err != nil {
		return nil, err
	}
	o.ClientBudget = h.clientBudget
	if r.Rate != nil {
		rate := *r.Rate
		rate.Name = r.Name
		rate.Client = trusted.client
		rate.Key = clientKey(r.RateBy, rate.Client)
		if t := o.Fleet.Tier; t != nil && t.Abilities().Meter != nil {
			rate.Fleet = weirhttp.ClientLimiterFleet{
				Meter: t.Abilities().Meter, Namespace: o.Fleet.Namespace, OnFailure: c.Fleet.RateFailure, Instances: c.Fleet.Instances,
			}
		}
		var err error
		if h.clients, err = weirhttp.NewClientLimiter(rate); err != nil {
			return nil, err
		}
		// The clients' counts are kept unless clients are now identified differently.
		if same := was.clients; same != nil && was.route.RateBy == r.RateBy && was.route.NoFleet == r.NoFleet && slices.Equal(c.TrustedProxies, p.before.config.TrustedProxies) {
			p.limits = append(p.limits, func() { _ = same.Update(rate) }) // valid, as it made another
			h.clients = same
		}
		o.ClientLimiter = h.clients
	}
	fallback, err := p.standby(c, h, was, o)
	if err != nil {
		return nil, err
	}
	if h.standby != nil {
		o.Fallback = h.standby.option()
	}
	if h.http, err = p.forwards(c, h, c.upstream(r), up, o, fallback); err != nil {
		return nil, err
	}
	return h, nil
}

// forwards returns a Handler for the route of h, whose calls go to u, with its limits. o are the
// options of the route.
func (p *plan) forwards(c Config, h *handler, u Upstream, to *source, o weirhttp.Options, fallback *upstream.Fallback) (*weirhttp.Handler, error) {
	r := h.route
	o.Streams, o.Limiter = &to.streams, to.shared
	if u.Fair == FairClient {
		o.Tenant = fairByClient(h.trust.client, r.Priority)
	}
	if h.calls != nil {
		o.Limiter = limit.All(h.calls, to.shared)
	}
	if o.Cost = r.cost(u); o.Cost != (weirhttp.Cost{}) {
		o.Budget = limit.All(h.budget, &to.budget)
	} else {
		o.ClientBudget = nil // there is nothing to pay
	}
	o.ReleaseAbandoned, o.TellDeadline = u.ReleaseAbandoned, fieldOf(u.TellDeadline)
	route := upstream.RouteOptions{Name: r.Name, Failures: r.Failures, Client: h.trust.client, Fallback: fallback}
	if u.MaxPause > 0 {
		route.Responded = func(resp *http.Response) { to.stated.Observe(resp.StatusCode, resp.Header) }
		if o.Budget != nil {
			o.Budget = limit.All(to.stated, o.Budget)
		} else {
			o.Limiter = limit.All(to.stated, o.Limiter)
		}
	}
	route.Hedge = p.hedging(h, to, o.Limiter)
	work := cmp.Or(r.Timeout, weirhttp.DefaultTimeout)
	if o.ReleaseAbandoned || r.Concurrency <= 0 && u.Concurrency < 0 && !u.Adaptive {
		work = 0 // no permit waits for the server, and nothing bounds how many connections would
	}
	return weirhttp.New(&forward.Forwarder{
		RoundTrip:       to.pool.Route(route).RoundTrip,
		Via:             o.Name,
		LoopID:          p.g.loopID,
		MaxDrain:        cmp.Or(c.MaxDrain, defaultDrain),
		Trusted:         h.trust.peer,
		DropUnderscores: !c.KeepUnderscores,
		HidesAddress:    r.hidesAddress(),
		Path:            r.path(u),
		SetRequest:      canonical(r.SetRequest),
		SetResponse:     canonical(r.SetResponse),
		RemoveRequest:   canonicalNames(r.RemoveRequest),
		RemoveResponse:  canonicalNames(r.RemoveResponse),
		IdleTimeout:     cmp.Or(r.IdleTimeout, defaultIdle),

		StreamIdleTimeout: cmp.Or(r.StreamIdleTimeout, r.IdleTimeout, defaultIdle),
		Work:              work,
	}, o)
}

// hidesAddress reports whether the servers of r do not learn the address of a client.
func (r Route) hidesAddress() bool {
	hides := func(name string) bool {
		return name == "*" || strings.EqualFold(name, "X-Forwarded-For")
	}
	return slices.ContainsFunc(r.Cache.IgnoreHeaders, hides) || slices.ContainsFunc(r.RemoveRequest, hides)
}

func canonical(h http.Header) http.Header {
	if h == nil {
		return nil
	}
	c := make(http.Header)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		k := textproto.CanonicalMIMEHeaderKey(name)
		c[k] = append(c[k], h[name]...)
	}
	return c
}

func canonicalNames(names []string) []string {
	names = slices.Clone(names)
	for i := range names {
		names[i] = textproto.CanonicalMIMEHeaderKey(names[i])
	}
	return names
}

// poolOptions returns what of u is for its pool, with the defaults.
func (u Upstream) poolOptions() upstream.Options {
	h, r := u.Health, u.Retry
	o := upstream.Options{
		ConnectTimeout: cmp.Or(u.ConnectTimeout, 5*time.Second),
		IdleConn:       cmp.Or(u.IdleConn, 2*time.Second),
		MaxIdleConns:   cmp.Or(u.MaxIdleConns, 256),
		Resolver:       u.Resolver,
		MaxConnAge:     max(cmp.Or(u.MaxConnAge, 5*time.Minute), 0),
		TLS:            u.TLS,
		SlowStart:      max(cmp.Or(u.SlowStart, 10*time.Second), 0),
		Failures:       u.Failures,
		Affinity:       u.Affinity.options(),
		Sticky:         u.Sticky.options(),
		Health: upstream.Health{
			Path:      h.Path,
			Interval:  cmp.Or(h.Interval, 2*time.Second),
			Timeout:   cmp.Or(h.Timeout, time.Second),
			Healthy:   cmp.Or(h.Healthy, 2),
			Unhealthy: cmp.Or(h.Unhealthy, 3),
			Failures:  cmp.Or(h.Failures, 5),
			Eject:     cmp.Or(h.Eject, 10*time.Second),
		},
		Retry: upstream.Retry{
			Attempts: max(r.Attempts, 1),
			On:       r.On,
			Methods:  r.Methods,
			Budget:   cmp.Or(r.Budget, 10),
			Backoff:  cmp.Or(r.Backoff, 25*time.Millisecond),
		},
	}
	if h.Path != "" {
		o.Health.Path = u.BasePath + h.Path
	}
	switch u.Host {
	case "", PreserveHost:
	case ServerHost:
		o.OwnHost = true
	default:
		o.Host = u.Host
	}
	if r.On == nil {
		o.Retry.On = []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	if r.Methods == nil {
		o.Retry.Methods = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	}
	if u.Failures == nil {
		o.Failures = []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	for i, s := range u.Servers {
		if base, _, ok := parseServer(s); ok { // or the Config is not valid
			set := u.settings(i)
			o.Servers = append(o.Servers, upstream.Target{URL: base, Weight: max(cmp.Or(set.Weight, 1), 0), MaxInFlight: set.MaxInFlight, Resolve: set.Resolve})
		}
	}
	return o
}

// settings returns the settings of the ith server.
func (u Upstream) settings(i int) ServerSettings {
	if i < len(u.ServerSettings) {
		return u.ServerSettings[i]
	}
	return ServerSettings{}
}

// lookup is upstream.Surroundings.Lookup.
func lookup(ctx context.Context, o upstream.Options, host string) ([]netip.Addr, error) {
	return cmp.Or(o.Resolver, net.DefaultResolver).LookupNetIP(ctx, "ip", host)
}

// connects is upstream.Surroundings.Connects.
func connects(ctx context.Context, at netip.AddrPort) bool {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// openTransport is upstream.Surroundings.Open.
func openTransport(base *url.URL, at netip.AddrPort, o upstream.Options) (upstream.Transport, error) {
	t, err := forward.NewTransport(forward.Options{
		BaseURL: base, Address: at, ConnectTimeout: o.ConnectTimeout, IdleConn: o.IdleConn, MaxIdleConns: o.MaxIdleConns, TLS: o.TLS,
		MaxConnAge: o.MaxConnAge, Resolver: o.Resolver,
		ServerName: hostname(o.Host),
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
