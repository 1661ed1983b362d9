package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/lab/result"
)

// sample is a run like those of the lab, with invented numbers: published rows,
// repeats, series, a curve, a failed check, and a scenario that was cut short.
func sample() result.Run {
	return result.Run{
		Head: result.Head{
			StartedAt: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), Commit: "5456eed", Size: result.Full,
			Machine: result.Machine{OS: "linux", Kernel: "6.1.0", Arch: "amd64", CPU: "AMD EPYC 7763", CPUs: 2, Go: "go1.26.8"},
			Notes:   []string{"CPU shares were not applied: the machine has no writable cgroup."},
		},
		Scenarios: []result.Scenario{doOnce(), coalescePostgres(), refreshAhead(), overload(), thunderingExpiry(), sqlToNoSQL()},
	}
}

func f(v float64) *float64 { return &v }

// spreadOf returns a distribution with that median and that tail: ms at share s is
// p50 * tail^(nines of s).
func spreadOf(p50, tail float64, n int64) *result.Latency {
	at := func(share float64) float64 {
		return p50 * math.Pow(tail, max(-math.Log10(1-share)-0.3, -0.3))
	}
	l := &result.Latency{
		P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Mean: p50 * 1.2,
		Slowest: at(1 - 1/float64(n)),
	}
	for nines := 0.0; nines < math.Log10(float64(n)); nines += 0.1 {
		share := 1 - math.Pow(10, -nines)
		l.Distribution = append(l.Distribution, result.Point{MS: at(share), Share: share})
	}
	return l
}

func doOnce() result.Scenario {
	one := func(variant string, seconds float64, calls int64, most int, p50, slowest, mean float64) result.Measurement {
		l := spreadOf(p50, 1.01, 100)
		l.Slowest = slowest
		return result.Measurement{
			Variant: variant, Load: "ab: 100 requests, 20 at a time", Requests: 100, Good: 100,
			Statuses: map[int]int64{200: 100}, Seconds: seconds, PerSecond: 100 / seconds, Latency: l,
			Source: &result.Source{Calls: calls, Most: most, LongestMS: mean * 1.02, MeanMS: mean},
		}
	}
	return result.Scenario{
		Name: "do-once", Title: "Do it once for all callers",
		Asks: "Twenty clients request the same thing at the same time. How many external calls are made, and how long does each client wait?",
		Published: &result.Published{
			Title: "An article on doing things once", URL: "https://example.com/do-once",
			Setup:      "An external call of one second, and a tenth of a second more for each call in progress; ab sends 100 requests, 20 at a time.",
			FromSource: []string{"the 100 ms for each call in progress"},
			Flaws:      []string{"All callers share one pointer, and one of them changes what it points to."},
		},
		Measurements: []result.Measurement{
			one("unprotected", 15.2, 100, 20, 2990, 3040, 2951),
			one("x/sync singleflight", 6.61, 6, 1, 1101, 2203, 1101),
			one("weir: coalescing", 6.60, 6, 1, 1101, 2201, 1101),
			one("weir: coalescing, cache", 1.11, 1, 1, 0.4, 1103, 1101),
		},
		Rows: []result.Row{
			{What: "time of all", Unit: "s", Better: result.Lower, PublishedBefore: f(16), PublishedAfter: f(6.6), Before: f(15.2), After: f(6.6)},
			{What: "calls", Unit: "calls", Better: result.Lower, PublishedBefore: f(100), PublishedAfter: f(6), Before: f(100), After: f(6)},
			{What: "longest call", Unit: "ms", Better: result.Lower, PublishedBefore: f(3002), PublishedAfter: nil, Before: f(3010), After: f(1123), FromSource: true},
		},
		Checks: []result.Check{
			{What: "at most 6 calls with coalescing alone", Holds: true, Detail: "6"},
			{What: "1 call with a cache", Holds: true, Detail: "1"},
		},
		ElapsedS: 31.4,
	}
}

