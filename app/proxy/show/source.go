package show

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/weirhttp"
)

const (
	// kept is how long a count of the cache's entries is reused.
	kept = 2 * time.Second
	// mostFlights bounds how many flights of a route are read.
	mostFlights = 1000
)

// A Gateway is the source of the data: a gateway.Gateway, or a fake in tests.
type Gateway interface {
	Stats() gateway.Stats
	Handler(route string) (*weirhttp.Handler, bool)
	Cache() *weirhttp.Cache
}

var (
	_ Gateway        = (*gateway.Gateway)(nil)
	_ console.Source = (*Source)(nil)
)

// Options are the parts of a Source.
type Options struct {
	// Gateway is required.
	Gateway Gateway
	// Queues returns the queues of jobs, without waiting. nil means there are none.
	Queues func() []console.Queue
	// Process returns the state of the program, without waiting. nil means an empty
	// one.
	Process func() console.Process
	// Responses returns what clients received, by route; the empty name has what belongs
	// to no route. nil means that this is not counted.
	Responses func() map[string]tally.Counts
}

// A Source provides the state of a gateway. Create it with New. It is safe for
// concurrent use.
type Source struct {
	console.BaseSource

	o       Options
	entries census

	// limits maps routes to their upstreams. An atomic because each Snapshot reads it
	// and a reload replaces it.
	limits atomic.Pointer[map[string]string]
	// budgets has the client budgets of routes, and is an atomic for the same reason.
	budgets atomic.Pointer[map[string]gateway.ClientBudget]
	// observes has the routes in observe mode, likewise.
	observes atomic.Pointer[map[string]bool]
}

// New returns a Source. Until Configure is called, it does not know the limits of its
// routes.
func New(o Options) *Source {
	s := &Source{o: o}
	if s.o.Queues == nil {
		s.o.Queues = func() []console.Queue { return nil }
	}
	if s.o.Process == nil {
		s.o.Process = func() console.Process { return console.Process{} }
	}
	s.entries.count = func() inspect.Entries { return o.Gateway.Cache().CountEntries() }
	s.limits.Store(&map[string]string{})
	s.budgets.Store(&map[string]gateway.ClientBudget{})
	s.observes.Store(&map[string]bool{})
	return s
}

// Configure sets the gateway's current configuration.
func (s *Source) Configure(c gateway.Config) {
	limits, budgets := map[string]string{}, map[string]gateway.ClientBudget{}
	observes := map[string]bool{}
	for _, r := range c.Routes {
		if r.Upstream == "" && len(c.Upstreams) > 0 {
			r.Upstream = c.Upstreams[0].Name
		}
		limits[r.Name] = r.Upstream
		observes[r.Name] = r.Observe
		if r.ClientBudget != nil {
			budgets[r.Name] = *r.ClientBudget
		}
	}
	s.limits.Store(&limits)
	s.budgets.Store(&budgets)
	s.observes.Store(&observes)
}

