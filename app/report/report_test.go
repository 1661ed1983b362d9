package report_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/app/report"
)

func example() *report.Report {
	r := &report.Report{
		Source: "tile", Work: "a 256 x 256 map tile rendered as PNG", CallMS: 27.4,
		Clients: 64, Keys: 32, Skew: 1.1, LevelS: 4, TTLS: 2, Seed: 1,
		StartedAt: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC),
		Machine:   report.Machine{OS: "linux", Arch: "amd64", CPUs: 2, GOMAXPROCS: 2, Go: "go1.26.8"},
		Levels: []report.Level{
			{Name: "unprotected", Requests: 264, PerSecond: 61.2, P50MS: 912, P99MS: 1804, SlowestMS: 2104.2, Calls: 264, Peak: 64},
			{Name: "coalescing", Requests: 1071, PerSecond: 255.1, P50MS: 231, P99MS: 612, SlowestMS: 820, Calls: 251, Peak: 22},
			{Name: "+ cache", Requests: 41234, PerSecond: 10308.5, P50MS: 0.812, P99MS: 14.9, SlowestMS: 480, Calls: 128, Peak: 27},
			{Name: "+ refresh-ahead", Requests: 1041999, PerSecond: 260499.7, P50MS: 0.0951, P99MS: 9.96, SlowestMS: 999.6, Calls: 130, Peak: 30},
			{Name: "+ admission", Requests: 41234, PerSecond: 7.25, P50MS: 0.9996, P99MS: 14.9, SlowestMS: 480, Calls: 128, Peak: 2,
				Failures: 12, FirstFailure: "503 Service\x1b Unavailable"},
		},
	}
	r.SetRatios()
	return r
}

func TestTableGolden(t *testing.T) {
	for _, tt := range []struct {
		file  string
		style report.Style
	}{
		{"plain80.txt", report.Style{}},
		{"plain120.txt", report.Style{Width: 120}},
		{"color80.txt", report.Style{Width: 80, Color: true}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			var got bytes.Buffer
			if err := example().Table(&got, tt.style); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", tt.file), got.Bytes())
		})
	}
}

func TestTablePlainHasNoControlCharactersAndFits(t *testing.T) {
	for _, width := range []int{0, 40, 80, 100, 500} {
		var b strings.Builder
		if err := example().Table(&b, report.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		fit := min(max(width, 80), 120)
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > fit {
				t.Errorf("width %d: a line of %d columns; want at most %d: %q", width, n, fit, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("width %d: control character in %q", width, line)
			}
		}
	}
}

func TestTableSaysWhenTheSourceCannotKeepUp(t *testing.T) {
	const note = "Run it with fewer --keys"
	for _, tt := range []struct {
		keys int
		want bool
	}{
		{72, false}, // 27.4 ms each on 2 CPUs are 0.99 s of 2 s
		{74, true},
	} {
		r := example()
		r.Keys = tt.keys
		var b strings.Builder
		if err := r.Table(&b, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), note); got != tt.want {
			t.Errorf("%d keys: note %v; want %v:\n%s", tt.keys, got, tt.want, b.String())
		}
	}
}

func TestTableWithoutASuccessfulResponse(t *testing.T) {
	r := &report.Report{Levels: []report.Level{
		{Name: "unprotected", Requests: 7, Failures: 7, FirstFailure: "connection refused"},
		{Name: "coalescing", Requests: 7, Failures: 0, PerSecond: 3, P50MS: 1},
	}}
	r.SetRatios()
	var b strings.Builder
	if err := r.Table(&b, report.Style{}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "NaN") || strings.Contains(got, "×") ||
		!strings.Contains(got, "7 of 7 requests failed, the first with\n  connection refused") {
		t.Errorf("table of a level that failed:\n%s", got)
	}
}

func TestTableSaysWhetherARequestFailed(t *testing.T) {
	const none = "\nNo request failed.\n"
	r := example()
	for _, failed := range []bool{true, false} {
		if !failed {
			r.Levels[4].Failures = 0
		}
		var b strings.Builder
		if err := r.Table(&b, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(b.String(), none) == failed || strings.Contains(b.String(), "requests failed, the first") != failed {
			t.Errorf("table with failures: %v:\n%s", failed, b.String())
		}
	}
}

func TestJSONIsOneObjectWithLevels(t *testing.T) {
	var b bytes.Buffer
	if err := example().JSON(&b); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&b)
	var got map[string]any
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if dec.More() {
		t.Error("more than one JSON value")
	}
	levels, _ := got["levels"].([]any)
	if len(levels) != 5 {
		t.Fatalf("levels has %d members; want 5", len(levels))
	}
	first, _ := levels[0].(map[string]any)
	for _, name := range []string{
		"name", "requests", "responses_per_s", "p50_ms", "p99_ms", "slowest_ms",
		"failures", "upstream_calls", "peak_concurrency", "ratio",
	} {
		if _, ok := first[name]; !ok {
			t.Errorf("a level has no member %q", name)
		}
	}
}
