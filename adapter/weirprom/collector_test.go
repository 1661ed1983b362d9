package weirprom_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirtest"
)

// Each count of a Guard's Stats is reported under its name, with its kind.
func TestC8_GuardMetricsEqualItsStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var l weirtest.Loader[string, string]
		l.On("tea").Return("3")
		l.On("none").Fail(weir.ErrNotFound)
		l.On("down").Fail(errors.New("down"))
		l.On("bad").Panic("oops")
		g := guard(t, l.Load, weir.Options{
			Name: "prices", TTL: time.Minute, NegativeTTL: time.Minute, StaleWhileRevalidate: time.Minute,
			FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: time.Minute}},
		})
		for _, key := range []string{"tea", "none", "down", "bad", "tea", "tea", "tea", "none", "none", "down", "bad", "bad"} {
			g.Get(ctx, key)
		}
		l.Block("held")
		ctx, cancel := context.WithCancel(ctx)
		for range 3 { // one loads, two join
			go g.Get(ctx, "held")
		}
		synctest.Wait()
		time.Sleep(90 * time.Second)
		l.Block("tea")
		g.Get(ctx, "tea") // stale, and starts a refresh that blocks
		synctest.Wait()

		const want = `
# HELP weir_guard_avoided_total Calls that did not start a load: answered by a fresh value (hit), a stale one (stale), a remembered not-found (negative) or failure (failure), or by another call's load (join).
# TYPE weir_guard_avoided_total counter
weir_guard_avoided_total{guard="prices",kind="hit"} 3
weir_guard_avoided_total{guard="prices",kind="stale"} 1
weir_guard_avoided_total{guard="prices",kind="negative"} 2
weir_guard_avoided_total{guard="prices",kind="failure"} 3
weir_guard_avoided_total{guard="prices",kind="join"} 2
# HELP weir_guard_loads_total Runs of the load function, including refreshes.
# TYPE weir_guard_loads_total counter
weir_guard_loads_total{guard="prices"} 6
# HELP weir_guard_refreshes_total Loads in the background.
# TYPE weir_guard_refreshes_total counter
weir_guard_refreshes_total{guard="prices"} 1
# HELP weir_guard_not_found_total Results of loads that were not-found.
# TYPE weir_guard_not_found_total counter
weir_guard_not_found_total{guard="prices"} 1
# HELP weir_guard_load_failures_total Results of loads that were errors, except not-found; one for each key of a bulk load.
# TYPE weir_guard_load_failures_total counter
weir_guard_load_failures_total{guard="prices"} 3
# HELP weir_guard_panics_total Loads that panicked or called runtime.Goexit.
# TYPE weir_guard_panics_total counter
weir_guard_panics_total{guard="prices"} 1
# HELP weir_guard_load_timeouts_total Loads that exceeded LoadTimeout.
# TYPE weir_guard_load_timeouts_total counter
weir_guard_load_timeouts_total{guard="prices"} 1
# HELP weir_guard_flights Keys with a load in flight that a caller can join.
# TYPE weir_guard_flights gauge
weir_guard_flights{guard="prices"} 1
# HELP weir_guard_loads_running Loads whose function has not returned.
# TYPE weir_guard_loads_running gauge
weir_guard_loads_running{guard="prices"} 1
# HELP weir_guard_refreshes_running Loads in the background whose function has not returned.
# TYPE weir_guard_refreshes_running gauge
weir_guard_refreshes_running{guard="prices"} 1
# HELP weir_guard_entries Entries in memory, approximately.
# TYPE weir_guard_entries gauge
weir_guard_entries{guard="prices"} 5
`
		c := collector(t, weirprom.Options{Guards: []weir.Inspector{g}})
		if err := compare(c, want); err != nil {
			t.Errorf("%v\nof Stats %+v", err, g.Stats())
		}
		cancel()
		l.Release()
	})
}

