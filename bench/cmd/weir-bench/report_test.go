package main

import (
	"math"
	"strings"
	"testing"
)

// run is a file of two rounds; in the second round the machine was half as fast.
const run = `# date: 2026-01-02
# commit: abc1234
# cpu: A Processor
# cores: 2
goos: linux
cpu: A Processor
BenchmarkHit/lib=weir-2           1000   40 ns/op    0 B/op   0 allocs/op
BenchmarkHit/lib=otter-2          1000   50 ns/op    0 B/op   0 allocs/op
BenchmarkMiss/lib=weir-2          1000  900 ns/op  700 B/op  10 allocs/op
BenchmarkMiss/lib=resenje+otter-2 1000 1000 ns/op  500 B/op   9 allocs/op
BenchmarkHit/lib=weir-2           1000   80 ns/op    0 B/op   0 allocs/op
BenchmarkHit/lib=otter-2          1000  100 ns/op    0 B/op   0 allocs/op
BenchmarkMiss/lib=weir-2          1000 3000 ns/op  700 B/op  11 allocs/op
BenchmarkMiss/lib=resenje+otter-2 1000 2000 ns/op  500 B/op   9 allocs/op
`

func TestReport(t *testing.T) {
	rows := map[string]row{}
	for _, r := range newReport(run).Rows {
		rows[r.What] = r
	}
	for _, tt := range []struct {
		what    string
		median  float64
		verdict string
		unsure  bool
	}{
		{"fresh hit, string keys: weir / otter", 0.8, "met", false},
		{"fresh hit: weir, allocations", 0, "met", false},
		{"miss: weir / resenje around one otter Set", 1.2, "missed", true}, // 0.9 and 1.5
		{"miss: weir, allocations", 11, "missed", false},                   // the worst round
	} {
		r, ok := rows[tt.what]
		if !ok || math.Abs(r.Median-tt.median) > 1e-9 || r.Verdict != tt.verdict {
			t.Errorf("%s = %v, %v; want %v, %v", tt.what, r.Median, r.Verdict, tt.median, tt.verdict)
		}
		if tt.unsure != r.Unsure && tt.what != "miss: weir, allocations" {
			t.Errorf("%s: Unsure = %v; want %v", tt.what, r.Unsure, tt.unsure)
		}
	}
	if len(rows) != 4 {
		t.Errorf("%d rows; want 4, one for each goal whose benchmarks were run", len(rows))
	}
}

func TestReportMarkdown(t *testing.T) {
	got := newReport(run).markdown()
	for _, want := range []string{
		"Machine: A Processor, 2 cores",
		"Commit abc1234, 2026-01-02",
		"| fresh hit, string keys: weir / otter | 0.8 | 0.8 to 0.8 | ≤ 1.1 | met |",
		"| miss: weir, allocations | 11 | 10 to 11 | ≤ 9 | **missed**",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("markdown lacks %q:\n%s", want, got)
		}
	}
}

// A goal for a benchmark that does not run would silently count as met.
func TestGoalsAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range goals {
		if seen[g.what] {
			t.Errorf("two goals have the name %q", g.what)
		}
		seen[g.what] = true
	}
}
