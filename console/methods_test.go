package console_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// An rpc is a key like those of weirgrpc.
type rpc struct{ method, item string }

func (c rpc) FullMethod() string { return c.method }

// A service stands in for a *weirgrpc.Server: /s/A and /s/B share a Guard, /s/C shares
// nothing, and /s/D streams.
type service struct {
	name           string
	stats          []inspect.MethodStats
	guard          *weir.Guard[rpc, string]
	calls, streams limit.Limiter
}

func (s *service) Name() string                 { return s.name }
func (s *service) Stats() []inspect.MethodStats { return s.stats }
func (s *service) Guards() []weir.Inspector     { return []weir.Inspector{s.guard} }
func (s *service) Limiters() []limit.Limiter    { return []limit.Limiter{s.calls, s.streams} }
func (s *service) PartsOf(method string) (weir.Inspector, limit.Limiter, limit.Limiter) {
	if method == "/s/A" || method == "/s/B" {
		return s.guard, s.calls, s.streams
	}
	return nil, s.calls, s.streams
}

// newService returns a service whose loads wait until release is closed, except those of
// the item "now".
func newService(t *testing.T) (s *service, release chan struct{}) {
	release = make(chan struct{})
	s = &service{
		name:    "shop",
		calls:   limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "shop", Limit: 10})),
		streams: limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "shop streams", Limit: 20})),
		stats: []inspect.MethodStats{
			{Method: "/s/A"}, {Method: "/s/B"},
			{
				Method: "/s/C", Calls: 100, Hits: 1, Stale: 2, Joined: 3, Fleet: 4, Executed: 5, Ran: 6, RanFailures: 2, Failed: 7, Refused: 8, RefusedClient: 9,
				Left: 10, StaleOnError: 1, Responses: inspect.MethodResponses{OK: 11, ClientError: 12, ServerError: 13}, Executions: 14, Refreshes: 3,
				Failures: 15, Abandoned: 16, CostSpent: 17, CostRefused: 18, Running: 19, Executing: 20,
			},
			{Method: "/s/D", Streams: 1}, {Method: "others"},
		},
	}
	s.guard = guardOf(t, func(ctx context.Context, key rpc) (string, error) {
		if key.item != "now" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return key.item, nil
	}, weir.Options{Name: "shop/s/", TTL: time.Hour, HotKeys: 10, Limiter: s.calls})
	return s, release
}