// compare compares the metrics of c that are in want.
func compare(c prometheus.Collector, want string) error {
	var names []string
	for line := range strings.Lines(want) {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return testutil.CollectAndCompare(c, strings.NewReader(want), names...)
}

// A timed Guard reports given times.
type timed struct {
	weir.Inspector
	loads, waits inspect.Durations
}

func (g timed) LoadTimes() inspect.Durations { return g.loads }
func (g timed) WaitTimes() inspect.Durations { return g.waits }

// A duration counts in every bucket whose end it does not exceed.
func TestC8_HistogramsAreExact(t *testing.T) {
	var h inspect.Histogram
	for _, d := range []time.Duration{
		0, 100 * time.Microsecond, 101 * time.Microsecond, 250 * time.Microsecond, 2500*time.Microsecond + 1,
		5 * time.Millisecond, time.Second, 100 * time.Second, 100*time.Second + 1,
	} {
		h.Record(d)
	}
	const want = `
# HELP weir_guard_load_duration_seconds How long the load function ran.
# TYPE weir_guard_load_duration_seconds histogram
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.0001"} 2
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.00025"} 4
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.0005"} 4
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.001"} 4
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.0025"} 4
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.005"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.01"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.025"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.05"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.1"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.25"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="0.5"} 6
weir_guard_load_duration_seconds_bucket{guard="prices",le="1"} 7
weir_guard_load_duration_seconds_bucket{guard="prices",le="2.5"} 7
weir_guard_load_duration_seconds_bucket{guard="prices",le="5"} 7
weir_guard_load_duration_seconds_bucket{guard="prices",le="10"} 7
weir_guard_load_duration_seconds_bucket{guard="prices",le="25"} 7
weir_guard_load_duration_seconds_bucket{guard="prices",le="50"} 7
weir_guard_load_duration_seconds_bucket{guard="prices",le="100"} 8
weir_guard_load_duration_seconds_bucket{guard="prices",le="+Inf"} 9
weir_guard_load_duration_seconds_sum{guard="prices"} 201.007951002
weir_guard_load_duration_seconds_count{guard="prices"} 9
`
	g := timed{Inspector: guard(t, same, weir.Options{Name: "prices"}), loads: h.Durations()}
	c := collector(t, weirprom.Options{Guards: []weir.Inspector{g}})
	if err := compare(c, want); err != nil {
		t.Error(err)
	}
	waits := gather(t, c)["weir_guard_wait_duration_seconds"].GetMetric()[0].GetHistogram()
	if waits.GetSampleCount() != 0 || len(waits.GetBucket()) != 19 {
		t.Errorf("without waits: %v; want no sample in 19 buckets", waits)
	}
}

// A Guard's histograms are reported.
func TestC8_LoadAndWaitTimesOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t, func(context.Context, string) (string, error) {
			time.Sleep(300 * time.Millisecond)
			return "", nil
		}, weir.Options{Name: "prices", TTL: time.Minute})
		for range 2 {
			go g.Get(t.Context(), "tea")
		}
		time.Sleep(time.Second)
		g.Get(t.Context(), "tea")
		f := gather(t, collector(t, weirprom.Options{Guards: []weir.Inspector{g}}))
		loads := f["weir_guard_load_duration_seconds"].GetMetric()[0].GetHistogram()
		if loads.GetSampleCount() != 1 || loads.GetSampleSum() != 0.3 {
			t.Errorf("loads: %v; want one of 0.3 s", loads)
		}
		waits := f["weir_guard_wait_duration_seconds"].GetMetric()[0].GetHistogram()
		if waits.GetSampleCount() != 2 || waits.GetSampleSum() != 0.6 {
			t.Errorf("waits: %v; want two of 0.3 s, and none for the hit", waits)
		}
	})
}

// Two Guards of one name would be one metric, and a registry would reject everything.
func TestC8_NamesAreTakenOnce(t *testing.T) {
	a, b := guard(t, same, weir.Options{Name: "prices"}), guard(t, same, weir.Options{Name: "prices"})
	if _, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{a, b}}); !errors.Is(err, weirprom.ErrTaken) || !strings.Contains(err.Error(), `"prices"`) {
		t.Errorf("New(two Guards of one name) = %v; want ErrTaken and the name", err)
	}
	if _, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{a, nil, guard(t, same, weir.Options{})}}); !errors.Is(err, weirprom.ErrNil) || !errors.Is(err, weirprom.ErrName) {
		t.Errorf("New(nil, a Guard without a name) = %v; want ErrNil and ErrName", err)
	}
	var c weirprom.Collector
	h := handler(t, weirhttp.Options{})
	steps := []struct {
		what string
		err  error
		want error
	}{
		{"a Guard", c.AddGuard(a), nil},
		{"the same Guard", c.AddGuard(a), weirprom.ErrTaken},
		{"a Handler", c.AddRoute("shop", h), nil},
		{"a Handler of that route", c.AddRoute("shop", handler(t, weirhttp.Options{})), weirprom.ErrTaken},
		{"a Handler without a route", c.AddRoute("", h), weirprom.ErrName},
		{"no Handler", c.AddRoute("none", nil), weirprom.ErrNil},
	}
	for _, s := range steps {
		if !errors.Is(s.err, s.want) {
			t.Errorf("adding %s: %v; want %v", s.what, s.err, s.want)
		}
	}
	if !c.RemoveGuard("prices") || c.RemoveGuard("prices") || !c.RemoveRoute("shop") || c.RemoveRoute("shop") {
		t.Error("removing twice: want true, and then false")
	}
	if err := c.AddGuard(b); err != nil {
		t.Errorf("adding a Guard with the name of a removed one: %v", err)
	}
}

