package main

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		line, bench, lib string
		ns               float64
	}{
		{"BenchmarkHit/lib=weir-2 \t 1000\t 50.1 ns/op\t 0 B/op", "Hit", "weir", 50.1},
		{"BenchmarkHit/lib=weir 1000 50.1 ns/op", "Hit", "weir", 50.1}, // one processor
		{"BenchmarkHit/lib=mapcache-dochan-16 1 2 ns/op", "Hit", "mapcache-dochan", 2},
		{"BenchmarkMiss/lib=resenje+otter-2 1 3 ns/op", "Miss", "resenje+otter", 3},
	} {
		s, ok := parse(tt.line)
		if !ok || s.bench != tt.bench || s.lib != tt.lib || s.values["ns/op"] != tt.ns {
			t.Errorf("parse(%q) = %+v, %v", tt.line, s, ok)
		}
	}
	for _, line := range []string{"", "PASS", "ok  \tpkg\t1.2s", "BenchmarkX-2 1 2 ns/op", "BenchmarkX/lib=a-2 1 x ns/op"} {
		if s, ok := parse(line); ok {
			t.Errorf("parse(%q) = %+v; want none", line, s)
		}
	}
}

func TestSpread(t *testing.T) {
	ten := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	for _, tt := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{ten, spread{5.5, 2, 9}}, // 97.9 %; from the third on it would be 89 %
	} {
		if got := spreadOf(tt.values); got != tt.want {
			t.Errorf("spreadOf(%v) = %v; want %v", tt.values, got, tt.want)
		}
	}
	if ten[0] != 10 {
		t.Error("spreadOf sorted its argument")
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	// The machine slows down tenfold; the ratio stays.
	got := ratios([]float64{1, 10, 10}, []float64{2, 20})
	if want := []float64{0.5, 0.5}; !slices.Equal(got, want) {
		t.Errorf("ratios = %v; want %v", got, want)
	}
}
