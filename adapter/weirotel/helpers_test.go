package weirotel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirotel"
	"github.com/weir-go/weir/weirhttp"
)

// A rig is a Telemetry whose spans and metrics stay in memory.
type rig struct {
	*weirotel.Telemetry
	t      *testing.T
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
	reader *sdkmetric.ManualReader
}

// open creates a rig. It sets the providers of o.
func open(t *testing.T, o weirotel.Options) *rig {
	t.Helper()
	r := &rig{t: t, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	r.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	o.TracerProvider = r.traces
	o.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	var err error
	if r.Telemetry, err = weirotel.New(o); err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

// caller returns a context with a new span, like that of a request.
func (r *rig) caller(name string) (context.Context, trace.Span) {
	return r.traces.Tracer("test").Start(r.t.Context(), name)
}

// ended returns the spans of that name that have ended.
func (r *rig) ended(name string) []sdktrace.ReadOnlySpan {
	var out []sdktrace.ReadOnlySpan
	for _, s := range r.spans.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

// single returns the one span of that name.
func (r *rig) single(name string) sdktrace.ReadOnlySpan {
	r.t.Helper()
	found := r.ended(name)
	if len(found) != 1 {
		var all []string
		for _, s := range r.spans.Ended() {
			all = append(all, s.Name())
		}
		r.t.Fatalf("%d spans %q among %q; want 1", len(found), name, all)
	}
	return found[0]
}

// links returns the IDs of the spans that s links to.
func links(s sdktrace.ReadOnlySpan) []trace.SpanID {
	var ids []trace.SpanID
	for _, l := range s.Links() {
		ids = append(ids, l.SpanContext.SpanID())
	}
	return ids
}

// attr returns the attribute of s with that key as text, "none" if there is none.
func attr(s sdktrace.ReadOnlySpan, key string) string { return textOf(s.Attributes(), key) }

func textOf(attrs []attribute.KeyValue, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return "none"
}

// has compares attributes of s with pairs of "key=value".
func has(t *testing.T, s sdktrace.ReadOnlySpan, pairs ...string) {
	t.Helper()
	for _, p := range pairs {
		key, want, _ := strings.Cut(p, "=")
		if got := attr(s, key); got != want {
			t.Errorf("span %q: %s = %q; want %q", s.Name(), key, got, want)
		}
	}
}

// collect returns all metrics by name.
func (r *rig) collect() map[string]metricdata.Metrics {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &all); err != nil {
		r.t.Fatalf("Collect: %v", err)
	}
	out := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			out[m.Name] = m
		}
	}
	return out
}

// series returns the points of m as text: their attributes, and their number, or for
// durations their count and sum.
func series(m metricdata.Metrics) []string {
	var out []string
	add := func(set attribute.Set, format string, args ...any) {
		var words []string
		for _, kv := range set.ToSlice() {
			words = append(words, string(kv.Key)+"="+kv.Value.String())
		}
		out = append(out, strings.Join(append(words, fmt.Sprintf(format, args...)), " "))
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%d", p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%d", p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%gs", p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%d in %gs", p.Count, p.Sum)
		}
	}
	slices.Sort(out)
	return out
}

// guard returns a Guard that is observed by r and added to it.
func (r *rig) guard(load func(context.Context, string) (string, error), o weir.Options) *weir.Guard[string, string] {
	r.t.Helper()
	if o.Observer == nil {
		o.Observer = r.Guards()
	}
	g, err := weir.New(load, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { g.Close(context.Background()) })
	if err := r.AddGuard(g); err != nil {
		r.t.Fatal(err)
	}
	return g
}

// handler returns a Handler that is observed by r and added to it.
func (r *rig) handler(next http.HandlerFunc, o weirhttp.Options) *weirhttp.Handler {
	r.t.Helper()
	o.Observer = r.HTTP()
	h, err := weirhttp.New(next, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { h.Close(context.Background()) })
	if err := r.AddRoute(o.Route, h); err != nil {
		r.t.Fatal(err)
	}
	return h
}

// ask sends a request to h in ctx, with header fields as "name: value".
func ask(ctx context.Context, h http.Handler, target string, fields ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, target, nil).WithContext(ctx)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// cached responds with content that may be cached for a minute.
func cached(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	io.WriteString(w, "hello")
}