// A registry accepts one Collector, and returns an error for a second one.
func TestC8_RegisteredTwice(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	var already prometheus.AlreadyRegisteredError
	one, two := collector(t, weirprom.Options{}), collector(t, weirprom.Options{})
	if err := r.Register(one); err != nil {
		t.Fatalf("Register: %v", err)
	}
	for _, c := range []*weirprom.Collector{one, two} {
		if err := r.Register(c); !errors.As(err, &already) || already.ExistingCollector != one {
			t.Errorf("Register again: %v; want prometheus.AlreadyRegisteredError with the first", err)
		}
	}
	r = prometheus.NewPedanticRegistry()
	for part, c := range map[string]*weirprom.Collector{"one": one, "two": two} {
		if err := prometheus.WrapRegistererWith(prometheus.Labels{"part": part}, r).Register(c); err != nil {
			t.Errorf("Register with the label part=%q: %v", part, err)
		}
	}
}

// A name that is not a valid label value is converted, and a closed Guard is
// reported.
func TestC8_NothingPanics(t *testing.T) {
	g := guard(t, same, weir.Options{Name: "pri\xffces", TTL: time.Minute})
	g.Get(t.Context(), "tea")
	c := collector(t, weirprom.Options{Guards: []weir.Inspector{g}})
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := labelled(gather(t, c)["weir_guard_loads_total"], "guard")
	if len(got) != 1 || got[0] != "pri\uFFFDces" {
		t.Errorf("label guard: %q; want one, valid", got)
	}
	if !c.RemoveGuard("pri\xffces") {
		t.Error("RemoveGuard with the name that it was added with: false; want true")
	}
	if f := gather(t, new(weirprom.Collector)); len(f) != 0 {
		t.Errorf("an empty Collector reports %v; want nothing", f)
	}
}

// Scrapes and changes of the sources may happen at the same time.
func TestC8_ScrapesWhileGuardsComeAndGo(t *testing.T) {
	var c weirprom.Collector
	g := guard(t, same, weir.Options{Name: "prices"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if _, err := testutil.CollectAndFormat(&c, expfmt.TypeTextPlain); err != nil {
					t.Errorf("CollectAndFormat: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range 500 {
				if err := c.AddGuard(g); err == nil {
					c.RemoveGuard("prices")
				}
			}
		})
	}
	wg.Wait()
}

// handler returns a Handler in front of an origin.
func handler(t *testing.T, o weirhttp.Options) *weirhttp.Handler {
	t.Helper()
	h, err := weirhttp.New(http.HandlerFunc(answer), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// A tripped Tier reports that its breaker is open.
type tripped struct{ fleet.Tier }

func (tripped) Abilities() fleet.Abilities {
	return fleet.Abilities{State: func() fleet.BreakerState { return fleet.BreakerState{Open: true} }}
}

// Each Guard in a fleet reports whether its breaker is open. A Guard without a fleet
// reports no metrics of a fleet.
func TestGuardsTellOfTheBreaker(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	in := func(name string, tier fleet.Tier) weir.Inspector {
		g := guard(t, same, weir.Options{Name: name, TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}})
		g.Get(t.Context(), "tea")
		return g
	}
	c := collector(t, weirprom.Options{Guards: []weir.Inspector{in("well", m), in("alone", tripped{m}), in("single", nil)}})
	got := map[string]float64{}
	for _, one := range gather(t, c)["weir_fleet_open"].GetMetric() {
		got[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
	}
	if want := map[string]float64{"well": 0, "alone": 1}; !maps.Equal(got, want) {
		t.Errorf("weir_fleet_open = %v; want %v", got, want)
	}
}
