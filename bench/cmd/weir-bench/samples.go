package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A sample is one line of a benchmark.
type sample struct {
	bench, lib string
	values     map[string]float64 // by unit
}

// parse reads a line such as
//
//	BenchmarkHit/lib=weir-2   1000   50.1 ns/op   0 B/op   0 allocs/op
func parse(line string) (sample, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return sample{}, false
	}
	bench, lib, ok := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "/lib=")
	if !ok {
		return sample{}, false
	}
	// The number of processors, which is left out when it is 1.
	if i := strings.LastIndexByte(lib, '-'); i >= 0 {
		if _, err := strconv.Atoi(lib[i+1:]); err == nil {
			lib = lib[:i]
		}
	}
	s := sample{bench, lib, map[string]float64{}}
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return sample{}, false
		}
		s.values[fields[i+1]] = v
	}
	return s, true
}

// samples holds the values of a run in the order of its rounds.
type samples map[sampleKey][]float64

type sampleKey struct{ bench, lib, unit string }

func collect(raw string) samples {
	all := samples{}
	for line := range strings.Lines(raw) {
		s, ok := parse(line)
		if !ok {
			continue
		}
		for unit, v := range s.values {
			k := sampleKey{s.bench, s.lib, unit}
			all[k] = append(all[k], v)
		}
	}
	return all
}

// ratios divides round by round, so that whatever the machine did in a round affects
// both numbers.
func ratios(num, den []float64) []float64 {
	n := min(len(num), len(den))
	r := make([]float64, n)
	for i := range r {
		r[i] = num[i] / den[i]
	}
	return r
}

// A spread is a median and an interval that contains the true median with at least
// 95% confidence. It is based on order statistics, so it assumes nothing about the
// distribution. With fewer than six values there is no such interval, and it is the
// range.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	k := confidenceRank(n)
	return spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Low: v[k], High: v[n-1-k]}
}

// confidenceRank returns the largest k such that the k-th smallest and the k-th
// largest of n values, counted from 0, enclose the median with 95% confidence. The
// number of values below the median is binomial with p = 1/2.
func confidenceRank(n int) int {
	k, term := 0, math.Pow(0.5, float64(n)) // P(i values below), i = 0
	for tail := term; k < n/2; {
		term *= float64(n-k) / float64(k+1)
		if tail+term > 0.025 {
			break
		}
		tail += term
		k++
	}
	return k
}