func coalescePostgres() result.Scenario {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := result.Scenario{
		Name: "coalesce-postgres", Title: "A row of PostgreSQL for a thousand connections",
		Asks: "A thousand connections read one of a hundred rows. How do coalescing and a short cache change the rate and the slowest response?",
		Published: &result.Published{
			Title: "An article on coalescing", URL: "https://example.com/coalesce", Setup: "100 rows, a random one for each request; ab, 1,000 connections, 50,000 requests.",
			Inconsistencies: []string{"The text says 100,000 requests, the output of ab 50,000."},
			Flaws:           []string{"The pool has no bound, and PostgreSQL refuses.", "Bodies of random length count as failures."},
		},
		Checks: []result.Check{
			{What: "coalescing at least 1.0 of x/sync singleflight", Holds: true, Detail: "1.02 (0.99 to 1.04)"},
			{What: "no request failed with weir", Holds: true, Detail: "0 of 1,000,000"},
		},
		ElapsedS: 412,
	}
	for round := 1; round <= 5; round++ {
		for _, setting := range []string{"keep-alive", "a connection for each request"} {
			for _, v := range []struct {
				name                  string
				keep, not, p50, tail  float64
				calls, failed, seldom int64
			}{
				{"unprotected", 3370, 1390, 240, 3.1, 50000, 412, 0},
				{"x/sync singleflight", 10800, 7400, 80, 1.7, 9100, 0, 0},
				{"weir: coalescing", 11030, 7510, 78, 1.6, 9000, 0, 0},
				{"weir: coalescing, 1 s cache", 33900, 11200, 27, 1.5, 500, 0, 0},
				{"ceiling: a constant", 36400, 12012, 25, 1.5, 0, 0, 0},
			} {
				rate := v.keep
				if setting != "keep-alive" {
					rate, v.p50 = v.not, v.p50*v.keep/v.not
				}
				rate *= 0.92 + 0.16*rnd.Float64()
				m := result.Measurement{
					Variant: v.name, Setting: setting, Round: round, Load: "closed loop: 1,000 connections, 50,000 requests",
					Requests: 50000, Good: 50000 - v.failed, Failures: v.failed, Seconds: 50000 / rate, PerSecond: rate,
					Statuses: map[int]int64{200: 50000 - v.failed}, Latency: spreadOf(v.p50*(0.95+0.1*rnd.Float64()), v.tail, 50000-v.failed),
					CPU: &result.CPU{Generator: 0.93, Service: 0.78, Engines: 0.31},
				}
				if v.calls > 0 {
					m.Source = &result.Source{Calls: v.calls + int64(rnd.IntN(50)), Most: 80, LongestMS: 210, MeanMS: 3.1}
				}
				if v.failed > 0 {
					m.Statuses[503] = v.failed
					m.FirstFailure = "503 Service Unavailable: FATAL: sorry, too many clients already"
				}
				s.Measurements = append(s.Measurements, m)
			}
		}
	}
	s.Rows = []result.Row{
		{What: "answers", Unit: "requests/s", Better: result.Higher, PublishedBefore: f(3176), PublishedAfter: f(32669), Before: f(3370), After: f(33900), Ceiling: f(36400)},
		{What: "p99", Unit: "ms", Better: result.Lower, PublishedBefore: f(3500), PublishedAfter: f(74), Before: f(2311), After: f(61.2), Ceiling: f(55)},
		{What: "failed", Unit: "requests", Better: result.Lower, PublishedBefore: f(1591), PublishedAfter: f(0), Before: f(412), After: f(0), Note: "length mismatches left out"},
	}
	return s
}

func refreshAhead() result.Scenario {
	m := result.Measurement{
		Variant: "weir: refresh-ahead", Load: "open loop: 200/s for 30 s", Requests: 6000, Good: 6000, Seconds: 30, PerSecond: 200,
		Latency: spreadOf(0.21, 2.4, 6000), Source: &result.Source{Calls: 5, Most: 1, LongestMS: 5010, MeanMS: 5004},
	}
	return result.Scenario{
		Name: "refresh-ahead", Title: "A list that takes five seconds", Asks: "Does any reader wait once the list is there?",
		Published:    &result.Published{Title: "A talk", Setup: "A popular list that takes five seconds to compute is refreshed in the background."},
		Measurements: []result.Measurement{m},
		Checks:       []result.Check{{What: "the slowest reader waits less than 10 ms", Holds: true, Detail: "4.1 ms"}},
		ElapsedS:     36,
	}
}

func overload() result.Scenario {
	s := result.Scenario{
		Name: "overload", Title: "More than it can take", Asks: "Requests arrive at half the capacity to five times as much. How many good responses are there?",
		Axis: "times the capacity", ElapsedS: 240,
		Checks: []result.Check{{What: "goodput at 5 times the capacity is at least 0.9 of the best", Holds: true, Detail: "0.94"}},
		Notes:  []string{"A response counts as good within 1 s."},
	}
	for _, x := range []float64{0.5, 0.8, 1, 1.2, 1.5, 2, 3, 4, 5} {
		for i, v := range []string{"nothing", "fixed limit", "weir: adaptive limit", "weir: adaptive, stale on overload"} {
			arrivals := 400 * x
			good := min(arrivals, []float64{400 * math.Exp(-2*max(x-1, 0)), 360, 385, arrivals}[i])
			p99 := []float64{40 * math.Exp(2.2*min(x, 2)), 300, 90, 88}[i]
			s.Measurements = append(s.Measurements, result.Measurement{
				Variant: v, Setting: fmt.Sprintf("%g times", x), X: x, Load: fmt.Sprintf("open loop: %g/s for 6 s", arrivals),
				Requests: int64(arrivals * 6), Good: int64(good * 6), Failures: int64((arrivals - good) * 6), FirstFailure: "503", Seconds: 6, PerSecond: good,
				Latency: spreadOf(p99/3, 1.9, int64(good*6)+1),
				Source:  &result.Source{Calls: int64(min(good, 400) * 6), Most: 40, LongestMS: p99, MeanMS: p99 / 3},
				Values:  map[string]float64{"refused share": (arrivals - good) / arrivals},
			})
		}
	}
	return s
}

