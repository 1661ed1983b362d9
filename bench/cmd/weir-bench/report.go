package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A goal is one row of the table: a measurement of one library divided by that of
// another, or the measurement alone if there is no other.
type goal struct {
	what     string
	bench    string
	unit     string
	num, den string
	denBench string // empty: bench
	sense    sense
	bound    float64
	worst    bool // use the worst round, not the median
}

type sense uint8

const (
	toKnow sense = iota // no bound: for information
	atMost
	atLeast
)

// The goals are those of docs/performance.md, and others that help to judge them.
var goals = []goal{
	{what: "fresh hit, string keys: weir / otter", bench: "Hit", unit: "ns/op", num: "weir", den: "otter", sense: atMost, bound: 1.1},
	{what: "fresh hit, int keys: weir / otter", bench: "HitInt", unit: "ns/op", num: "weir", den: "otter", sense: atMost, bound: 1.1},
	{what: "fresh hit, a million string keys in random order: weir / otter", bench: "HitMany", unit: "ns/op", num: "weir", den: "otter", sense: atMost, bound: 1.1},
	{what: "fresh hit, a million int keys in random order: weir / otter", bench: "HitManyInt", unit: "ns/op", num: "weir", den: "otter", sense: atMost, bound: 1.1},
	{what: "fresh hit, string keys: its parts alone (lookup, clock, count) / otter", bench: "Hit", unit: "ns/op", num: "parts", den: "otter"},
	{what: "fresh hit, string keys: weir / its parts alone", bench: "Hit", unit: "ns/op", num: "weir", den: "parts"},
	{what: "fresh hit, int keys: its parts alone / otter", bench: "HitInt", unit: "ns/op", num: "parts", den: "otter"},
	{what: "fresh hit, parallel: weir / otter", bench: "HitParallel", unit: "ns/op", num: "weir", den: "otter"},
	{what: "fresh hit: sturdyc / weir", bench: "Hit", unit: "ns/op", num: "sturdyc", den: "weir", sense: atLeast, bound: 4},
	{what: "fresh hit, parallel: sturdyc / weir", bench: "HitParallel", unit: "ns/op", num: "sturdyc", den: "weir"},
	{what: "fresh hit: singleflight around map cache, callers with deadlines (DoChan) / weir", bench: "Hit", unit: "ns/op", num: "mapcache-dochan", den: "weir"},
	{what: "fresh hit: singleflight around map cache, callers without deadlines (Do) / weir", bench: "Hit", unit: "ns/op", num: "mapcache", den: "weir", sense: atLeast, bound: 12},
	{what: "fresh hit: map cache before singleflight / weir", bench: "Hit", unit: "ns/op", num: "mapcache-checkfirst", den: "weir"},
	{what: "fresh hit, parallel: map cache before singleflight / weir", bench: "HitParallel", unit: "ns/op", num: "mapcache-checkfirst", den: "weir"},
	{what: "fresh hit: theine / weir", bench: "Hit", unit: "ns/op", num: "theine", den: "weir"},
	{what: "fresh hit: weir, allocations", bench: "Hit", unit: "allocs/op", num: "weir", sense: atMost, bound: 0, worst: true},
	{what: "miss: weir / resenje around one otter Set", bench: "Miss", unit: "ns/op", num: "weir", den: "resenje+otter", sense: atMost, bound: 1},
	{what: "miss in a full cache, int keys: weir / resenje around one otter Set", bench: "MissFull", unit: "ns/op", num: "weir", den: "resenje+otter", sense: atMost, bound: 1},
	{what: "miss: weir, allocations", bench: "Miss", unit: "allocs/op", num: "weir", sense: atMost, bound: 9, worst: true},
	{what: "miss: weir / otter, which loads on the caller's goroutine", bench: "Miss", unit: "ns/op", num: "weir", den: "otter"},
	{what: "flight alone: weir/flight / resenje", bench: "Flight", unit: "ns/op", num: "weir.flight", den: "resenje"},
	{what: "stampede: weir, most loads for one key", bench: "Stampede", unit: "loads/op", num: "weir", sense: atMost, bound: 1, worst: true},
	{what: "stampede: time a caller, weir / x/sync", bench: "Stampede", unit: "ns/caller", num: "weir", den: "xsync", sense: atMost, bound: 1.1},
	{what: "stampede: bytes a caller, weir / x/sync", bench: "Stampede", unit: "B/caller", num: "weir", den: "xsync", sense: atMost, bound: 1.1},
	{what: "stampede of warm goroutines: time a caller, weir / x/sync", bench: "StampedeWarm", unit: "ns/caller", num: "weir", den: "xsync", sense: atMost, bound: 1.1},
	{what: "stampede: time a caller, weir/flight / x/sync", bench: "Stampede", unit: "ns/caller", num: "weir.flight", den: "xsync", sense: atMost, bound: 1.1},
	{what: "stampede: weir/flight, loads for one key", bench: "Stampede", unit: "loads/op", num: "weir.flight", sense: atMost, bound: 1},
	{what: "refresh storm: weir, refreshes for 1,000 stale hits", bench: "Storm", unit: "loads/op", num: "weir", sense: atMost, bound: 1, worst: true},
	{what: "refresh storm: weir, goroutines", bench: "Storm", unit: "goroutines/op", num: "weir"},
	{what: "refresh storm: time a caller, weir / otter", bench: "Storm", unit: "ns/caller", num: "weir", den: "otter"},
	{what: "refresh storm: time a caller, weir / sturdyc", bench: "Storm", unit: "ns/caller", num: "weir", den: "sturdyc"},
	{what: "memory: weir, bytes an entry beside key and value", bench: "Memory", unit: "B/entry", num: "weir", sense: atMost, bound: 200},
	{what: "memory: otter, bytes an entry", bench: "Memory", unit: "B/entry", num: "otter"},
	{what: "memory: sturdyc, bytes an entry", bench: "Memory", unit: "B/entry", num: "sturdyc"},
	{what: "memory: theine, bytes an entry", bench: "Memory", unit: "B/entry", num: "theine"},
	{what: "fresh hit: Observer, OpenTelemetry and Prometheus beside none, ns more", bench: "Watched", unit: "extra-ns/hit", num: "weir", sense: atMost, bound: 15},
	{what: "fresh hit, parallel: Observer, OpenTelemetry and Prometheus beside none, ns more", bench: "WatchedParallel", unit: "extra-ns/hit", num: "weir", sense: atMost, bound: 15},
	{what: "gateway, hits over real connections: with hot keys and Prometheus / without", bench: "Gateway", unit: "watched/bare", num: "weir", sense: atLeast, bound: 0.97},
	{what: "gateway, hits over real connections: with OpenTelemetry's metrics too / without", bench: "GatewayOTel", unit: "watched/bare", num: "weir", sense: atLeast, bound: 0.97},
	{what: "refusal: limit.RateLimiter, ns", bench: "Refusal", unit: "ns/op", num: "rate", sense: atMost, bound: 1000},
	{what: "refusal: limit.Concurrency, ns", bench: "Refusal", unit: "ns/op", num: "concurrency", sense: atMost, bound: 1000},
	{what: "refusal through a Guard / miss", bench: "Refusal", unit: "ns/op", num: "weir", den: "weir", denBench: "Miss", sense: atMost, bound: 1},
}

