package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func labels(ticks []tick) string {
	var all []string
	for _, t := range ticks {
		all = append(all, t.label)
	}
	return strings.Join(all, " ")
}

func TestTicks(t *testing.T) {
	unit := func(v float64) string { return fmt.Sprintf("%.1f s", v) }
	tests := []struct {
		name   string
		axis   Axis
		values []float64
		want   string
	}{
		{"linear, from 0", Axis{}, []float64{30, 97}, "0 20 40 60 80 100"},
		{"linear, fractions without rounding errors", Axis{}, []float64{0.1, 0.29}, "0 0.1 0.2 0.3"},
		{"linear, below 0", Axis{}, []float64{-3, 7}, "-4 -2 0 2 4 6 8"},
		{"linear, not from 0", Axis{Bare: true}, []float64{1000, 1010}, "1000 1002 1004 1006 1008 1010"},
		{"linear, nothing", Axis{}, nil, "0 0.2 0.4 0.6 0.8 1"},
		{"linear, all 0", Axis{}, []float64{0, 0}, "0 0.2 0.4 0.6 0.8 1"},
		{"linear, decimals that say nothing", Axis{Format: unit}, []float64{4}, "0 s 1 s 2 s 3 s 4 s"},
		{"log, decades", Axis{Kind: Log}, []float64{0.3, 4000}, "0.1 1 10 100 1000 10000"},
		{"log, few decades", Axis{Kind: Log}, []float64{3, 40}, "2 5 10 20 50"},
		{"log, many decades", Axis{Kind: Log}, []float64{1, 1e9}, "1 100 10000 1000000 100000000"},
		{"log, one value", Axis{Kind: Log}, []float64{7}, "5 10"},
		{"log, one value on a mark", Axis{Kind: Log}, []float64{10}, "10 20"},
		{"log, nothing above 0", Axis{Kind: Log}, []float64{0, -1}, "1 2 5 10"},
		{"log, zero is left out", Axis{Kind: Log}, []float64{0, 100, 900}, "100 200 500 1000"},
		{"percentiles of many", Axis{Kind: Percentile, Top: 1e6}, nil, "0 50 90 99 99.9 99.99 %"},
		{"percentiles of a hundred", Axis{Kind: Percentile, Top: 100}, nil, "0 50 90 99 %"},
		{"percentiles of four", Axis{Kind: Percentile, Top: 4}, nil, "0 50 90 %"},
		{"percentiles of who knows how many", Axis{Kind: Percentile}, nil, "0 50 90 99 99.9 99.99 %"},
	}
	for _, tt := range tests {
		s, ticks := newScale(tt.axis, tt.values, 5)
		if got := labels(ticks); got != tt.want {
			t.Errorf("%s: ticks %q; want %q", tt.name, got, tt.want)
		}
		if !(s.top > s.low) {
			t.Errorf("%s: from %g to %g", tt.name, s.low, s.top)
		}
		s.from, s.to = 0, 100
		for _, v := range tt.values {
			if at := s.at(v); !(at >= 0 && at <= 100) {
				t.Errorf("%s: %g is drawn at %g", tt.name, v, at)
			}
		}
	}
}

func TestLogPlacesRatiosAtEqualDistances(t *testing.T) {
	s, _ := newScale(Axis{Kind: Log}, []float64{1, 10000}, 5)
	s.from, s.to = 0, 400
	for v, want := range map[float64]float64{1: 0, 10: 100, 100: 200, 1000: 300, 10000: 400, 0: 0, -5: 0, 0.01: 0, 1e6: 400} {
		if got := s.at(v); math.Abs(got-want) > 1e-6 {
			t.Errorf("%g is drawn at %g; want %g", v, got, want)
		}
	}
}

func TestPercentilesPlaceEachNineAtTheSameDistance(t *testing.T) {
	s, _ := newScale(Axis{Kind: Percentile, Top: 1e6}, nil, 5)
	s.from, s.to = 0, 400
	for v, want := range map[float64]float64{0: 0, 0.9: 100, 0.99: 200, 0.999: 300, 0.9999: 400, 1: 400, 0.5: 30.103} {
		if got := s.at(v); math.Abs(got-want) > 1e-3 {
			t.Errorf("share %g is drawn at %g; want %g", v, got, want)
		}
	}
}

func TestSpreadKeepsNamesApart(t *testing.T) {
	for _, places := range [][]float64{{50, 51, 52}, {0, 0, 0, 0}, {100, 100, 100}, {10, 50, 90}, {7}, nil} {
		had := slices.Clone(places)
		spread(places, 0, 100, 13)
		for i, p := range places {
			if p < 0 || p > 100 || i > 0 && p-places[i-1] < 13-1e-9 {
				t.Errorf("spread(%v) = %v; want them 13 apart, in 0 to 100", had, places)
			}
		}
		if len(had) == 3 && had[1] == 50 && !slices.Equal(had, places) {
			t.Errorf("spread(%v) = %v; want positions that are apart unchanged", had, places)
		}
	}
}