func thunderingExpiry() result.Scenario {
	s := result.Scenario{
		Name: "thundering-expiry", Title: "Ten thousand keys expire together", Asks: "What load does the source get when all entries become stale at once?",
		Checks: []result.Check{{What: "with XFetch the peak is below a tenth", Holds: false, Detail: "0.13"}}, ElapsedS: 95,
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for i, v := range []string{"unprotected", "with jitter", "weir: refresh-ahead", "weir: XFetch"} {
		calls, depth := make([]float64, 120), make([]float64, 120)
		for at := range calls {
			second := float64(at) / 4
			phase := math.Mod(second, 10)
			calls[at] = []float64{
				9000 * math.Exp(-4*phase), 900 * math.Exp(-math.Pow(phase-5, 2)/6),
				300 + 80*math.Sin(second), 1150 * math.Exp(-math.Pow(phase-8, 2)/3),
			}[i] * (0.85 + 0.3*rnd.Float64())
			depth[at] = math.Floor(calls[at] / 90)
		}
		s.Measurements = append(s.Measurements, result.Measurement{
			Variant: v, Load: "open loop: 5,000/s for 30 s", Requests: 150000, Good: 150000, Seconds: 30, PerSecond: 5000,
			Latency: spreadOf(0.4, []float64{9, 4, 1.8, 2}[i], 150000),
			Source:  &result.Source{Calls: 30000, Most: []int{400, 60, 8, 9}[i], LongestMS: 30, MeanMS: 10},
			Series: []result.Series{
				{Name: result.CallsAtSource, Unit: "calls/s", EveryMS: 250, Values: calls},
				{Name: result.QueueDepth, Unit: "callers", EveryMS: 250, Values: depth},
			},
		})
	}
	return s
}

func sqlToNoSQL() result.Scenario {
	s := result.Scenario{
		Name: "sql-to-nosql", Title: "Inserts: PostgreSQL against Cassandra", Asks: "Which one takes more inserts, alone and with batches in front?",
		Published: &result.Published{
			Title: "An article on SQL and NoSQL", Setup: "Inserts of an activity by 1 and 12 connections for 5 s, one CPU for each engine.",
			Inconsistencies: []string{"It prints -c3 for 12 connections."},
		},
		Rows: []result.Row{
			{What: "Cassandra, 12 connections", Unit: "inserts/s", Better: result.Higher, PublishedBefore: f(323), PublishedAfter: f(1213), Before: f(610), After: f(1490)},
		},
		Tables: []result.Table{{
			Title: "When to choose which", Head: []string{"connections", "PostgreSQL", "with batches", "Cassandra", "choose"},
			Cells: [][]string{{"1", "521", "480", "356", "PostgreSQL"}, {"12", "610", "5,210", "1,490", "PostgreSQL, with batches in front; Cassandra if it must grow"}},
		}},
		Checks: []result.Check{
			{What: "no row lost", Holds: true, Detail: "26,120 of 26,120"},
			{What: "batches at least 5 times single inserts at 12 connections", Holds: true, Detail: "8.5"},
		},
		Error: "engine: Cassandra stopped answering after 31 s", ElapsedS: 61,
	}
	for _, n := range []float64{1, 12} {
		for i, v := range []string{"PostgreSQL", "weir: batches, PostgreSQL", "Cassandra"} {
			for round := 1; round <= 3-i; round++ {
				rate := []float64{521, 480, 356, 610, 5210, 1490}[i+3*int(n/12)] * (1 + 0.03*float64(round))
				s.Measurements = append(s.Measurements, result.Measurement{
					Variant: v, Setting: fmt.Sprintf("%g connections", n), X: n, Round: round, Load: "closed loop, 5 s",
					Requests: int64(5 * rate), Good: int64(5 * rate), Seconds: 5, PerSecond: rate, Latency: spreadOf(1000*n/rate, 1.8, int64(5*rate)),
					Values: map[string]float64{"rows lost": 0},
				})
			}
		}
	}
	return s
}
