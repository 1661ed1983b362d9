package proxy_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metricsservice "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceservice "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A receiver accepts OTLP over HTTP.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	spans   []*tracepb.Span              // guarded by mu
	metrics map[string]*metricspb.Metric // guarded by mu; the last of each name
	about   map[string]string            // guarded by mu; the resource
	fields  []http.Header                // guarded by mu; of the requests
	raw     bytes.Buffer                 // guarded by mu; the bodies
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, metrics: map[string]*metricspb.Metric{}, about: map[string]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(body)
	r.fields = append(r.fields, q.Header)
	var resource []*commonpb.KeyValue
	switch q.URL.Path {
	case "/otlp/v1/traces":
		var m traceservice.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			r.t.Errorf("the traces are not protobuf: %v", err)
		}
		for _, rs := range m.ResourceSpans {
			resource = rs.Resource.Attributes
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
	case "/otlp/v1/metrics":
		var m metricsservice.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			r.t.Errorf("the metrics are not protobuf: %v", err)
		}
		for _, rm := range m.ResourceMetrics {
			resource = rm.Resource.Attributes
			for _, sm := range rm.ScopeMetrics {
				for _, one := range sm.Metrics {
					r.metrics[one.Name] = one
				}
			}
		}
	default:
		r.t.Errorf("%s %s was sent to the receiver", q.Method, q.URL.Path)
	}
	for _, a := range resource {
		r.about[a.Key] = a.Value.GetStringValue()
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// traced sends a request with a new trace, and returns its trace and span IDs.
func traced(t *testing.T, url string, n int) (trace, span string, came <-chan answer) {
	trace, span = fmt.Sprintf("%032x", 0xabc0+n), fmt.Sprintf("%016x", 0xdef0+n)
	c := make(chan answer, 1)
	go func() {
		a, _ := speak(t, "GET", url, "", "Traceparent: 00-"+trace+"-"+span+"-01")
		c <- a
	}()
	return trace, span, c
}

// With trusted clients, one trace leads from the client through the span of the call to
// the upstream. A caller that waited for that call has a span in its own trace, linked
// to the call's. A hit in memory has no span. The metrics arrive, and contain no key.
func TestC9_TelemetryArrives(t *testing.T) {
	const secret = "sesame8472"
	r := newReceiver(t)
	parents, may := make(chan string, 10), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		parents <- q.Header.Get("Traceparent")
		<-may
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "ok")
	}))
	defer origin.Close()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	config(t, file, origin.URL, `
listen: [{address: '127.0.0.1:0'}]
admin: {address: '127.0.0.1:0'}
log: {slow: 1h} # of a request that is slow the access log has all
telemetry: {service: shop-gateway, otlp: {endpoint: '`+r.URL+`/otlp/', sample: 0, trust_clients: true, headers: {Api-Key: `+secret+`key}}}`)
	p := startWith(t, []string{"OTEL_RESOURCE_ATTRIBUTES=deployment.environment=test,service.name=other"}, "--config", file)

	url := p.listen[0] + "/a?token=" + secret
	trace, client, first := traced(t, url, 1)
	var parent string
	select {
	case parent = <-parents:
	case <-time.After(patience):
		t.Fatal("the upstream got no call")
	}
	joined, joiner, second := traced(t, url, 2)
	until(t, "the second request to wait for the first", func() bool {
		return strings.Contains(get(p.admin+"/stats").body, `"waiting": 1`)
	})
	close(may)
	for _, c := range []<-chan answer{first, second} {
		if a := <-c; a.status != 200 {
			t.Fatalf("a request got %+v", a)
		}
	}
	_, _, third := traced(t, url, 3) // a hit
	<-third
	speak(t, "GET", p.listen[0]+"/b", "") // from a client without a trace: none is begun, because sample is 0
	p.signal(syscall.SIGTERM)
	p.ends(0) // everything has been sent

	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) != 2 {
		t.Fatalf("%d spans have arrived; want 2: the call's and the wait's\n%v", len(r.spans), r.spans)
	}
	i := slices.IndexFunc(r.spans, func(s *tracepb.Span) bool { return hex.EncodeToString(s.TraceId) == trace })
	if i < 0 {
		t.Fatalf("no span belongs to the client's trace: %v", r.spans)
	}
	call, wait := r.spans[i], r.spans[1-i]
	if want := "00-" + trace + "-" + hex.EncodeToString(call.SpanId) + "-01"; hex.EncodeToString(call.ParentSpanId) != client || parent != want {
		t.Errorf("the upstream got %s, the call is a child of %x; want %s and %s", parent, call.ParentSpanId, want, client)
	}
	if hex.EncodeToString(wait.TraceId) != joined || hex.EncodeToString(wait.ParentSpanId) != joiner || len(wait.Links) != 1 || !bytes.Equal(wait.Links[0].SpanId, call.SpanId) {
		t.Errorf("the wait is %v; want it in the joiner's trace, linked to the call", wait)
	}
	if r.about["service.name"] != "shop-gateway" || r.about["deployment.environment"] != "test" || r.about["service.instance.id"] == "" {
		t.Errorf("the resource is %v; want the name from the file, and the other attributes from the variable", r.about)
	}
	if h := r.fields[0]; h.Get("Api-Key") != secret+"key" {
		t.Errorf("the receiver got %v; want the header", h)
	}
	var requests, hits int64
	for _, d := range r.metrics["weir.requests"].GetSum().GetDataPoints() {
		requests += d.GetAsInt()
	}
	for _, d := range r.metrics["weir.avoided"].GetSum().GetDataPoints() {
		for _, a := range d.Attributes {
			if a.Value.GetStringValue() == "hit" {
				hits += d.GetAsInt()
			}
		}
	}
	if requests != 4 || hits != 1 {
		t.Errorf("weir.requests = %d, hits %d; want 4 and 1, of the metrics %v", requests, hits, r.metrics)
	}
	if r.metrics["http.server.request.duration"] == nil {
		t.Error("there is no http.server.request.duration")
	}
	if strings.Contains(r.raw.String(), secret) || strings.Contains(p.stderr(), secret) {
		t.Errorf("a client's key, or the receiver's key, is in the telemetry or in the log:\n%s", p.stderr())
	}
}

