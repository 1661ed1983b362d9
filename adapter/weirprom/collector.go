package weirprom

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/weirhttp"
)

// Errors of New, AddGuard, AddRoute and AddInterceptor.
var (
	// ErrName: a Guard, a Route or an interceptor has no name, so its metrics could not be
	// distinguished.
	ErrName = errors.New("weirprom: a name is required")
	// ErrTaken: another Guard, Route or interceptor has that name.
	ErrTaken = errors.New("weirprom: the name is taken")
	// ErrNil: the Guard, the Route or the interceptor is nil.
	ErrNil = errors.New("weirprom: nil")
	// ErrCache: Options has a Cache and a Gateway with a different one.
	ErrCache = errors.New("weirprom: the gateway has a different cache")
)

// Options are the sources that a Collector collects from. All are optional.
type Options struct {
	// Guards must have names, all different.
	Guards []weir.Inspector
	// Routes by the value of the label route.
	Routes map[string]Route
	// Gateway is reported with its routes, upstreams, servers and cache, as they are
	// at a scrape.
	Gateway *gateway.Gateway
	// Interceptors are a *weirgrpc.Server or a *weirgrpc.Client each, with different names.
	// Their Guards are reported too, and must not be in Guards.
	Interceptors []metrics.Interceptor
	// Cache is the cache that Routes share. With a Gateway it may be omitted: the
	// Gateway's own cache is used.
	Cache *weirhttp.Cache
}

// A Route is a *weirhttp.Handler or a *weirhttp.Transport.
type Route interface {
	Stats() weirhttp.Stats
	Alone() weirhttp.AloneStats
	RequestTimes() inspect.Durations
	CallTimes() inspect.Durations
	WaitTimes() inspect.Durations
}

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ Route                = (*weirhttp.Handler)(nil)
	_ Route                = (*weirhttp.Transport)(nil)
)

// A Collector reports Guards, HTTP handlers, gRPC methods and a Gateway to Prometheus. All of one
// registry belong in one Collector. It describes every name that it could report, so
// a registry rejects any further Collector (prometheus.AlreadyRegisteredError) unless
// each has been wrapped with a distinct label (prometheus.WrapRegistererWith).
//
// It reads on a scrape and does nothing in between. Closed Guards and Routes are
// reported in their final state until they are removed. The zero Collector is empty
// and ready to use. It is safe for concurrent use and must not be copied.
type Collector struct {
	gateway *gateway.Gateway
	cache   *weirhttp.Cache

	mu           sync.Mutex
	guards       []guard       // guarded by mu; in the order in which they were added
	routes       []route       // guarded by mu; as guards
	interceptors []interceptor // guarded by mu; as guards
}

// A guard is a Guard with its name, in valid UTF-8.
type guard struct {
	name string
	weir.Inspector
}

// A route is a Route with its name.
type route struct {
	name string
	Route
}

// An interceptor is an Interceptor with its name.
type interceptor struct {
	name string
	metrics.Interceptor
}

// New returns a Collector. Its error joins the errors of all sources that it could
// not add.
func New(o Options) (*Collector, error) {
	c := &Collector{gateway: o.Gateway, cache: o.Cache}
	var faults []error
	if o.Gateway != nil {
		if c.cache = o.Gateway.Cache(); o.Cache != nil && o.Cache != c.cache {
			faults = append(faults, ErrCache)
		}
	}
	for _, g := range o.Guards {
		faults = append(faults, c.AddGuard(g))
	}
	for name, r := range o.Routes {
		faults = append(faults, c.AddRoute(name, r))
	}
	for _, m := range o.Interceptors {
		faults = append(faults, c.AddInterceptor(m))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return c, nil
}

// AddGuard adds g. The error matches ErrNil, ErrName or ErrTaken.
func (c *Collector) AddGuard(g weir.Inspector) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addGuardLocked(g)
}

