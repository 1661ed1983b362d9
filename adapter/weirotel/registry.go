package weirotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/weirhttp"
)

// A Route is a *weirhttp.Handler or a *weirhttp.Transport.
type Route interface {
	Stats() weirhttp.Stats
	Alone() weirhttp.AloneStats
}

var (
	_ Route = (*weirhttp.Handler)(nil)
	_ Route = (*weirhttp.Transport)(nil)
)

// A registry holds everything that is read when metrics are collected.
type registry struct {
	instruments  []metric.Int64Observable // of readings
	shared       map[*metrics.Metric]metric.Observable
	registration metric.Registration // of read

	mu           sync.Mutex
	closed       bool                           // guarded by mu
	guards       map[string]weir.Inspector      // guarded by mu, by name
	routes       map[string]Route               // guarded by mu, by name
	interceptors map[string]metrics.Interceptor // guarded by mu, by name
	gateways     []*gateway.Gateway             // guarded by mu
}

// AddGuard adds g to the metrics, until RemoveGuard or Close. The error matches
// ErrNil, ErrName or ErrTaken.
func (t *Telemetry) AddGuard(g weir.Inspector) error {
	if g == nil {
		return fmt.Errorf("%w: the Guard is nil", ErrNil)
	}
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	return add(&t.seen.guards, "Guard", g.Name(), g)
}

// AddRoute adds a Handler or a Transport to the metrics, until RemoveRoute or Close.
// Its name should be the Route of its Options. The error matches ErrNil, ErrName or
// ErrTaken.
func (t *Telemetry) AddRoute(name string, r Route) error {
	if r == nil {
		return fmt.Errorf("%w: the route %q is nil", ErrNil, name)
	}
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	return add(&t.seen.routes, "route", name, r)
}

// AddGateway adds the routes, upstreams, servers and the cache of g to the metrics,
// until Close. They are read as they are when metrics are collected. If a route has
// the name of one added with AddRoute, the one of AddRoute is reported. Gateways of
// one Telemetry should not have upstreams of the same name.
func (t *Telemetry) AddGateway(g *gateway.Gateway) error {
	if g == nil {
		return fmt.Errorf("%w: the Gateway is nil", ErrNil)
	}
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	if slices.Contains(t.seen.gateways, g) {
		return fmt.Errorf("%w: the Gateway was already added", ErrTaken)
	}
	t.seen.gateways = append(t.seen.gateways, g)
	return nil
}

// AddInterceptor adds the methods, Guards and limiters of m, a *weirgrpc.Server or a
// *weirgrpc.Client, to the metrics, until RemoveInterceptor or Close: all of them, or nothing
// if there is an error, which matches ErrNil, ErrName or ErrTaken.
func (t *Telemetry) AddInterceptor(m metrics.Interceptor) error {
	if m == nil {
		return fmt.Errorf("%w: the interceptor is nil", ErrNil)
	}
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	guards := maps.Clone(t.seen.guards)
	for _, g := range m.Guards() {
		if err := add(&guards, "Guard", g.Name(), g); err != nil {
			return err
		}
	}
	if err := add(&t.seen.interceptors, "interceptor", m.Name(), m); err != nil {
		return err
	}
	t.seen.guards = guards
	return nil
}

func add[T any](to *map[string]T, what, name string, one T) error {
	if name == "" {
		return fmt.Errorf("%w: the %s has none", ErrName, what)
	}
	if _, ok := (*to)[name]; ok {
		return fmt.Errorf("%w: there is already a %s %q", ErrTaken, what, name)
	}
	if *to == nil {
		*to = make(map[string]T)
	}
	(*to)[name] = one
	return nil
}

// RemoveGuard reverses AddGuard. It reports false if there is no Guard of that name.
func (t *Telemetry) RemoveGuard(name string) bool {
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	_, ok := t.seen.guards[name]
	delete(t.seen.guards, name)
	return ok
}

// RemoveRoute reverses AddRoute. It reports false if there is no route of that name.
func (t *Telemetry) RemoveRoute(name string) bool {
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	_, ok := t.seen.routes[name]
	delete(t.seen.routes, name)
	return ok
}