// Snapshot implements [console.Source].
func (s *Source) Snapshot() console.Snapshot {
	st, received := s.o.Gateway.Stats(), s.received()
	out := console.Snapshot{
		At:      time.Now(),
		Stores:  stores(st.Cache),
		Tier:    tier(st.Cache.Fleet),
		Queues:  s.o.Queues(),
		Process: s.o.Process(),

		Unrouted: responses(received, ""),
	}
	if i := st.Idempotency; i != nil {
		out.Idempotency = &console.Idempotency{
			Unknown: i.Unknown, Keys: i.Usage.Keys, MaxKeys: i.Usage.MaxKeys, Bytes: i.Usage.Bytes, MaxBytes: i.Usage.MaxBytes,
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.Routes)) {
		h, _ := s.o.Gateway.Handler(name) // nil if a reload has removed it
		u := s.unit(name, st, flights(h, st.Routes[name]))
		u.Responses = responses(received, name)
		out.Units = append(out.Units, u)
	}
	for _, name := range slices.Sorted(maps.Keys(st.Upstreams)) {
		u := st.Upstreams[name]
		if u.Budget != nil {
			out.Budgets = append(out.Budgets, budget("upstream", name, *u.Budget))
		}
		if u.Limit.Limit > 0 {
			out.Limits = append(out.Limits, limitOf(name, u.Limit))
		}
		for _, one := range u.Servers {
			out.Servers = append(out.Servers, console.Server{
				Upstream: name, URL: one.URL, Healthy: one.Healthy, Ejected: one.Ejected,
				InFlight: one.InFlight, Calls: one.Calls, Failures: one.Failures, Left: one.Left, Returned: one.Returned, Reason: one.Reason,
				Weight: one.Weight, State: one.State, Head: one.Head, Failing: one.Failing, Name: one.Name,
				Kept: one.Kept, Moved: one.Moved,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.Budgets)) {
		out.Budgets = append(out.Budgets, budget("route", name, st.Budgets[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(st.ClientBudgets)) {
		out.Budgets = append(out.Budgets, s.clientBudget(name, st.ClientBudgets[name], st.OverBudget[name]))
	}
	return out
}

// Detail implements [console.Source]. The entries are those of the cache that all
// routes share.
func (s *Source) Detail(name string, most int) (console.Detail, bool) {
	h, ok := s.o.Gateway.Handler(name)
	if !ok {
		return console.Detail{}, false
	}
	st := s.o.Gateway.Stats()
	all := flights(h, st.Routes[name])
	entries := s.entries.get()
	d := console.Detail{Unit: s.unit(name, st, all), Entries: &entries, Flights: []console.Flight{}}
	d.Unit.Responses = responses(s.received(), name)
	for _, f := range all[:min(most, len(all))] {
		d.Flights = append(d.Flights, console.Flight{Flight: f})
	}
	if upstream := d.Unit.Limit; upstream != "" {
		l := limitOf(upstream, st.Upstreams[upstream].Limit)
		d.Limit = &l
	}
	return d, true
}

// HotKeys implements [console.Source].
func (s *Source) HotKeys(name string, most int) (inspect.HotKeys, bool) {
	h, ok := s.o.Gateway.Handler(name)
	if !ok {
		return inspect.HotKeys{}, false
	}
	return h.HotKeys(most), true
}

// flights returns the flights of a route, oldest first.
func flights(h *weirhttp.Handler, st weirhttp.Stats) []inspect.Flight {
	if h == nil || st.Flights == 0 {
		return nil
	}
	return h.ActiveFlights(mostFlights)
}

// unit converts a route to a unit. Values that the gateway does not count are zero.
func (s *Source) unit(name string, all gateway.Stats, flights []inspect.Flight) console.Unit {
	st, took := all.Routes[name], all.Durations[name]
	fleet := st.Fleet - st.FleetStale // fresh, and also counted as hits
	u := console.Unit{
		Name: name, Kind: "route", Requests: st.Requests,
		Avoided:      console.Avoided{Hits: st.Hits - fleet, Stale: st.Stale, Joined: st.Joined, Validated: st.Validated, Fleet: fleet},
		Refused:      refused(st.RefusedBy),
		Cost:         cost(st.Cost),
		Missed:       st.Missed + st.FellBack,
		Alone:        alone(st, all.Alone[name]),
		MissedErrors: st.MissedErrors,
		Unanswered:   st.Unanswered,
		Left:         st.Left,
		Calls:        st.Calls,
		Refreshes:    st.Refreshes,
		Failed:       st.Failed + st.Broken + st.ServerErrors, // each call is in exactly one of them
		Abandoned:    st.Abandoned,
		StaleOnError: st.StaleOnError,
		Flights:      st.Flights,
		Running:      st.InFlight,
		Waiting:      st.Waiting,
		RequestTime:  took.Requests,
		WaitTime:     took.Waits,
		CallTime:     took.Calls,
	}
	u.Upstream = (*s.limits.Load())[name]
	if all.Upstreams[u.Upstream].Limit.Limit > 0 {
		u.Limit = u.Upstream
	}
	if (*s.observes.Load())[name] {
		u.Observed = observed(st, u.Alone)
	}
	if f, ok := all.Fallbacks[name]; ok {
		u.Fallback = fallback(u.Upstream, f)
	}
	for _, f := range flights {
		if f.State == inspect.FlightStuck {
			u.Stuck++
		} else if f.Background {
			u.Refreshing++
		}
	}
	return u
}

// fallback returns what the fallback of a route has got, whose own upstream is named.
func fallback(own string, f gateway.FallbackStats) *console.Fallback {
	out := console.Fallback{Upstream: f.Upstream, Own: own, Reasons: []console.FallbackReason{}}
	for _, reason := range gateway.FallbackReasons() {
		if n, ok := f.Sent[reason]; ok {
			out.Reasons = append(out.Reasons, console.FallbackReason{Reason: reason, Sent: n, Refused: f.Refused[reason], Would: f.Would[reason]})
		}
	}
	return &out
}

// cost returns what a route's requests cost; nil if nothing was counted.
func cost(st weirhttp.CostStats) *console.Cost {
	c := console.Cost{
		Spent: st.Spent, Hits: st.Hits, Joined: st.Joined, Refused: st.Refused + st.RefusedClient, Price: st.Price, Currency: st.Currency,
	}
	if c.Spent+c.Avoided()+c.Refused == 0 {
		return nil
	}
	return &c
}

// refused returns what has refused the requests of a route.
func refused(st weirhttp.RefusedStats) console.Refused {
	return console.Refused{
		Limit: st.Limit, Budget: st.Budget, Paused: st.Paused, Unreachable: st.Unreachable,
		Client: st.Client, ClientBudget: st.ClientBudget, TooLarge: st.TooLarge,
	}
}

// received returns what clients received, nil if that is not counted.
func (s *Source) received() map[string]tally.Counts {
	if s.o.Responses == nil {
		return nil
	}
	return s.o.Responses()
}

// responses returns the counts of a route; nil if they are not counted.
func responses(all map[string]tally.Counts, route string) *console.Responses {
	if all == nil {
		return nil
	}
	n := all[route]
	return &console.Responses{
		Switched: n[tally.Switched], Success: n[tally.Success], Redirect: n[tally.Redirect], ClientError: n[tally.ClientError],
		ServerError: n[tally.ServerError], Broken: n[tally.Broken], Left: n[tally.Left],
	}
}

// budget returns a budget that all calls share.
func budget(kind, name string, st gateway.BudgetStats) console.Budget {
	return console.Budget{
		Name: name, Kind: kind, PerSecond: st.PerSecond, Burst: st.Burst, Left: st.Left, Queued: st.Queued,
		Waited: st.Waited, Refused: st.Refused, Fleet: st.Fleet, Outage: st.Outage,
	}
}

// clientBudget returns the budget of each client of a route.
func (s *Source) clientBudget(route string, st weirhttp.ClientBudgetStats, over []weirhttp.ClientShare) console.Budget {
	var clients []console.ClientShare
	for _, c := range over {
		clients = append(clients, console.ClientShare(c))
	}
	b := (*s.budgets.Load())[route]
	return console.Budget{
		Name: route, Kind: "client", PerSecond: float64(b.Units) / cmp.Or(b.Per, time.Minute).Seconds(), Burst: cmp.Or(b.Burst, b.Units),
		Refused: st.Refused, Clients: st.Clients, Fleet: st.Fleet, Outage: st.Outage, Over: clients,
	}
}

func limitOf(name string, st gateway.LimitStats) console.Limit {
	return console.Limit{
		Name: name, Kind: st.Kind, Limit: float64(st.Limit), InUse: st.InUse, Queued: st.Queued,
		Overloaded: st.Overloaded, Storm: st.Storm, Held: st.Held, Latency: st.Latency, Baseline: st.Baseline,
		Admitted: st.Admitted, Waited: st.Waited, Left: st.Left, Refused: st.RefusedBy,
	}
}

func stores(st weirhttp.CacheStats) []console.Store {
	all := []console.Store{{
		Name: "cache", Entries: st.Responses, Used: st.Used, Bytes: st.Bytes,
		Evicted: st.Evicted, TooBig: st.TooBig, Purged: st.Purged,
	}}
	if f := st.Folder; f != nil {
		all = append(all, console.Store{Name: "folder", Entries: f.Responses, Used: f.Bytes, Bytes: f.Bound, Evicted: f.Evicted})
	}
	return all
}

func tier(st *weirhttp.FleetStats) *console.Tier {
	if st == nil {
		return nil
	}
	return &console.Tier{
		Open: st.Open, Acquires: st.Acquires, Fresh: st.Fresh, Granted: st.Granted, Held: st.Held, Cooling: st.Cooling,
		Settled: st.Settled, Refused: st.Refused, Extended: st.Extended, LostLeases: st.LostLeases,
		Unavailable: st.Unavailable, Waits: st.Waits, Pushes: st.Pushes, Resets: st.Resets,
		Pending: st.Pending, Blocked: st.Blocked, Queued: st.Queued,
	}
}
