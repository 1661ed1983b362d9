package show_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/show"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/weirhttp"
)

// numbered is a gateway whose statistics all have different values.
type numbered struct {
	stats gateway.Stats
	cache *weirhttp.Cache
}

func (n *numbered) Stats() gateway.Stats                     { return n.stats }
func (n *numbered) Cache() *weirhttp.Cache                   { return n.cache }
func (n *numbered) Handler(string) (*weirhttp.Handler, bool) { return nil, true }

// fill sets each number in v to a different value, starting with n.
func fill(v reflect.Value, n *uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Uint64:
		*n++
		v.SetUint(*n)
	case reflect.Float64:
		*n++
		v.SetFloat(float64(*n))
	case reflect.Int, reflect.Int64:
		*n++
		v.SetInt(int64(*n))
	}
}

// The snapshot of a route, a limit, a server, the cache and the fleet contains the
// numbers of Stats, each in the right field.
func TestC5_SnapshotIsTheStats(t *testing.T) {
	var n uint64 = 100
	var route weirhttp.Stats
	var up gateway.UpstreamStats
	var server gateway.ServerStats
	var cache weirhttp.CacheStats
	var tier weirhttp.FleetStats
	var all gateway.BudgetStats
	for _, v := range []any{&route, &up, &server, &cache, &tier, &all} {
		fill(reflect.ValueOf(v).Elem(), &n)
	}
	route.Flights = 0 // the flights themselves do not exist
	route.Cost.Currency = "EUR"
	route.FleetStale = 1 // of those in the fleet
	up.Limit.Kind, up.Limit.RefusedBy = "adaptive", map[string]uint64{"queue full": 3}
	server.URL, server.Healthy, server.State = "http://10.0.0.1", true, "penalized"
	server.Left, server.Returned, server.Reason = time.Unix(1, 0), time.Unix(2, 0), "its calls failed"
	up.Budget = &all
	up.Servers = []gateway.ServerStats{server}
	cache.Fleet = &tier
	var h inspect.Histogram
	h.Record(42)
	took := gateway.RouteDurations{Requests: h.Durations()}
	g := &numbered{stats: gateway.Stats{
		Cache: cache, Routes: map[string]weirhttp.Stats{"b": route, "a": {}}, Durations: map[string]gateway.RouteDurations{"b": took},
		Upstreams: map[string]gateway.UpstreamStats{"shop": up, "unlimited": {}},
		Budgets:   map[string]gateway.BudgetStats{"b": all}, ClientBudgets: map[string]weirhttp.ClientBudgetStats{"b": {Clients: 3, Refused: 4, Outage: true}},
		Fallbacks: map[string]gateway.FallbackStats{"b": {
			Upstream: "standby", Sent: map[string]uint64{"503": 4, "down": 1}, Refused: map[string]uint64{"503": 5}, Would: map[string]uint64{"down": 3},
		}},
		OverBudget: map[string][]weirhttp.ClientShare{"b": {{Address: "10.0.0.7", Share: .5}}},
	}}
	s := show.New(show.Options{
		Gateway: g,
		Queues:  func() []console.Queue { return []console.Queue{{Name: "q"}} },
		Process: func() console.Process { return console.Process{PID: 7} },
		Responses: func() map[string]tally.Counts {
			return map[string]tally.Counts{"": {tally.ClientError: 9}, "b": {1, 2, 3, 4, 5, 6, 7}}
		},
	})
	s.Configure(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "shop"}, {Name: "unlimited"}},
		Routes:    []gateway.Route{{Name: "b", ClientBudget: &gateway.ClientBudget{Units: 120, Burst: 600}}, {Name: "a", Upstream: "unlimited"}},
	})
	got := s.Snapshot()
	if len(got.Units) != 2 || got.Units[0].Name != "a" || got.Units[0].Limit != "" {
		t.Fatalf("units = %+v; want a, without a limit, and b", got.Units)
	}
	if want := (console.Unit{
		Name: "b", Kind: "route", Limit: "shop", Upstream: "shop", Requests: route.Requests,
		Responses: &console.Responses{Switched: 1, Success: 2, Redirect: 3, ClientError: 4, ServerError: 5, Broken: 6, Left: 7},
		Missed:    route.Missed + route.FellBack, Fallback: &console.Fallback{Upstream: "standby", Own: "shop", Reasons: []console.FallbackReason{
			{Reason: "down", Sent: 1, Would: 3}, {Reason: "503", Sent: 4, Refused: 5},
		}},
		MissedErrors: route.MissedErrors, Unanswered: route.Unanswered, Left: route.Left,
		Avoided: console.Avoided{Hits: route.Hits - route.Fleet + route.FleetStale, Stale: route.Stale, Joined: route.Joined, Validated: route.Validated, Fleet: route.Fleet - route.FleetStale},
		Refused: console.Refused{
			Limit: route.RefusedBy.Limit, Budget: route.RefusedBy.Budget, Paused: route.RefusedBy.Paused, Unreachable: route.RefusedBy.Unreachable,
			Client: route.RefusedBy.Client, ClientBudget: route.RefusedBy.ClientBudget, TooLarge: route.RefusedBy.TooLarge,
		},
		Cost: &console.Cost{
			Spent: route.Cost.Spent, Hits: route.Cost.Hits, Joined: route.Cost.Joined, Refused: route.Cost.Refused + route.Cost.RefusedClient,
			Price: route.Cost.Price, Currency: "EUR",
		},
		Calls: route.Calls, Refreshes: route.Refreshes, Failed: route.Failed + route.Broken + route.ServerErrors, Abandoned: route.Abandoned,
		StaleOnError: route.StaleOnError, Running: route.InFlight, Waiting: route.Waiting, RequestTime: took.Requests,
	}); !reflect.DeepEqual(got.Units[1], want) {
		t.Errorf("unit = %+v; want %+v", got.Units[1], want)
	}
	if got.Unrouted == nil || *got.Unrouted != (console.Responses{ClientError: 9}) {
		t.Errorf("unrouted = %+v; want the responses without a route", got.Unrouted)
	}
	l := up.Limit
	if want := []console.Limit{{
		Name: "shop", Kind: "adaptive", Limit: float64(l.Limit), InUse: l.InUse, Queued: l.Queued, Held: l.Held, Latency: l.Latency,
		Baseline: l.Baseline, Admitted: l.Admitted, Waited: l.Waited, Left: l.Left, Refused: l.RefusedBy,
	}}; !reflect.DeepEqual(got.Limits, want) {
		t.Errorf("limits = %+v; want %+v", got.Limits, want)
	}
	if want := []console.Server{{
		Upstream: "shop", URL: server.URL, Healthy: true, InFlight: server.InFlight, Calls: server.Calls, Failures: server.Failures,
		Left: time.Unix(1, 0), Returned: time.Unix(2, 0), Reason: "its calls failed",
		Weight: server.Weight, State: "penalized", Head: server.Head, Failing: server.Failing,
		Kept: server.Kept, Moved: server.Moved,
	}}; !reflect.DeepEqual(got.Servers, want) {
		t.Errorf("servers = %+v; want %+v", got.Servers, want)
	}
	budget := func(kind, name string) console.Budget {
		return console.Budget{Kind: kind, Name: name, PerSecond: all.PerSecond, Burst: all.Burst, Left: all.Left, Queued: all.Queued, Waited: all.Waited, Refused: all.Refused}
	}
	if want := []console.Budget{
		budget("upstream", "shop"), budget("route", "b"),
		{Kind: "client", Name: "b", PerSecond: 2, Burst: 600, Clients: 3, Refused: 4, Outage: true, Over: []console.ClientShare{{Address: "10.0.0.7", Share: .5}}},
	}; !reflect.DeepEqual(got.Budgets, want) {
		t.Errorf("budgets = %+v; want %+v", got.Budgets, want)
	}
	if want := []console.Store{{
		Name: "cache", Entries: cache.Responses, Used: cache.Used, Bytes: cache.Bytes, Evicted: cache.Evicted, TooBig: cache.TooBig, Purged: cache.Purged,
	}}; !reflect.DeepEqual(got.Stores, want) {
		t.Errorf("stores = %+v; want %+v", got.Stores, want)
	}
	if want := (console.Tier{
		Acquires: tier.Acquires, Fresh: tier.Fresh, Granted: tier.Granted, Held: tier.Held, Cooling: tier.Cooling, Settled: tier.Settled,
		Refused: tier.Refused, Extended: tier.Extended, LostLeases: tier.LostLeases, Unavailable: tier.Unavailable,
		Waits: tier.Waits, Pushes: tier.Pushes, Resets: tier.Resets,
		Pending: tier.Pending, Blocked: tier.Blocked, Queued: tier.Queued,
	}); got.Tier == nil || *got.Tier != want {
		t.Errorf("tier = %+v; want %+v", got.Tier, want)
	}
	if len(got.Queues) != 1 || got.Process.PID != 7 || got.At.IsZero() {
		t.Errorf("queues %v, process %v, at %v; want the given values, and the current time", got.Queues, got.Process, got.At)
	}
}

