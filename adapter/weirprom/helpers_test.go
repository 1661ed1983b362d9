package weirprom_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/gateway"
)

// collector returns a Collector over o.
func collector(t *testing.T, o weirprom.Options) *weirprom.Collector {
	t.Helper()
	c, err := weirprom.New(o)
	if err != nil {
		t.Fatalf("New(%+v): %v", o, err)
	}
	return c
}

// guard returns a Guard that loads with load.
func guard(t *testing.T, load func(context.Context, string) (string, error), o weir.Options) *weir.Guard[string, string] {
	t.Helper()
	g, err := weir.New(load, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(context.Background()) })
	return g
}

// same returns the key.
func same(_ context.Context, key string) (string, error) { return key, nil }

// origin returns a server whose responses may be cached for a minute.
func origin(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	io.WriteString(w, "hello")
}

// opened returns a Gateway that is closed at the end of the test.
func opened(t *testing.T, c gateway.Config) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(context.Background()) })
	return g
}

// ask sends a GET to h, which may abort it, as in a net/http server.
func ask(h http.Handler, url string) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, nil))
}

// gather returns the families of c by name, from a pedantic registry.
func gather(t *testing.T, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatalf("Register: %v", err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	out := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// labelled returns the values of a label in a family.
func labelled(f *dto.MetricFamily, name string) []string {
	var values []string
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				values = append(values, l.GetValue())
			}
		}
	}
	return values
}