// An unavailable receiver costs no request, does not fill the log, and delays shutdown
// by a few seconds at most. Only a restart changes what is sent.
func TestTelemetryWithoutItsReceiver(t *testing.T) {
	t.Parallel() // it mostly waits
	file := filepath.Join(t.TempDir(), "weir.yaml")
	hangs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hangs.Close()
	for _, receiver := range []string{"http://" + free(t), hangs.URL} {
		text := func(interval string) string {
			return "listen: [{address: '127.0.0.1:0'}]\ntelemetry: {otlp: {interval: " + interval + ", headers: {Api-Key: sesame}}}"
		}
		config(t, file, newLibrary(t).URL, text("1s"))
		p := startWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver, "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_EXPORTER_OTLP_TIMEOUT=500"}, "--config", file)
		begun := time.Now()
		for i := range 100 {
			if a := get(fmt.Sprint(p.listen[0], "/", i)); a.status != 200 {
				t.Fatalf("a request got %+v", a)
			}
		}
		p.await("telemetry could not be sent", 1)
		config(t, file, newLibrary(t).URL, text("2s"))
		p.signal(syscall.SIGHUP)
		if line := p.await("a restart only", 1); !strings.Contains(line, `"setting":"telemetry"`) || strings.Contains(line, "sesame") {
			t.Errorf("the log is %s; want the name of the section, and no secret", line)
		}
		ended := time.Now()
		p.signal(syscall.SIGTERM)
		p.ends(0)
		if took := time.Since(ended); took > 15*time.Second {
			t.Errorf("shutdown took %v; want it bounded", took)
		}
		most := 2 * (2 + int(time.Since(begun)/time.Minute)) // metrics and traces, one line per minute
		if n := strings.Count(p.stderr(), "could not be sent"); n > most {
			t.Errorf("the log has %d lines about it; want at most %d:\n%s", n, most, p.stderr())
		}
	}
}

// Clients do not decide what is sampled, unless the operator allows it: a client's
// trace is linked to, but not continued. Request durations are recorded either way.
func TestC9_ClientsDoNotDecideWhatIsSampled(t *testing.T) {
	for _, tt := range []struct {
		more, flags string // of the configuration, and of the client's traceparent
		spans       int
		goesOn      bool // continues the client's trace
		sampled     bool // the sampled flag that the upstream gets
	}{
		{"", "01", 1, false, true},
		{"", "00", 1, false, true},
		{", sample: 0", "01", 0, false, false},
		{", trust_clients: true", "01", 1, true, true},
		{", trust_clients: true", "00", 0, true, false},
		{", sample: 0, trust_clients: true", "01", 1, true, true},
	} {
		name := fmt.Sprintf("otlp: {%s}, flags %s", tt.more, tt.flags)
		r := newReceiver(t)
		parents := make(chan string, 1)
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			parents <- q.Header.Get("Traceparent")
		}))
		file := filepath.Join(t.TempDir(), "weir.yaml")
		config(t, file, origin.URL, "listen: [{address: '127.0.0.1:0'}]\ntelemetry: {otlp: {endpoint: '"+r.URL+"/otlp'"+tt.more+"}}")
		p := start(t, "--config", file)
		trace, client := strings.Repeat("ab", 16), strings.Repeat("cd", 8)
		if a, _ := speak(t, "GET", p.listen[0]+"/a", "", "Traceparent: 00-"+trace+"-"+client+"-"+tt.flags); a.status != 200 {
			t.Fatalf("%s: the request got %+v", name, a)
		}
		p.signal(syscall.SIGTERM)
		p.ends(0)
		origin.Close()
		parent := strings.Split(<-parents, "-")
		if len(parent) != 4 || (parent[1] == trace) != tt.goesOn || (parent[3] == "01") != tt.sampled {
			t.Errorf("%s: the upstream got traceparent %v; want the trace continued: %v, sampled: %v", name, parent, tt.goesOn, tt.sampled)
			continue
		}
		r.mu.Lock()
		if p := r.metrics["http.server.request.duration"].GetHistogram().GetDataPoints(); len(p) != 1 || p[0].Count != 1 {
			t.Errorf("%s: the request durations are %v; want one", name, p)
		}
		if len(r.spans) != tt.spans {
			t.Errorf("%s: %d spans have arrived; want %d", name, len(r.spans), tt.spans)
		}
		for _, call := range r.spans {
			if hex.EncodeToString(call.TraceId) != parent[1] || hex.EncodeToString(call.SpanId) != parent[2] {
				t.Errorf("%s: the call is %v, the upstream got %v; want one span", name, call, parent)
			}
			if tt.goesOn {
				if hex.EncodeToString(call.ParentSpanId) != client || len(call.Links) != 0 {
					t.Errorf("%s: the call is %v; want the client's span as its parent", name, call)
				}
			} else if len(call.ParentSpanId) != 0 || len(call.Links) != 1 || hex.EncodeToString(call.Links[0].TraceId) != trace || hex.EncodeToString(call.Links[0].SpanId) != client {
				t.Errorf("%s: the call is %v; want a separate trace, linked to the client's span", name, call)
			}
		}
		r.mu.Unlock()
	}
}
