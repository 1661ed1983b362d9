// Package deploytest_test checks the files in the folder deploy: that they use only
// names that exist in the code, and that the programs that read them accept them. It
// contains only tests.
package deploytest_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/app/proxy/metrics"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
)

// noKeys is an empty Store.
type noKeys struct{ once.Store }

func (noKeys) Usage() once.Usage { return once.Usage{} }

// A family is a metric that the code exports.
type family struct {
	kind   string // counter, gauge, histogram
	labels map[string]bool
	values map[string]map[string]bool // of labels, as seen
}

// registered returns all metrics of the code by name: the declared ones, and those on
// the metrics page of a proxy, which provides the values of labels.
var registered = sync.OnceValues(func() (map[string]family, error) {
	all := map[string]family{}
	for _, m := range metrics.All() {
		f := family{kind: m.Type, labels: map[string]bool{}, values: map[string]map[string]bool{}}
		for _, l := range m.Labels {
			f.labels[l] = true
		}
		all[m.Name] = f
	}
	text, err := page()
	if err != nil {
		return nil, err
	}
	kind := regexp.MustCompile(`(?m)^# TYPE (weir_\w+) (\w+)$`)
	for _, m := range kind.FindAllStringSubmatch(text, -1) {
		if _, ok := all[m[1]]; !ok {
			all[m[1]] = family{kind: m[2], labels: map[string]bool{}, values: map[string]map[string]bool{}}
		}
	}
	sample := regexp.MustCompile(`(?m)^(weir_\w+)\{([^}]*)\} `)
	pair := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for _, m := range sample.FindAllStringSubmatch(text, -1) {
		f, ok := all[baseName(all, m[1])]
		if !ok {
			continue
		}
		for _, l := range pair.FindAllStringSubmatch(m[2], -1) {
			f.labels[l[1]] = true
			if f.values[l[1]] == nil {
				f.values[l[1]] = map[string]bool{}
			}
			f.values[l[1]][l[2]] = true
		}
	}
	return all, nil
})

// baseName returns name without the suffix of a histogram's samples.
func baseName(all map[string]family, name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && all[base].kind == "histogram" {
			return base
		}
	}
	return name
}

// page returns the metrics page of a proxy that uses every feature, with those of a
// Guard, which a program would export in the same way.
func page() (string, error) {
	ctx := context.Background()
	calls, err := limit.NewAdaptive(limit.AdaptiveOptions{})
	if err != nil {
		return "", err
	}
	g, err := weir.New(func(_ context.Context, k string) (string, error) { return k, nil }, weir.Options{
		Name: "prices", TTL: time.Minute, Limiter: calls, Fleet: weir.Fleet{Config: fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{})}},
	})
	if err != nil {
		return "", err
	}
	defer g.Close(ctx)
	if _, err := g.Get(ctx, "tea"); err != nil {
		return "", err
	}
	gw, err := gateway.New(gateway.Config{
		Claims:    once.NewClaims(noKeys{}),
		Upstreams: []gateway.Upstream{{Name: "shop", Servers: []string{"http://127.0.0.1:9"}, Adaptive: true}},
		Routes:    []gateway.Route{{Name: "shop"}},
	})
	if err != nil {
		return "", err
	}
	defer gw.Close(ctx)
	c, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{g}, Gateway: gw})
	if err != nil {
		return "", err
	}
	h, err := metrics.Handler(metrics.Options{
		Gateway:   c,
		Queues:    func() []jobs.QueueStatus { return []jobs.QueueStatus{{Queue: "reports", Waiting: 1}} },
		Responses: func() map[string]tally.Counts { return map[string]tally.Counts{"shop": {tally.Success: 1}} },
		Program:   func() metrics.Program { return metrics.Program{Version: "1.0.0", Ready: true} },
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return "", err
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	b, err := io.ReadAll(w.Result().Body)
	return string(b), err
}

// families returns registered, or fails the test.
func families(t *testing.T) map[string]family {
	t.Helper()
	all, err := registered()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 70 || all["weir_build_info"].kind != "gauge" || all["weir_http_requests_total"].kind != "counter" {
		t.Fatalf("the code exports only %d metrics: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
	return all
}
