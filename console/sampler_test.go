package console_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
)

// checkPoint compares the columns in want.
func checkPoint(t *testing.T, what string, got, want console.Point) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		if !ok || math.IsNaN(g) != math.IsNaN(w) || math.Abs(g-w) > 0.06*math.Abs(w) {
			t.Errorf("%s: %s = %v; want %v", what, name, g, w)
		}
	}
}

var nan = math.NaN()

func TestC5_RatesOfEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, waits inspect.Histogram
		unit := func(n uint64) console.Unit {
			return console.Unit{
				Name: "rows", Requests: 100 * n, Calls: 10 * n, Refreshes: 3 * n, Failed: 2 * n, StaleOnError: n,
				Avoided: console.Avoided{Hits: 70 * n, Stale: 5 * n, Negative: 4 * n, Failures: 3 * n, Joined: 8 * n, Validated: 6 * n, Fleet: 7 * n},
				Refused: console.Refused{Limit: n, Client: 2 * n, Stuck: 3 * n, Budget: 4 * n, Paused: 5 * n, Unreachable: 6 * n, ClientBudget: 7 * n, TooLarge: 8 * n},
				Cost:    &console.Cost{Spent: 50 * n, Hits: 3 * n, Joined: 2 * n, Fleet: n, Refused: 4 * n},
				Missed:  n, MissedErrors: 2 * n, Unanswered: 3 * n, Left: 4 * n,
				Responses: &console.Responses{Switched: n, Success: 60 * n, Redirect: 5 * n, ClientError: 4 * n, ServerError: 3 * n, Broken: 2 * n, Left: 6 * n},
				Fallback:  &console.Fallback{Reasons: []console.FallbackReason{{Reason: "down", Sent: 2 * n}, {Reason: "503", Sent: 3 * n}}},
				Observed:  &console.Observed{Hits: 4 * n, Joined: 5 * n},
				Flights:   4, Running: 3, Waiting: 12, Stuck: 1, Entries: 1000,
				WaitTime: waits.Durations(), CallTime: calls.Durations(),
			}
		}
		calls.Record(20 * time.Second) // before the console was created, so in no interval
		s := &source{}
		s.tell([]console.Unit{unit(1)}, console.Limit{Name: "db", Limit: 20, InUse: 3, Queued: 2, Latency: 30 * time.Millisecond, Held: time.Second})
		c := newConsole(t, console.Options{Source: s, Title: "shop", Interval: 2 * time.Second, History: time.Minute})
		l := listen(t, serve(t, &http.Server{Handler: c}), "http://localhost/events")
		h := l.hello
		if h.Title != "shop" || h.Interval != 2*time.Second || h.History != time.Minute || h.Snapshot.Units[0].Requests != 100 {
			t.Errorf("hello %+v; want the title, the times and the snapshot", h)
		}
		if s := h.Units["rows"]; len(s["t"]) != 1 || !math.IsNaN(s["requests"][0]) || s["flights"][0] != 4 {
			t.Errorf("the history is %v; want one point, without rates", s)
		}

		for range 100 {
			calls.Record(10 * time.Millisecond)
		}
		waits.Record(time.Second)
		s.tell([]console.Unit{unit(5)}, console.Limit{Name: "db", Limit: 18, Latency: 40 * time.Millisecond, Baseline: 10 * time.Millisecond})
		tick := l.tick()
		want := console.Point{
			"requests": 200, "hits": 140, "stale": 10, "negative": 8, "failures": 6, "joined": 16, "validated": 12, "fleet": 14,
			"cost_spent": 100, "cost_avoided": 12, "cost_refused": 8,
			"calls": 20, "refreshes": 6, "failed": 4, "refused": 38, "refused_client": 18, "stale_on_error": 2,
			"refused_budget": 8, "refused_paused": 10, "refused_unreachable": 12, "refused_client_budget": 14, "too_large": 16, "observed": 18,
			"missed": 2, "missed_errors": 4, "unanswered": 6, "gone": 8, "fell_back": 10,
			"http_1xx": 2, "http_2xx": 120, "http_3xx": 10, "http_4xx": 8, "http_5xx": 6, "http_broken": 4, "http_left": 12,
			"request_p50": nan, "request_p99": nan, "wait_p50": 1, "wait_p99": 1, "call_p50": 0.01, "call_p99": 0.01,
			"flights": 4, "running": 3, "waiting": 12, "stuck": 1, "entries": 1000,
			"t": float64(time.Now().Unix()),
		}
		checkPoint(t, "rows", tick.Units["rows"], want)
		checkPoint(t, "total", tick.Total, want)
		if len(tick.Total) != len(want) || len(h.Total) != len(want) {
			t.Errorf("%d names in a point and %d in a series; want %d", len(tick.Total), len(h.Total), len(want))
		}
		badge := func(b string) func(console.Incident) bool {
			return func(i console.Incident) bool { return i.Badge == b && slices.Equal(i.Units, []string{"rows"}) }
		}
		if !slices.ContainsFunc(h.Incidents, badge("stuck")) || !slices.ContainsFunc(tick.Incidents, badge("stuck")) || !slices.ContainsFunc(tick.Incidents, badge("over budget")) {
			t.Errorf("incidents %+v, then %+v; want the stuck call, then what is refused too", h.Incidents, tick.Incidents)
		}
		checkPoint(t, "db", tick.Limits["db"], console.Point{"limit": 18, "in_use": 0, "queued": 0, "latency": 0.04, "baseline": 0.01, "held": 0})
		checkPoint(t, "db at first", console.Point{"baseline": h.Limits["db"]["baseline"][0], "held": h.Limits["db"]["held"][0]}, console.Point{"baseline": nan, "held": 1})

		tick = l.tick() // nothing happened
		checkPoint(t, "in peace", tick.Total, console.Point{"requests": 0, "calls": 0, "call_p50": nan, "wait_p99": nan, "entries": 1000})
	})
}