// A route's page contains its flights, its limit, and the state of the cache's entries.
func TestDetailOfARoute(t *testing.T) {
	came, may := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		if r.URL.Path == "/slow" {
			close(came)
			<-may
		}
		io.WriteString(w, "ok")
	}))
	defer origin.Close()
	c := gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{origin.URL}}}, Routes: []gateway.Route{{Name: "all", HotKeys: 10}},
	}
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context())
	s := show.New(show.Options{Gateway: g})
	s.Configure(c)
	ask := func(path string) {
		g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	ask("/a")
	ask("/a")
	done := make(chan struct{})
	go func() { defer close(done); ask("/slow") }()
	<-came

	d, ok := s.Detail("all", 10)
	if !ok || len(d.Flights) != 1 || d.Flights[0].Key != "http://example.com/slow" || d.Flights[0].Name != "" || d.Unit.Flights != 1 || d.Unit.Running != 1 {
		t.Errorf("Detail = %+v, %v; want the one flight, with its key and without a name", d, ok)
	}
	if d.Limit == nil || d.Limit.Name != "shop" || d.Limit.InUse != 1 || d.Entries == nil || d.Entries.Fresh != 1 {
		t.Errorf("Detail has limit %+v and entries %+v; want shop's limit, with one in use, and one fresh entry", d.Limit, d.Entries)
	}
	if d, _ := s.Detail("all", 0); len(d.Flights) != 0 || d.Unit.Flights != 1 {
		t.Errorf("Detail with at most 0 flights has %d, and counts %d; want 0 and 1", len(d.Flights), d.Unit.Flights)
	}
	if _, ok := s.Detail("none", 10); ok {
		t.Error("got a Detail of a route that does not exist")
	}
	close(may)
	<-done
	hot, ok := s.HotKeys("all", 10)
	if !ok || len(hot.ByTraffic) == 0 || hot.ByTraffic[0].Key != "http://example.com/a" {
		t.Errorf("HotKeys = %+v, %v; want /a", hot, ok)
	}
	if _, ok := s.HotKeys("none", 10); ok {
		t.Error("got hot keys of a route that does not exist")
	}
}
