package metrics_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/app/proxy/metrics"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/jobs"
)

// page returns the metrics that Prometheus reads.
func page(t *testing.T, o metrics.Options) map[string]*dto.MetricFamily {
	t.Helper()
	h, err := metrics.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("GET /metrics = %d %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var quiet = slog.New(slog.DiscardHandler)

func TestC8_WhatIsToldOfTheProgramAndTheJobs(t *testing.T) {
	all := page(t, metrics.Options{
		Logger: quiet,
		Queues: func() []jobs.QueueStatus {
			return []jobs.QueueStatus{{Queue: "report", Waiting: 1, Taken: 2, Dead: 3, Paused: true, Oldest: 4500 * time.Millisecond}}
		},
		Responses: func() map[string]tally.Counts {
			return map[string]tally.Counts{"": {tally.ClientError: 2}, "pages": {tally.Success: 41, tally.Broken: 1}}
		},
		Program: func() metrics.Program {
			return metrics.Program{Version: "v1", Ready: true, Connections: 5, FastRequests: 8, UploadsReset: 11, Reloads: 6, FailedReloads: 7, LastReloadFailed: true}
		},
	})
	for name, want := range map[string]float64{
		"weir_jobs_waiting": 1, "weir_jobs_running": 2, "weir_jobs_dead": 3, "weir_jobs_paused": 1, "weir_jobs_oldest_seconds": 4.5,
		"weir_build_info": 1, "weir_ready": 1, "weir_connections": 5, "weir_fast_requests_total": 8, "weir_uploads_reset_total": 11,
		"weir_config_reloads_total": 6, "weir_config_reload_failures_total": 7, "weir_config_last_reload_ok": 0,
	} {
		f := all[name]
		if f == nil || len(f.Metric) != 1 {
			t.Errorf("%s = %v; want one", name, f)
			continue
		}
		if got := f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue(); got != want {
			t.Errorf("%s = %v; want %v", name, got, want)
		}
		i := slices.IndexFunc(metrics.All(), func(m weirprom.Metric) bool { return m.Name == name })
		if i < 0 {
			t.Errorf("All does not contain %s", name)
			continue
		}
		m := metrics.All()[i]
		if m.Type != strings.ToLower(f.GetType().String()) || m.Help != f.GetHelp() || len(m.Labels) != len(f.Metric[0].Label) {
			t.Errorf("All contains %+v; the page %v", m, f)
		}
	}
	received := map[string]float64{}
	for _, m := range all["weir_responses_total"].GetMetric() {
		received[m.Label[1].GetValue()+" "+m.Label[0].GetValue()] = m.GetCounter().GetValue()
	}
	if len(received) != 14 || received[" 4xx"] != 2 || received["pages 2xx"] != 41 || received["pages broken"] != 1 || received["pages 5xx"] != 0 {
		t.Errorf("weir_responses_total = %v; want all classes of both, with those counts", received)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if all[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestWithoutJobsThereAreNoQueues(t *testing.T) {
	all := page(t, metrics.Options{Logger: quiet, Program: func() metrics.Program { return metrics.Program{} }})
	if all["weir_jobs_waiting"] != nil {
		t.Errorf("weir_jobs_waiting = %v; want none", all["weir_jobs_waiting"])
	}
	if v := all["weir_config_last_reload_ok"].Metric[0].GetGauge().GetValue(); v != 1 {
		t.Errorf("weir_config_last_reload_ok = %v before any reload; want 1", v)
	}
}

// broken is a collector with one metric that cannot be read.
type broken struct{}

var brokenDesc = prometheus.NewDesc("broken", "", nil, nil)

func (broken) Describe(ch chan<- *prometheus.Desc) { ch <- brokenDesc }
func (broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(brokenDesc, errors.New("oops"))
}

// One bad metric does not remove the others. The log reports it, but not at each
// scrape.
func TestWhatCannotBeToldIsLogged(t *testing.T) {
	var log bytes.Buffer
	o := metrics.Options{
		Gateway: broken{}, Program: func() metrics.Program { return metrics.Program{} }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	h, err := metrics.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), "weir_ready") {
			t.Errorf("GET /metrics = %d %s; want the rest", w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "oops"); n != 1 {
		t.Errorf("the log contains it %d times; want 1:\n%s", n, log.String())
	}
}