// The total is over all units: rates are added, and quantiles are computed from all
// durations, not from the units' quantiles.
// C11: what a Guard does not count follows from its other counts, also in the total with
// units that count it.
func TestC11_CallsOfGuardsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		units := func(n uint64) []console.Unit {
			guard := console.Unit{
				Name: "db", Kind: "guard", Requests: 100 * n, Avoided: console.Avoided{Hits: 70 * n, Joined: 10 * n}, Refused: console.Refused{Limit: 5 * n},
				Calls: 15 * n, Failed: 6 * n, StaleOnError: 2 * n,
			}
			return []console.Unit{guard, {Name: "rpc", Kind: "method", Requests: 10 * n, Missed: 10 * n, MissedErrors: n}}
		}
		s := &source{}
		s.tell(units(1))
		c := newConsole(t, console.Options{Source: s, Interval: time.Second})
		l := listen(t, serve(t, &http.Server{Handler: c}), "http://localhost/events")
		s.tell(units(2))
		tick := l.tick()
		checkPoint(t, "db", tick.Units["db"], console.Point{"missed": 15, "missed_errors": 4})
		checkPoint(t, "rpc", tick.Units["rpc"], console.Point{"missed": 10, "missed_errors": 1})
		checkPoint(t, "total", tick.Total, console.Point{"missed": 25, "missed_errors": 5})
	})
}

func TestC5_TotalOfUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quick, slow inspect.Histogram
		units := func(n uint64) []console.Unit {
			return []console.Unit{
				{Name: "a", Requests: n, Entries: 1, CallTime: quick.Durations()},
				{Name: "b", Requests: 10 * n, Entries: 2, CallTime: slow.Durations()},
			}
		}
		s := &source{}
		s.tell(units(1))
		l := listen(t, serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})}), "http://localhost/events")
		for range 90 {
			quick.Record(time.Millisecond)
		}
		for range 10 {
			slow.Record(time.Second)
		}
		s.tell(units(11))
		checkPoint(t, "total", l.tick().Total, console.Point{"requests": 110, "entries": 3, "call_p50": 0.001, "call_p99": 1})
	})
}

