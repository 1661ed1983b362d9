// Package metrics exports the metrics of weir proxy to Prometheus: those of the
// gateway, of the jobs and of the program itself. All values are in memory, so a scrape
// never waits.
package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

const (
	// scrapeTime bounds a scrape. After it the scrape gets 503. Prometheus waits
	// equally long.
	scrapeTime = 10 * time.Second
	// scrapes is how many scrapes are answered concurrently. Others get 503.
	scrapes = 4
)

// Options configure what is exported.
type Options struct {
	// Gateway collects the metrics of the gateway. nil means none.
	Gateway prometheus.Collector
	// Queues returns the queues of jobs, without waiting. nil means none.
	Queues func() []jobs.QueueStatus
	// Responses returns what clients received, by route. nil means nothing.
	Responses func() map[string]tally.Counts
	// Program returns the state of the program, without waiting. Required.
	Program func() Program
	// Logger logs errors in collecting metrics, one line per minute. Required.
	Logger *slog.Logger
}

// A Program is the state of the program.
type Program struct {
	Version                string
	Ready                  bool
	Connections            int // of clients
	FastRequests           uint64
	UploadsReset           uint64
	Reloads, FailedReloads int
	LastReloadFailed       bool
}

// liveHeap is the metric that shows a leak: the memory in use after the last garbage
// collection. The memory of the process also includes free memory that was not returned
// to the system.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// Handler returns a handler that serves the metrics.
func Handler(o Options) (http.Handler, error) {
	if o.Queues == nil {
		o.Queues = func() []jobs.QueueStatus { return nil }
	}
	r := prometheus.NewRegistry()
	all := []prometheus.Collector{
		&collector{o}, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if o.Gateway != nil {
		all = append(all, o.Gateway)
	}
	var faults []error
	for _, c := range all {
		faults = append(faults, r.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog:            &complaints{plain.Logger(o.Logger), rate.NewLimiter(rate.Every(time.Minute), 1)},
		ErrorHandling:       promhttp.ContinueOnError, // the other metrics are still useful
		MaxRequestsInFlight: scrapes,
		Timeout:             scrapeTime,
		EnableOpenMetrics:   true,
	}), nil
}

// complaints logs the errors of promhttp.
type complaints struct {
	logger *slog.Logger
	limit  *rate.Limiter
}

// Println implements promhttp.Logger.
func (c *complaints) Println(v ...any) {
	if c.limit.Allow() {
		c.logger.Error("metrics are missing from /metrics", "error", plain.Bounded(fmt.Sprint(v...), listen.MaxComplaint))
	}
}

// own contains the metrics of the jobs and the program, by name. It does not change
// after initialization.
var own = map[string]*metric{}

// A metric is one of these metrics.
type metric struct {
	weirprom.Metric
	desc *prometheus.Desc
	kind prometheus.ValueType
}

var (
	jobsWaiting = gauge("weir_jobs_waiting", "Jobs that no worker has taken yet.", "queue")
	jobsRunning = gauge("weir_jobs_running", "Jobs that a worker has taken and that are not over.", "queue")
	jobsDead    = gauge("weir_jobs_dead", "Jobs on the dead list.", "queue")
	jobsPaused  = gauge("weir_jobs_paused", "1 if the queue is paused: none of its jobs starts until it is resumed. Else 0.", "queue")
	jobsOldest  = gauge("weir_jobs_oldest_seconds", "How long the oldest job that no worker has taken has waited.", "queue")

	responses = counter("weir_responses_total", "What clients received: complete responses by the class of their status (1xx, for upgrades, to 5xx), responses that broke off (broken), and requests whose client left or was too slow (left). The route is empty for requests that no route matched.", "route", "class")

	buildInfo      = gauge("weir_build_info", "Always 1; the labels say what runs.", "version", "goversion")
	ready          = gauge("weir_ready", "1 if the proxy wants traffic, 0 while it starts or drains.")
	connections    = gauge("weir_connections", "Connections of clients.")
	fastRequests   = counter("weir_fast_requests_total", "Requests of clients that were served without Go's HTTP server (server.fast_path).")
	uploadsReset   = counter("weir_uploads_reset_total", "Connections that were reset after an early response because the client sent more than the proxy reads (64 MiB, 30 s, 256 connections at a time).")
	reloads        = counter("weir_config_reloads_total", "New configurations that were applied.")
	reloadFailures = counter("weir_config_reload_failures_total", "New configurations that were invalid, so that the current one was kept.")
	lastReloadOK   = gauge("weir_config_last_reload_ok", "0 if the last new configuration was invalid, else 1.")
)

func gauge(name, help string, labels ...string) *metric {
	return declare("gauge", prometheus.GaugeValue, name, help, labels)
}

func counter(name, help string, labels ...string) *metric {
	return declare("counter", prometheus.CounterValue, name, help, labels)
}

func declare(kind string, value prometheus.ValueType, name, help string, labels []string) *metric {
	m := &metric{
		weirprom.Metric{Name: name, Type: kind, Help: help, Labels: labels},
		prometheus.NewDesc(name, help, labels, nil), value,
	}
	own[name] = m
	return m
}

// All returns all our metrics, including the gateway's, by name. Tests use it to check
// that dashboards and alerts use no other names.
func All() []weirprom.Metric {
	all := weirprom.Metrics()
	for _, m := range own {
		all = append(all, m.Metric)
	}
	slices.SortFunc(all, func(a, b weirprom.Metric) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// A collector collects the metrics of the jobs and the program.
type collector struct{ o Options }

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range own {
		ch <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	put := func(m *metric, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
	}
	for _, q := range c.o.Queues() {
		put(jobsWaiting, float64(q.Waiting), q.Queue)
		put(jobsRunning, float64(q.Taken), q.Queue)
		put(jobsDead, float64(q.Dead), q.Queue)
		put(jobsPaused, truth(q.Paused), q.Queue)
		put(jobsOldest, q.Oldest.Seconds(), q.Queue)
	}
	if c.o.Responses != nil {
		for route, counts := range c.o.Responses() {
			for class, n := range counts {
				put(responses, float64(n), strings.ToValidUTF8(route, "\uFFFD"), tally.Names[class])
			}
		}
	}
	p := c.o.Program()
	put(buildInfo, 1, p.Version, runtime.Version())
	put(ready, truth(p.Ready))
	put(connections, float64(p.Connections))
	put(fastRequests, float64(p.FastRequests))
	put(uploadsReset, float64(p.UploadsReset))
	put(reloads, float64(p.Reloads))
	put(reloadFailures, float64(p.FailedReloads))
	put(lastReloadOK, truth(!p.LastReloadFailed))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
