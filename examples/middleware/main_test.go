package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestMiddleware(t *testing.T) {
	var calls sync.Map // path to the number of calls, counted by the handler behind weir
	count := func(path string) int {
		n, _ := calls.Load(path)
		i, _ := n.(int)
		return i
	}
	mux := newMux()
	var mu sync.Mutex
	down := false
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls.Store(r.URL.Path, count(r.URL.Path)+1)
		broken := down
		mu.Unlock()
		if broken {
			panic(errors.New("the database is gone"))
		}
		mux.ServeHTTP(w, r)
	})
	spans := tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	var log bytes.Buffer
	s, err := newService(service, traces, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://shop.example"+path, nil))
		return w
	}

	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if w := get("/report"); w.Code != 200 || w.Body.String() != "42 visitors\n" {
				t.Errorf("GET /report = %d %q; want the report", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if n := count("/report"); n != 1 {
		t.Errorf("50 requests made %d calls; want 1", n)
	}
	get("/me")
	get("/me")
	if n := count("/me"); n != 2 {
		t.Errorf("2 requests for a private page made %d calls; want 2", n)
	}
	mu.Lock()
	down = true
	mu.Unlock()
	if w := get("/broken"); w.Code != 500 {
		t.Errorf("the status after a panic of the handler is %d; want 500", w.Code)
	}

	if err := s.close(context.Background()); err != nil { // waits for all Observers
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "the database is gone") {
		t.Errorf("log = %s; want the panic", log.String())
	}
	if n := len(spans.Ended()); n == 0 {
		t.Error("no span was recorded")
	}
}