func TestC5_CountsThatBeginAnewAreNoRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		a, b := console.Unit{Name: "a", Requests: 1e6, Calls: 1000}, console.Unit{Name: "b", Requests: 50}
		s.tell([]console.Unit{a, b})
		l := listen(t, serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})}), "http://localhost/events")

		again := console.Unit{Name: "a", Requests: 30, Calls: 3} // a was recreated
		b.Requests += 5
		s.tell([]console.Unit{again, b})
		tick := l.tick()
		checkPoint(t, "a, made anew", tick.Units["a"], console.Point{"requests": nan, "calls": nan})
		checkPoint(t, "all, one made anew", tick.Total, console.Point{"requests": 5, "calls": 0})

		again.Requests += 10
		again.Calls-- // only one count decreases
		s.tell([]console.Unit{again, b})
		checkPoint(t, "a, with a count less", l.tick().Units["a"], console.Point{"requests": nan, "calls": nan})

		again.Requests += 10
		s.tell([]console.Unit{again, {Name: "c", Requests: 1e9}}) // b is removed, c is added
		tick = l.tick()
		checkPoint(t, "a, from then on", tick.Units["a"], console.Point{"requests": 10, "calls": 0})
		checkPoint(t, "c, that is new", tick.Units["c"], console.Point{"requests": nan})
		checkPoint(t, "all", tick.Total, console.Point{"requests": 10})
		if _, there := tick.Units["b"]; there {
			t.Error("b has a point; want none after its removal")
		}

		s.tell([]console.Unit{again, b}) // b is back
		checkPoint(t, "b, that is back", l.tick().Units["b"], console.Point{"requests": nan})

		s.tell(nil)
		tick = l.tick()
		checkPoint(t, "nothing", tick.Total, console.Point{"requests": nan, "entries": 0})
		if len(tick.Units) != 0 || tick.Snapshot.Units == nil {
			t.Errorf("without units the tick has %v and %v; want none", tick.Units, tick.Snapshot.Units)
		}
	})
}

// Memory does not grow, neither over time nor with the number of units.
func TestC6_HistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		units := func(n int) []console.Unit {
			all := make([]console.Unit, n)
			for i := range all {
				all[i].Name = fmt.Sprintf("unit %03d", i)
			}
			return all
		}
		limits := make([]console.Limit, 300)
		for i := range limits {
			limits[i] = console.Limit{Name: fmt.Sprintf("limit %03d", i), Limit: math.Inf(1)}
		}
		all := units(500)
		s.tell(all, limits...)
		c := newConsole(t, console.Options{Source: s, History: 10 * time.Second})
		client := serve(t, &http.Server{Handler: c})
		began := float64(time.Now().UnixMilli()) / 1000
		time.Sleep(time.Second / 2)
		for i := range 25 {
			all = units(500)
			for k := range all {
				all[k].Entries = i
			}
			s.tell(all, limits...)
			time.Sleep(time.Second)
		}
		h := listen(t, client, "http://localhost/events").hello
		if len(h.Units) != console.MaxUnits || len(h.Limits) != console.MaxUnits || len(h.Snapshot.Units) != console.MaxUnits || h.Snapshot.Omitted != 200 {
			t.Errorf("%d and %d series, %d units, %d omitted; want %d of each, and 200 omitted", len(h.Units), len(h.Limits), len(h.Snapshot.Units), h.Snapshot.Omitted, console.MaxUnits)
		}
		wantT, want := console.Column{}, console.Column{}
		for i := 15; i < 25; i++ {
			wantT, want = append(wantT, began+float64(i)+0.5), append(want, float64(i))
		}
		for what, got := range map[string]console.Series{"total": h.Total, "first": h.Units["unit 000"], "last": h.Units["unit 098"], "others": h.Units[console.Others]} {
			of := map[string]float64{"total": 500, "others": 500 - console.MaxUnits + 1}
			got["entries"] = slices.Clone(got["entries"])
			for i := range got["entries"] {
				got["entries"][i] /= max(of[what], 1)
			}
			if len(got["t"]) != 10 || !slices.Equal(got["entries"], want) || !slices.Equal(got["t"], wantT) {
				t.Errorf("%s: t %v, entries %v; want %v, %v", what, got["t"], got["entries"], wantT, want)
			}
		}
		if l := h.Snapshot.Limits[0].Limit; l != 0 {
			t.Errorf("without a limit, Limit is %v; want 0, because JSON has no infinity", l)
		}
	})
}

