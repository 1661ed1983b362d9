package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/internal/cert"
	"github.com/weir-go/weir/lab/scenario"
)

// TestGridsAreWhatTheGoalsAsk checks which cells are measured, how often, and that a
// usual run does not take too long.
func TestGridsAreWhatTheGoalsAsk(t *testing.T) {
	tests := []struct {
		name     string
		cells    func(*scenario.Lab) []gridCell
		variants []string
		goals    []gridCell
		usual    []string // further cells of a usual run
	}{
		{"gateway", hitCells, hitVariants, []gridCell{mainHits, mediumHits, secureHits, streamHits}, []string{
			"150 B, 1 connection", "150 B, 3 connections", "150 B, 256 connections", "1 MB, 64 connections",
			"150 B, 64 connections, head of a browser", "150 B, 64 connections, wrk on a separate processor",
		}},
		{"gateway-pass", passCells, passVariants, []gridCell{fewPass, manyPass}, []string{
			"150 B, 1 connection", "150 B, 256 connections", "10 KB, 64 connections", "1 MB, 3 connections", "150 B, 64 connections, TLS",
		}},
	}
	for _, tt := range tests {
		names := func(cells []gridCell) (all []string) {
			for _, c := range cells {
				if all = append(all, c.String()); c.rounds < 3 {
					t.Errorf("%s: %v has %d rounds; want three or more", tt.name, c, c.rounds)
				}
			}
			if distinct := slices.Compact(slices.Sorted(slices.Values(all))); len(distinct) != len(all) {
				t.Errorf("%s: a cell occurs twice in %q", tt.name, all)
			}
			return all
		}
		usual, everything := tt.cells(&scenario.Lab{}), names(tt.cells(&scenario.Lab{Grid: true}))
		for _, want := range tt.usual {
			if !slices.Contains(names(usual), want) {
				t.Errorf("%s: %q is not in a usual run", tt.name, want)
			}
		}
		for _, c := range append(allCells(3), usual...) {
			if !slices.Contains(everything, c.String()) {
				t.Errorf("%s: %v is not in the whole grid", tt.name, c)
			}
		}
		for _, c := range tt.goals {
			if c.rounds < 6 || !slices.Contains(usual, c) {
				t.Errorf("%s: %v has a goal; want it in a usual run, with six rounds or more", tt.name, c)
			}
		}
		g := grid{kept: tt.name == "gateway"}
		var took time.Duration
		for _, c := range usual {
			for _, v := range tt.variants {
				f := front{variant: v, url: "http://h", secure: "https://h"}
				if v == byVarnish {
					f.secure = ""
				}
				if _, why := addressOf(f, c); why == "" && g.takesPart(v, c) {
					took += time.Duration(c.rounds) * 2200 * time.Millisecond
				}
			}
		}
		if took > 8*time.Minute {
			t.Errorf("%s: a usual run measures for %v; want at most 8 minutes", tt.name, took)
		}
	}
}

// TestPeersForwardWhatTheOriginSends requests responses of the origin from each of the
// lab's own proxies, over each protocol.
func TestPeersForwardWhatTheOriginSends(t *testing.T) {
	pair, err := cert.New(1, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	origin := startPeer(t, gridOrigin, peerSetup{})
	answers := map[string]peerAnswer{"/kept/150": {http.Header{"Cache-Control": {"public, max-age=3600"}}, gridBody[:150]}}
	for _, variant := range []string{byReverse, byFasthttp, bareHandler} {
		at := startPeer(t, variant, peerSetup{TLS: pair, Origin: origin.Plain, Answers: answers})
		f := front{variant: variant, url: "http://" + at.Plain, secure: "https://" + at.Secure}
		for _, c := range []gridCell{{length: 150}, {length: 150, secure: true}, {length: 150, streams: 8}, {length: largeBody}} {
			url, why := addressOf(f, c)
			if why != "" || variant == bareHandler && c.length == largeBody {
				continue
			}
			got, err := fetchGrid(t.Context(), url+gridPath(true, c.length), c, gridHeads[headCurl])
			if err != nil {
				t.Errorf("%s, %v: %v", variant, c, err)
				continue
			}
			if got.status != http.StatusOK || !bytes.Equal(got.body, gridBody[:c.length]) || got.header.Get("Cache-Control") != "public, max-age=3600" {
				t.Errorf("%s, %v: status %d, %d bytes, %v; want the origin's response", variant, c, got.status, len(got.body), got.header)
			}
		}
	}
	for path, want := range map[string]string{"/pass/10240": "no-store", "/kept/10240": "public, max-age=3600"} {
		got, err := fetchGrid(t.Context(), "http://"+origin.Plain+path, gridCell{}, nil)
		if err != nil || got.header.Get("Cache-Control") != want || len(got.body) != mediumBody {
			t.Errorf("%s: %d bytes, Cache-Control %q, %v; want %d, %q", path, len(got.body), got.header.Get("Cache-Control"), err, mediumBody, want)
		}
	}
	for _, path := range []string{"/kept/-1", "/kept/2000000", "/kept/x"} {
		if got, err := fetchGrid(t.Context(), "http://"+origin.Plain+path, gridCell{}, nil); err != nil || got.status != http.StatusNotFound {
			t.Errorf("%s: status %d, %v; want 404", path, got.status, err)
		}
	}
}

// startPeer starts a service in this process.
func startPeer(t *testing.T, variant string, set peerSetup) (at entrance) {
	t.Helper()
	params, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	svc, err := peerService(t.Context(), scenario.Options{Variant: variant, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(svc.Close)
	w := httptest.NewRecorder()
	svc.Control.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &at); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestGridSaysWhatIsMissing checks that a proxy that was not measured is in the tables.
func TestGridSaysWhatIsMissing(t *testing.T) {
	secure := gridCell{length: 150, conns: 3, secure: true}
	g := grid{
		l: &scenario.Lab{}, names: []string{shielded, byNginx, byVarnish},
		missing: map[string]string{byNginx: "not installed (nginx-light)"},
		sets:    map[bool][]front{false: {{variant: shielded, url: "http://h", secure: "https://h"}, {variant: byVarnish, url: "http://h"}}},
	}
	if got := g.ratio(secure, shielded, byNginx); got != "not installed (nginx-light)" {
		t.Errorf("nginx: %q; want that it is not installed", got)
	}
	if got := g.ratio(secure, shielded, byVarnish); got != "it has no TLS" {
		t.Errorf("Varnish: %q; want that it has no TLS", got)
	}
	if got := fmt.Sprint(g.ratios([]gridCell{secure}).Cells); !strings.Contains(got, "not installed") || !strings.Contains(got, "no TLS") {
		t.Errorf("the table has %s; want both reasons", got)
	}
}

func TestMetricOf(t *testing.T) {
	const page = "# TYPE weir_fast_requests_total counter\nweir_fast_requests_total_other 3\nweir_fast_requests_total 1.25e+06\n"
	if got, err := metricOf(page, "weir_fast_requests_total"); got != 1.25e6 || err != nil {
		t.Errorf("metricOf = %v, %v; want 1250000", got, err)
	}
	if _, err := metricOf(page, "weir_ready"); err == nil {
		t.Error("a missing metric is no error")
	}
}
