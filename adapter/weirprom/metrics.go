package weirprom

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/inspect"
)

// A Metric describes one metric of a Collector.
type Metric struct {
	Name   string   // of a histogram without _bucket, _sum and _count
	Type   string   // "counter", "gauge" or "histogram"
	Help   string   // what it counts
	Labels []string // all possible labels
}

// Metrics returns all metrics that a [Collector] describes, by name, whatever it
// collects from. It is meant for tests that dashboards and alerts use no other names.
func Metrics() []Metric {
	out := make([]Metric, 0, len(all))
	for _, m := range all {
		one := m.Metric
		one.Labels = slices.Clone(m.Labels)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Metric) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// A metric is a Metric with its representation in client_golang.
type metric struct {
	Metric
	desc  *prometheus.Desc
	value prometheus.ValueType // unused for a histogram
}

// all are the metrics that table.go and gateway/metrics declare. It is not altered
// after that.
var all []*metric

// shared are the metrics of gateway/metrics.
var shared = declareShared()

func declareShared() map[*metrics.Metric]*metric {
	out := make(map[*metrics.Metric]*metric)
	for _, m := range metrics.All() {
		if m.Kind == metrics.Counter {
			out[m] = counter(sharedName(m), m.Help, m.Labels...)
		} else {
			out[m] = gauge(sharedName(m), m.Help, m.Labels...)
		}
	}
	return out
}

// sharedName returns m's name by the conventions of Prometheus: with the unit, and
// _total for a counter.
func sharedName(m *metrics.Metric) string {
	if m.Prometheus != "" {
		return m.Prometheus
	}
	name := "weir_" + strings.ReplaceAll(m.Name, ".", "_") + map[string]string{"s": "_seconds", "By": "_bytes"}[m.Unit]
	if m.Kind == metrics.Counter {
		name += "_total"
	}
	return name
}

func counter(name, help string, labels ...string) *metric {
	return declare("counter", prometheus.CounterValue, name, help, labels)
}

func gauge(name, help string, labels ...string) *metric {
	return declare("gauge", prometheus.GaugeValue, name, help, labels)
}

func histogram(name, help string, labels ...string) *metric {
	return declare("histogram", prometheus.UntypedValue, name, help, labels)
}

func declare(kind string, value prometheus.ValueType, name, help string, labels []string) *metric {
	m := &metric{Metric{name, kind, help, labels}, prometheus.NewDesc(name, help, labels, nil), value}
	all = append(all, m)
	return m
}

// A sink receives the metrics of a scrape.
type sink chan<- prometheus.Metric

// number is any type of a number in Stats.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// put sends m with the value v.
func put[N number](s sink, m *metric, v N, labels ...string) {
	out, err := prometheus.NewConstMetric(m.desc, m.value, float64(v), labels...)
	if err != nil {
		out = prometheus.NewInvalidMetric(m.desc, err)
	}
	s <- out
}

// bounds are the upper bounds of a histogram's buckets. An inspect.Histogram has
// buckets that end there too, so the counts are exact.
var bounds = makeBounds()

func makeBounds() []time.Duration {
	var b []time.Duration
	for unit := 100 * time.Microsecond; unit < inspect.Longest; unit *= 10 {
		b = append(b, unit, unit*5/2, unit*5)
	}
	return append(b, inspect.Longest)
}

// putDurations sends m with d, in seconds.
func putDurations(s sink, m *metric, d inspect.Durations, labels ...string) {
	buckets := make(map[float64]uint64, len(bounds))
	for _, b := range bounds {
		if n, ok := d.Within(b); ok {
			buckets[b.Seconds()] = n
		}
	}
	out, err := prometheus.NewConstHistogram(m.desc, d.Count, d.Sum.Seconds(), buckets, labels...)
	if err != nil {
		out = prometheus.NewInvalidMetric(m.desc, err)
	}
	s <- out
}