// A Source with two units of the same name does not stop the console.
func TestC6_NamesThatAreThereTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.tell([]console.Unit{{Name: "a", Entries: 1}, {Name: "a", Entries: 2}}, console.Limit{Name: "l", InUse: 1}, console.Limit{Name: "l", InUse: 2})
		client := serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})})
		time.Sleep(3500 * time.Millisecond)
		l := listen(t, client, "http://localhost/events")
		for name, got := range map[string]console.Column{"entries": l.hello.Units["a"]["entries"], "in_use": l.hello.Limits["l"]["in_use"], "total": l.hello.Total["entries"]} {
			if !slices.Equal(got, console.Column{1, 1, 1, 1}) {
				t.Errorf("%s = %v; want the first of that name in each sample", name, got)
			}
		}
		checkPoint(t, "the next", l.tick().Units["a"], console.Point{"entries": 1})
	})
}

// If a Source's HotKeys panics, the request fails, but no stream stays counted.
func TestC6_HotKeysThatPanic(t *testing.T) {
	s := &shy{}
	s.tell([]console.Unit{{Name: "a"}})
	c := newConsole(t, console.Options{Source: s, Interval: time.Hour})
	for range console.MaxStreams + 1 {
		func() {
			defer func() {
				if v := recover(); v != "no hot keys" {
					t.Fatalf("a stream ended with %v; want the panic of the Source", v)
				}
			}()
			get("/events").on(c)
		}()
	}
}

// shy is a source whose HotKeys panics.
type shy struct{ source }

func (s *shy) HotKeys(string, int) (inspect.HotKeys, bool) { panic("no hot keys") }

// A panic of a Source ends neither the program nor the console.
func TestC6_SourceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.tell([]console.Unit{{Name: "a", Requests: 10}})
		l := listen(t, serve(t, &http.Server{Handler: newConsole(t, console.Options{Source: s})}), "http://localhost/events")
		s.set(func() { s.panics = true })
		time.Sleep(5500 * time.Millisecond)
		s.set(func() { s.panics = false })
		s.tell([]console.Unit{{Name: "a", Requests: 70}})
		checkPoint(t, "after six seconds", l.tick().Units["a"], console.Point{"requests": 10})
	})
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]console.Options{
		"console: Options.Source is nil; it is required":                                                        {},
		"console: Options.Interval is 10ms; want at least 100ms":                                                {Source: &source{}, Interval: 10 * time.Millisecond},
		"console: Options.History is 2h0m0s; want at most 3600 times Options.Interval, 1h0m0s":                  {Source: &source{}, History: 2 * time.Hour},
		"console: Options.Self is empty; want the ID of this instance in Options.Roster":                        {Source: &source{}, Roster: &rosterStub{}},
		"console: Options.Source is nil; it is required\nconsole: Options.Interval is 1ns; want at least 100ms": {Interval: 1, History: 1},
	} {
		if c, err := console.New(o); err == nil || err.Error() != want || c != nil {
			t.Errorf("New(%+v) = %v, %v; want %s", o, c, err, want)
		}
	}
}

// After the clock was set back, no time of a chart is before an earlier one, and
// earlier points stay equally long ago.
func TestC5_TheClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		at := time.Now()
		tell := func(wall time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.now = console.Snapshot{At: wall, Units: []console.Unit{{Name: "rows"}}, Limits: []console.Limit{{Name: "db"}}}
		}
		tell(at)
		c := newConsole(t, console.Options{Source: s, Interval: time.Second, History: time.Minute})
		for i := 1; i <= 3; i++ {
			tell(at.Add(time.Duration(i) * time.Second))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		back := at.Add(-time.Hour)
		tell(back)
		time.Sleep(time.Second)
		synctest.Wait()
		h := listen(t, serve(t, &http.Server{Handler: c}), "http://localhost/events").hello
		base := float64(back.UnixMilli()) / 1000
		want := []float64{base - 4, base - 3, base - 2, base - 1, base}
		for what, got := range map[string]console.Column{"total": h.Total["t"], "rows": h.Units["rows"]["t"], "db": h.Limits["db"]["t"]} {
			if !slices.Equal(got, want) {
				t.Errorf("the times of %s are %v; want %v", what, got, want)
			}
		}
	})
}
