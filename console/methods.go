package console

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// An Interceptor provides the counts of gRPC methods, and what serves them. It is a
// *weirgrpc.Server or a *weirgrpc.Client. All of it but Stats always returns the same.
type Interceptor interface {
	// Name is the beginning of the names of its units.
	Name() string
	// Stats are of a bounded number of methods, each with another name.
	Stats() []inspect.MethodStats
	Guards() []weir.Inspector
	Limiters() []limit.Limiter
	// PartsOf returns the Guard of a method, nil if it shares nothing, and the
	// limiters of its calls and of its streams.
	PartsOf(method string) (guard weir.Inspector, calls, streams limit.Limiter)
}

// methods is a Source of gRPC methods and of further Guards.
type methods struct {
	*guards // the further Guards, and all limiters
	all     []Interceptor
	known   sync.Map // of string, a unit in a Snapshot, to place
}

// A place is where the method of a unit is.
type place struct {
	in     Interceptor
	method string
}

var _ Source = (*methods)(nil)

// Methods returns a Source of the methods of interceptors, and of further Guards, which
// it shows like [Guards]. All must have different names; otherwise the error lists the
// faults.
//
// A unit is a method that was called, with the name of its interceptor before it. Its
// Responses are 2xx for the code OK, 4xx for codes that are responses, such as NotFound, and
// for calls over the limit of their client, and 5xx for the rest. Its Calls are executions,
// shared or not, and streams. Its cost is that of calls that share nothing and of streams;
// that of shared executions is in the Stats of the Guard.
//
// The Guards of the interceptors are no units, because their calls are those of methods.
// Their entries are Stores. To purge a method is to purge its Guard, which can have
// responses of other methods of the same policy.
func Methods(interceptors []Interceptor, further ...weir.Inspector) (Source, error) {
	seen := map[string]int{}
	for i, one := range interceptors {
		switch {
		case one == nil:
			return nil, fmt.Errorf("console: Methods: interceptor %d is nil", i+1)
		case one.Name() == "":
			return nil, fmt.Errorf("console: Methods: interceptor %d has no name; want a weirgrpc.Options.Name", i+1)
		case seen[one.Name()] > 0:
			return nil, fmt.Errorf("console: Methods: interceptors %d and %d are both named %q; want different names", seen[one.Name()], i+1, one.Name())
		}
		seen[one.Name()] = i + 1
	}
	all := slices.Clone(further)
	for _, one := range interceptors {
		all = append(all, one.Guards()...)
	}
	if _, err := Guards(all...); err != nil { // different names, so that purging is unambiguous
		return nil, err
	}
	base, err := Guards(further...)
	if err != nil {
		return nil, err
	}
	s := &methods{guards: base.(*guards), all: slices.Clone(interceptors)}
	for _, one := range s.all {
		for _, l := range one.Limiters() {
			s.limits.add(one.Name(), l)
		}
	}
	return s, nil
}

// nameOf returns the name of the unit of a method.
func nameOf(i Interceptor, method string) string {
	if method == "" || method[0] != '/' {
		method = " " + method // not a method: "others"
	}
	return i.Name() + method
}

// Snapshot implements Source.
func (s *methods) Snapshot() Snapshot {
	now := s.guards.Snapshot()
	for _, one := range s.all {
		flights := map[string][]inspect.Flight{}
		for _, g := range one.Guards() {
			stats := g.Stats()
			if stats.Fleet != (weir.FleetStats{}) {
				now.Tier = addTier(now.Tier, stats.Fleet)
			}
			if stats.Flights > 0 {
				for _, f := range g.ActiveFlights(maxWaiting) {
					flights[methodOf(f.Key)] = append(flights[methodOf(f.Key)], f)
				}
			}
			now.Stores = append(now.Stores, Store{Name: g.Name(), Entries: stats.Entries, Evicted: stats.Evicted})
		}
		for _, m := range one.Stats() {
			u := s.method(one, m, flights[m.Method])
			s.known.LoadOrStore(u.Name, place{one, m.Method})
			now.Units = append(now.Units, u)
		}
	}
	slices.SortFunc(now.Units, func(a, b Unit) int { return cmp.Compare(a.Name, b.Name) })
	return now
}

// methodOf returns the method of a key of weirgrpc.
func methodOf(key any) string {
	if k, ok := key.(interface{ FullMethod() string }); ok {
		return k.FullMethod()
	}
	return ""
}

