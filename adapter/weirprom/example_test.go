package weirprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirprom"
)

// A Guard, and its metrics in Prometheus.
func Example() {
	ctx := context.Background()
	prices := weir.Must(weir.New(func(_ context.Context, item string) (int, error) {
		return len(item), nil
	}, weir.Options{Name: "prices", TTL: time.Minute}))
	defer prices.Close(ctx)

	c, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{prices}})
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	for range 3 {
		prices.Get(ctx, "tea")
	}
	for line := range strings.Lines(scrape(mux)) {
		if strings.HasPrefix(line, "weir_guard_loads_total") || strings.HasPrefix(line, "weir_guard_avoided_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// weir_guard_avoided_total{guard="prices",kind="failure"} 0
	// weir_guard_avoided_total{guard="prices",kind="hit"} 2
	// weir_guard_avoided_total{guard="prices",kind="join"} 0
	// weir_guard_avoided_total{guard="prices",kind="negative"} 0
	// weir_guard_avoided_total{guard="prices",kind="stale"} 0
	// weir_guard_loads_total{guard="prices"} 1
}

// scrape does what Prometheus does.
func scrape(h http.Handler) string {
	server := httptest.NewServer(h)
	defer server.Close()
	resp, err := http.Get(server.URL + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
