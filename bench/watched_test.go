package bench

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/adapter/weirotel/requests"
	"github.com/weir-go/weir/adapter/weirprom"
)

// A watch is everything that can observe a Guard or a gateway: a Prometheus registry
// that is scraped, and OpenTelemetry with discarded spans and collected metrics.
type watch struct {
	registry *prometheus.Registry
	prom     weirprom.Options
	reader   *sdkmetric.ManualReader
	otel     *weirotel.Telemetry // like reader, nil for Prometheus alone
}

// newWatch returns a watch, without spans if traces is false.
func newWatch(tb testing.TB, traces bool) *watch {
	tb.Helper()
	counts := requests.New()
	w := &watch{registry: prometheus.NewPedanticRegistry(), reader: sdkmetric.NewManualReader(sdkmetric.WithProducer(counts))}
	o := weirotel.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader)), Requests: counts.Recorder}
	if traces {
		o.TracerProvider = sdktrace.NewTracerProvider()
	}
	var err error
	if w.otel, err = weirotel.New(o); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := w.otel.Close(); err != nil {
			tb.Error(err)
		}
	})
	return w
}

// register registers the collector in w.prom with Prometheus.
func (w *watch) register(tb testing.TB) {
	tb.Helper()
	c, err := weirprom.New(w.prom)
	if err == nil {
		err = w.registry.Register(c)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// collect does one scrape, and what an OpenTelemetry reader does each minute.
func (w *watch) collect(tb testing.TB) {
	families, err := w.registry.Gather()
	if err != nil || len(families) == 0 {
		tb.Errorf("Gather: %d families, %v", len(families), err)
	}
	if w.otel == nil {
		return
	}
	var all metricdata.ResourceMetrics
	if err := w.reader.Collect(context.Background(), &all); err != nil || len(all.ScopeMetrics) == 0 {
		tb.Errorf("Collect: %d scopes, %v", len(all.ScopeMetrics), err)
	}
}

// openWatched is openWeir with an Observer and the adapters of w.
func openWatched[K comparable](tb testing.TB, c config[K], w *watch) instance[K] {
	o := weirOptions(c)
	o.Name, o.Observer = "watched", w.otel.Guards()
	g, closed := newGuard(tb, c, o)
	if err := w.otel.AddGuard(g); err != nil {
		tb.Fatal(err)
	}
	w.prom.Guards = []weir.Inspector{g}
	w.register(tb)
	return instance[K]{get: g.Get, keep: g, close: closed}
}

// TestC10_AHitAllocatesNothing checks C10 with everything that can observe a Guard.
func TestC10_AHitAllocatesNothing(t *testing.T) {
	w := newWatch(t, true)
	l := library[string]{"weir.watched", func(tb testing.TB, c config[string]) instance[string] { return openWatched(tb, c, w) }}
	keys := makeKeys("hit", 64)
	ctx := context.Background()
	get := l.openFor(t, config[string]{entries: len(keys), load: func(context.Context, string) (*record, error) { return new(record), nil }})
	for _, k := range keys {
		if _, err := get(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	w.collect(t)
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		if v, err := get(ctx, keys[i%len(keys)]); v == nil || err != nil {
			t.Errorf("Get = %v, %v", v, err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations per hit; want none", n)
	}
	w.collect(t)
	if hits := w.prom.Guards[0].Stats().Hits; hits < 1000 {
		t.Errorf("%d hits; want at least those of the measurement", hits)
	}
}

// hitsATurn is how many hits are timed together: they take about half a millisecond.
const hitsATurn = 4096

// watchedKeys is a number of keys whose entries fit in the processor's cache. With
// 16,384 keys, entries that were loaded under an Observer are spread out, with its
// spans between them. A hit then takes 60 ns more because its memory is further away.
// That happens even without any observer, and does not happen with two Guards that
// were filled alike.
const watchedKeys = 256

// BenchmarkWatched measures the additional cost of a hit with everything that can
// observe a Guard. The result is the median of turns, each of which measures the
// Guard without and the one with observers one right after the other.
func BenchmarkWatched(b *testing.B) { benchWatched(b, 1) }

// BenchmarkWatchedParallel is the same with one caller per processor.
func BenchmarkWatchedParallel(b *testing.B) { benchWatched(b, 0) }

func benchWatched(b *testing.B, callers int) {
	w := newWatch(b, true)
	b.Run("lib=weir", func(b *testing.B) {
		keys := makeKeys("hit", watchedKeys)
		bare := warm(b, libWeir, keys)
		watched := warm(b, library[string]{"weir.watched", func(tb testing.TB, c config[string]) instance[string] { return openWatched(tb, c, w) }}, keys)
		n := callers
		if n == 0 {
			n = runtime.GOMAXPROCS(0)
		}
		var without, with, extra []float64
		since := time.Now()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			var collected sync.WaitGroup
			if time.Since(since) > 100*time.Millisecond {
				since = time.Now()
				collected.Go(func() { w.collect(b) })
			}
			var x, y float64
			if i%2 == 0 { // alternate which one is first
				x = hitTurn(b, bare, keys, n, i)
				y = hitTurn(b, watched, keys, n, i)
			} else {
				y = hitTurn(b, watched, keys, n, i)
				x = hitTurn(b, bare, keys, n, i)
			}
			collected.Wait()
			without, with, extra = append(without, x), append(with, y), append(extra, y-x)
		}
		b.ReportMetric(median(without), "bare-ns/hit")
		b.ReportMetric(median(with), "watched-ns/hit")
		b.ReportMetric(median(extra), "extra-ns/hit")
	})
}

// hitTurn returns how many nanoseconds a hit takes for each of n callers.
func hitTurn(b *testing.B, get getFunc[string], keys []string, n, turn int) float64 {
	ctx := b.Context()
	hits := func(caller int) {
		at := turn*hitsATurn + caller*(watchedKeys/7) // callers start at different keys
		for i := range hitsATurn {
			if v, err := get(ctx, keys[(at+i)&(watchedKeys-1)]); v == nil || err != nil {
				b.Error(v, err)
				return
			}
		}
	}
	start := time.Now()
	if n == 1 {
		hits(0)
	} else {
		var all sync.WaitGroup
		for caller := range n {
			all.Go(func() { hits(caller) })
		}
		all.Wait()
	}
	return float64(time.Since(start)) / hitsATurn
}

// median returns the median of values, or 0 if there are none. It does not change
// values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