// addGuardLocked is AddGuard. c.mu must be held.
func (c *Collector) addGuardLocked(g weir.Inspector) error {
	if g == nil {
		return fmt.Errorf("%w: the Guard is nil", ErrNil)
	}
	name := label(g.Name())
	if name == "" {
		return fmt.Errorf("%w: set Name in the Options of the Guard", ErrName)
	}
	if slices.ContainsFunc(c.guards, func(other guard) bool { return other.name == name }) {
		return fmt.Errorf("%w: there is already a Guard %q", ErrTaken, name)
	}
	c.guards = append(c.guards, guard{name, g})
	return nil
}

// RemoveGuard removes the Guard of that name, and reports false if there is none.
func (c *Collector) RemoveGuard(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.guards)
	c.guards = slices.DeleteFunc(c.guards, func(g guard) bool { return g.name == label(name) })
	return len(c.guards) < before
}

// AddRoute adds r, whose label route is name. The error matches ErrNil, ErrName or
// ErrTaken.
func (c *Collector) AddRoute(name string, r Route) error {
	if r == nil {
		return fmt.Errorf("%w: the Route %q is nil", ErrNil, name)
	}
	if name = label(name); name == "" {
		return fmt.Errorf("%w: the Route has none", ErrName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.routes, func(other route) bool { return other.name == name }) {
		return fmt.Errorf("%w: there is already a Route %q", ErrTaken, name)
	}
	c.routes = append(c.routes, route{name, r})
	return nil
}

// RemoveRoute removes the Route of that name, and reports false if there is none.
func (c *Collector) RemoveRoute(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.routes)
	c.routes = slices.DeleteFunc(c.routes, func(r route) bool { return r.name == label(name) })
	return len(c.routes) < before
}

// AddInterceptor adds the methods, Guards and limiters of m: all of them, or nothing if there
// is an error, which matches ErrNil, ErrName or ErrTaken.
func (c *Collector) AddInterceptor(m metrics.Interceptor) error {
	if m == nil {
		return fmt.Errorf("%w: the interceptor is nil", ErrNil)
	}
	name := label(m.Name())
	if name == "" {
		return fmt.Errorf("%w: the interceptor has none", ErrName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.interceptors, func(other interceptor) bool { return other.name == name }) {
		return fmt.Errorf("%w: there is already an interceptor %q", ErrTaken, name)
	}
	before := len(c.guards)
	for _, g := range m.Guards() {
		if err := c.addGuardLocked(g); err != nil {
			c.guards = c.guards[:before]
			return err
		}
	}
	c.interceptors = append(c.interceptors, interceptor{name, m})
	return nil
}

// RemoveInterceptor removes the interceptor of that name with its Guards and limiters, and reports
// false if there is none.
func (c *Collector) RemoveInterceptor(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.interceptors, func(m interceptor) bool { return m.name == label(name) })
	if i < 0 {
		return false
	}
	for _, its := range c.interceptors[i].Guards() {
		c.guards = slices.DeleteFunc(c.guards, func(g guard) bool { return g.name == label(its.Name()) })
	}
	c.interceptors = slices.Delete(c.interceptors, i, i+1)
	return true
}

// Describe implements [prometheus.Collector]: it sends all possible descriptions.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range all {
		ch <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	guards, routes, interceptors := slices.Clone(c.guards), slices.Clone(c.routes), slices.Clone(c.interceptors)
	c.mu.Unlock()

	s, called := sink(ch), metrics.Names{}
	w := metrics.NewWalk(func(m *metrics.Metric, v float64, labels ...string) { put(s, shared[m], v, labels...) })
	if c.gateway != nil {
		st := c.gateway.Stats()
		w.Gateway(st)
		s.routes(st, called)
	} else if c.cache != nil {
		w.Cache(c.cache.Stats())
	}
	for _, r := range routes {
		s.route(called.Take(r.name, "handler:"+r.name), r)
	}
	for _, g := range guards {
		st := g.Stats()
		s.guard(g, st)
		w.Fleet(g.name, st.Fleet)
		w.Limiters(g.name, g.Limiter())
	}
	for _, m := range interceptors {
		w.Methods(m.name, m.Stats())
		for _, l := range m.Limiters() {
			w.Limiters(m.name, l)
		}
	}
}

// label returns name as the value of a label, which must be valid UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