// C5, C11: each call of a gRPC method is counted once, in the unit of its method.
func TestC11_MethodsAreUnits(t *testing.T) {
	s, release := newService(t)
	db := guardOf(t, func(context.Context, string) (string, error) { return "", nil }, weir.Options{Name: "db", TTL: time.Hour, Limiter: s.calls})
	source, err := console.Methods([]console.Interceptor{s}, db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Get(t.Context(), "row"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.guard.Get(t.Context(), rpc{"/s/B", "now"}); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	for range 3 {
		go func() { _, err := s.guard.Get(context.Background(), rpc{"/s/A", "slow"}); done <- err }()
	}
	for waits := 0; waits < 2; time.Sleep(time.Millisecond) {
		waits = 0
		for _, f := range s.guard.ActiveFlights(10) {
			waits = f.Joiners - 1
		}
	}

	now := source.Snapshot()
	units := map[string]console.Unit{}
	var names []string
	for _, u := range now.Units {
		units[u.Name] = u
		names = append(names, u.Name+" "+u.Kind+" "+u.Limit)
	}
	if want := []string{"db guard shop", "shop others method shop", "shop/s/A method shop", "shop/s/B method shop", "shop/s/C method shop", "shop/s/D method shop streams"}; !slices.Equal(names, want) {
		t.Errorf("units %q; want %q", names, want)
	}
	c := units["shop/s/C"]
	got := []uint64{
		c.Requests, c.Avoided.Hits, c.Avoided.Stale, c.Avoided.Joined, c.Avoided.Fleet, c.Missed, c.MissedErrors, c.Unanswered, c.Refused.Limit, c.Refused.Client,
		c.Left, c.StaleOnError, c.Responses.Success, c.Responses.ClientError, c.Responses.ServerError, c.Responses.Left, c.Calls, c.Refreshes, c.Failed, c.Abandoned,
		c.Cost.Spent, c.Cost.Refused, uint64(c.Running),
	}
	if want := []uint64{100, 1, 2, 3, 4, 11, 2, 7, 8, 9, 10, 1, 11, 12, 13, 10, 14, 3, 15, 16, 17, 18, 39}; !slices.Equal(got, want) {
		t.Errorf("the unit of C has %v; want %v", got, want)
	}
	if a, b := units["shop/s/A"], units["shop/s/B"]; a.Flights != 1 || a.Waiting != 2 || b.Flights != 0 || b.Waiting != 0 {
		t.Errorf("A has %d flights and %d waiting, B %d and %d; want 1, 2, 0, 0", a.Flights, a.Waiting, b.Flights, b.Waiting)
	}
	if len(now.Limits) != 2 || len(now.Stores) != 1 || now.Stores[0].Name != "shop/s/" || now.Stores[0].Entries != 1 {
		t.Errorf("limits %v, stores %v; want two limits, and the Guard's memory with one entry", now.Limits, now.Stores)
	}

	a, ok := source.Detail("shop/s/A", 10)
	if !ok || len(a.Flights) != 1 || a.Entries == nil || a.Limit == nil || a.Limit.Name != "shop" {
		t.Errorf("the detail of A is %+v, %t; want its flight, the entries and the limit", a, ok)
	}
	if b, ok := source.Detail("shop/s/B", 10); !ok || len(b.Flights) != 0 || b.Entries.Fresh != 1 {
		t.Errorf("the detail of B is %+v, %t; want one entry, and not the flight of A", b, ok)
	}
	if d, ok := source.Detail("shop/s/D", 10); !ok || d.Entries != nil || d.Limit.Name != "shop streams" {
		t.Errorf("the detail of D is %+v, %t; want the limit of streams, and no entries", d, ok)
	}
	for _, name := range []string{"db", "shop/s/C"} {
		if _, ok := source.Detail(name, 10); !ok {
			t.Errorf("there is no detail of %s", name)
		}
	}
	for name, want := range map[string]bool{"nothing": false, "shop/s/": false, "shop": false} {
		if _, ok := source.Detail(name, 10); ok != want {
			t.Errorf("Detail(%q) is %t; want %t", name, ok, want)
		}
	}

	hot, ok := source.HotKeys("shop/s/B", 5)
	if !ok || hot.Window == 0 || len(hot.ByTraffic) > 1 || len(hot.ByTraffic) == 1 && hot.ByTraffic[0].Key != (rpc{"/s/B", "now"}) {
		t.Errorf("the hot keys of B are %+v, %t; want only its own", hot, ok)
	}
	if hot, ok := source.HotKeys("shop/s/C", 5); !ok || hot.Window != 0 {
		t.Errorf("the hot keys of C are %+v, %t; want none", hot, ok)
	}
	close(release)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}

	purge := source.Abilities().Purge
	if ok, err := purge(t.Context(), "shop/s/B", nil, true); !ok || err != nil || s.guard.CountEntries().Fresh != 0 {
		t.Errorf("purge = %t, %v, and %d entries are left; want true and none", ok, err, s.guard.CountEntries().Fresh)
	}
	if ok, err := purge(t.Context(), "nothing", nil, true); ok || err != nil {
		t.Errorf("purge of nothing = %t, %v; want false", ok, err)
	}
	if n := db.CountEntries().Fresh; n != 1 {
		t.Errorf("the other Guard has %d entries; want 1", n)
	}
}

func TestMethodsAreChecked(t *testing.T) {
	s, release := newService(t)
	defer close(release)
	same := guardOf(t, func(context.Context, string) (string, error) { return "", nil }, weir.Options{Name: "shop/s/"})
	for text, err := range map[string]error{
		"interceptor 2 is nil":                        second(console.Methods([]console.Interceptor{s, nil})),
		"interceptor 1 has no name":                   second(console.Methods([]console.Interceptor{&service{}})),
		`interceptors 1 and 2 are both named "shop"`:  second(console.Methods([]console.Interceptor{s, s})),
		`numbers 1 and 2 are both named "shop/s/"`:    second(console.Methods([]console.Interceptor{s}, same)),
		"number 1 has no name; want a weir.Options.N": second(console.Methods(nil, guardOf(t, func(context.Context, string) (string, error) { return "", nil }, weir.Options{}))),
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Methods = %v; want an error with %q", err, text)
		}
	}
	if _, err := console.Methods(nil); err != nil {
		t.Errorf("Methods of nothing = %v; want no error", err)
	}
}

func second(_ console.Source, err error) error { return err }