// A report is the result of a run.
type report struct {
	Machine machine `json:"machine"`
	Rows    []row   `json:"rows"`
}

// A row is a goal with its measurement.
type row struct {
	What   string `json:"what"`
	Unit   string `json:"unit"`
	Ratio  bool   `json:"ratio"`
	Rounds int    `json:"rounds"`
	spread
	Target  string `json:"target,omitempty"`
	Verdict string `json:"verdict,omitempty"` // met or missed, by the median
	Unsure  bool   `json:"unsure,omitempty"`  // the target lies within the interval
}

// newReport computes the goals whose benchmarks are in raw.
func newReport(raw string) report {
	all := collect(raw)
	r := report{Machine: machineOf(raw)}
	for _, g := range goals {
		values := all[sampleKey{g.bench, g.num, g.unit}]
		if g.den != "" {
			values = ratios(values, all[sampleKey{cmp.Or(g.denBench, g.bench), g.den, g.unit}])
		}
		if len(values) > 0 {
			r.Rows = append(r.Rows, g.judge(values))
		}
	}
	return r
}

func (g goal) judge(values []float64) row {
	r := row{What: g.what, Unit: g.unit, Ratio: g.den != "", Rounds: len(values), spread: spreadOf(values)}
	if g.worst {
		r.Median, r.Low, r.High = slices.Max(values), slices.Min(values), slices.Max(values)
	}
	met := false
	switch g.sense {
	case toKnow:
		return r
	case atMost:
		r.Target, met = "≤ "+number(g.bound), r.Median <= g.bound
	case atLeast:
		r.Target, met = "≥ "+number(g.bound), r.Median >= g.bound
	}
	r.Verdict = "missed"
	if met {
		r.Verdict = "met"
	}
	r.Unsure = r.Low < g.bound && g.bound < r.High
	return r
}

// markdown returns the table under a heading.
func (r report) markdown() string {
	var b strings.Builder
	b.WriteString("# weir beside its peers\n\n" + r.Machine.markdown() + "\n")
	b.WriteString("A ratio is the median of the rounds' own ratios; the interval holds the true median with 95 % confidence.\n" +
		"Allocations and loads are those of the worst round, with the range.\n\n")
	b.WriteString("| What | Measured | Interval | Target | |\n|---|---:|---|---|---|\n")
	for _, row := range r.Rows {
		verdict := row.Verdict
		if verdict == "missed" {
			verdict = "**missed**"
		}
		if row.Unsure {
			verdict += ", within the noise"
		}
		fmt.Fprintf(&b, "| %s | %s | %s to %s | %s | %s |\n",
			row.What, number(row.Median), number(row.Low), number(row.High), row.Target, verdict)
	}
	return b.String()
}

// number prints three significant digits, and whole numbers from 100 on.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