// RemoveInterceptor reverses AddInterceptor. It reports false if there is no interceptor of that name.
func (t *Telemetry) RemoveInterceptor(name string) bool {
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	m, ok := t.seen.interceptors[name]
	if !ok {
		return false
	}
	for _, g := range m.Guards() {
		delete(t.seen.guards, g.Name())
	}
	delete(t.seen.interceptors, name)
	return true
}

// observe creates the instruments, and registers read for the collections of m's
// provider.
func (s *registry) observe(m metric.Meter) error {
	var faults []error
	all := make([]metric.Observable, 0, len(readings)+len(metrics.All()))
	for _, r := range readings {
		var one metric.Int64Observable
		var err error
		if r.now {
			one, err = m.Int64ObservableUpDownCounter(r.name, metric.WithUnit(r.unit), metric.WithDescription(r.text))
		} else {
			one, err = m.Int64ObservableCounter(r.name, metric.WithUnit(r.unit), metric.WithDescription(r.text))
		}
		faults = append(faults, err)
		s.instruments = append(s.instruments, one)
		all = append(all, one)
	}
	s.shared = make(map[*metrics.Metric]metric.Observable)
	for _, r := range metrics.All() {
		one, err := instrument(m, r)
		faults = append(faults, err)
		s.shared[r] = one
		all = append(all, one)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	var err error
	s.registration, err = m.RegisterCallback(s.read, all...)
	return err
}

// close drops everything that was added. It reports false if it was closed before.
func (s *registry) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.closed
	s.closed = true
	s.guards, s.routes, s.interceptors, s.gateways = nil, nil, nil, nil
	return !was
}

// read reports all current values to o.
func (s *registry) read(_ context.Context, o metric.Observer) error {
	s.mu.Lock()
	guards, routes, interceptors, gateways := maps.Clone(s.guards), maps.Clone(s.routes), maps.Clone(s.interceptors), slices.Clone(s.gateways)
	s.mu.Unlock()

	w := metrics.NewWalk(s.emit(o))
	for _, g := range gateways {
		all := g.Stats()
		w.Gateway(all)
		for name, st := range all.Routes {
			if _, ok := routes[name]; !ok { // otherwise it would be reported twice
				s.route(o, routeKey.String(name), st, all.Alone[name])
			}
		}
	}
	for name, r := range routes {
		s.route(o, routeKey.String(name), r.Stats(), r.Alone())
	}
	for _, name := range slices.Sorted(maps.Keys(guards)) { // always in the same order, for stable names of limiters
		st := guards[name].Stats()
		s.guard(o, guardKey.String(name), st)
		w.Fleet(name, st.Fleet)
		w.Limiters(name, guards[name].Limiter())
	}
	for _, name := range slices.Sorted(maps.Keys(interceptors)) {
		w.Methods(name, interceptors[name].Stats())
		for _, l := range interceptors[name].Limiters() {
			w.Limiters(name, l)
		}
	}
	return nil
}

func (s *registry) guard(o metric.Observer, unit attribute.KeyValue, st weir.Stats) {
	for i, r := range readings {
		if r.guard != nil {
			s.tell(o, i, unit, r.guard(st))
		}
	}
}

func (s *registry) route(o metric.Observer, unit attribute.KeyValue, st weirhttp.Stats, why weirhttp.AloneStats) {
	for i, r := range readings {
		if r.route != nil {
			s.tell(o, i, unit, r.route(st))
		}
		if r.alone != nil {
			s.tell(o, i, unit, r.alone(why))
		}
	}
}

// tell reports the points of a reading to o.
func (s *registry) tell(o metric.Observer, i int, unit attribute.KeyValue, points []point) {
	for _, p := range points {
		attrs := []attribute.KeyValue{unit}
		if p.value != "" {
			attrs = append(attrs, readings[i].key.String(p.value))
		}
		o.ObserveInt64(s.instruments[i], p.n, metric.WithAttributes(attrs...))
	}
}