// method returns the unit of a method with these flights.
func (s *methods) method(one Interceptor, m inspect.MethodStats, flights []inspect.Flight) Unit {
	_, calls, streams := one.PartsOf(m.Method)
	if m.Streams > 0 {
		calls = streams
	}
	u := Unit{
		Name: nameOf(one, m.Method), Kind: "method", Limit: s.limits.of(calls),
		Responses: &Responses{Success: m.Responses.OK, ClientError: m.Responses.ClientError, ServerError: m.Responses.ServerError, Left: m.Left},
		Requests:  m.Calls,
		Avoided:   Avoided{Hits: m.Hits, Stale: m.Stale, Joined: m.Joined, Fleet: m.Fleet},
		Refused:   Refused{Limit: m.Refused, Client: m.RefusedClient},
		Cost:      Cost{Spent: m.CostSpent, Refused: m.CostRefused}.orNil(),
		Missed:    m.Executed + m.Ran, MissedErrors: m.RanFailures, Unanswered: m.Failed, Left: m.Left,
		Calls: m.Executions, Refreshes: m.Refreshes, StaleOnError: m.StaleOnError, Failed: m.Failures, Abandoned: m.Abandoned,
		Running: m.Running + m.Executing, Flights: len(flights), Waiting: waiting(flights),
		RequestTime: m.CallTime, WaitTime: m.WaitTime, CallTime: m.ExecutionTime,
	}
	for _, f := range flights {
		switch {
		case f.State == inspect.FlightStuck:
			u.Stuck++
		case f.Background:
			u.Refreshing++
		}
	}
	return u
}

// locate returns the interceptor and the counts of the method that is a unit.
func (s *methods) locate(unit string) (Interceptor, inspect.MethodStats, bool) {
	for _, one := range s.all {
		for _, m := range one.Stats() {
			if nameOf(one, m.Method) == unit {
				return one, m, true
			}
		}
	}
	return nil, inspect.MethodStats{}, false
}

// placeOf is locate without the counts: the page asks for the hot keys of all units.
func (s *methods) placeOf(unit string) (place, bool) {
	if at, ok := s.known.Load(unit); ok {
		return at.(place), true
	}
	one, m, ok := s.locate(unit)
	return place{one, m.Method}, ok
}

// Detail implements Source. The entries are those of the Guard.
func (s *methods) Detail(unit string, most int) (Detail, bool) {
	one, m, ok := s.locate(unit)
	if !ok {
		return s.guards.Detail(unit, most)
	}
	var d Detail
	var flights []inspect.Flight
	if g, _, _ := one.PartsOf(m.Method); g != nil {
		entries := g.CountEntries()
		d.Entries = &entries
		for _, f := range g.ActiveFlights(maxWaiting) {
			if methodOf(f.Key) == m.Method {
				flights = append(flights, f)
			}
		}
	}
	for _, f := range flights[:min(most, len(flights))] {
		d.Flights = append(d.Flights, Flight{Flight: f})
	}
	d.Unit = s.method(one, m, flights)
	d.Limit = s.limits.find(d.Unit.Limit)
	return d, true
}

// HotKeys implements Source. A Guard counts the keys of all its methods: the totals are
// those of the method's keys that it reports.
func (s *methods) HotKeys(unit string, most int) (inspect.HotKeys, bool) {
	at, ok := s.placeOf(unit)
	if !ok {
		return s.guards.HotKeys(unit, most)
	}
	g, _, _ := at.in.PartsOf(at.method)
	if g == nil {
		return inspect.HotKeys{}, true
	}
	all := g.HotKeys(math.MaxInt)
	hot := inspect.HotKeys{Window: all.Window}
	hot.ByTraffic, hot.Requests = hotOf(at.method, all.ByTraffic, all.Requests)
	hot.ByLoadTime, hot.LoadTime = hotOf(at.method, all.ByLoadTime, all.LoadTime)
	hot.ByTraffic = hot.ByTraffic[:min(most, len(hot.ByTraffic))]
	hot.ByLoadTime = hot.ByLoadTime[:min(most, len(hot.ByLoadTime))]
	return hot, true
}

// hotOf returns those of keys that are of method, and their sum, or the total of the Guard
// if it has no other keys.
func hotOf(method string, keys []inspect.HotKey, total float64) (own []inspect.HotKey, sum float64) {
	for _, k := range keys {
		if methodOf(k.Key) == method {
			own = append(own, k)
			sum += k.Rate
		}
	}
	if len(own) == len(keys) {
		return own, total
	}
	return own, sum
}

// Abilities implements Source.
func (s *methods) Abilities() Abilities { return Abilities{Purge: s.purge} }

func (s *methods) purge(ctx context.Context, unit string, tags []string, all bool) (bool, error) {
	at, ok := s.placeOf(unit)
	if !ok {
		return s.guards.purge(ctx, unit, tags, all)
	}
	g, _, _ := at.in.PartsOf(at.method)
	switch {
	case g == nil:
		return true, nil // it shares nothing, and has nothing to forget
	case all:
		return true, g.InvalidateAll(ctx)
	}
	return true, g.InvalidateTags(ctx, tags...)
}
