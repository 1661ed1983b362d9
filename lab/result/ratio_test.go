package result_test

import (
	"testing"

	"github.com/weir-go/weir/lab/result"
)

func TestRatio(t *testing.T) {
	ones := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	tests := []struct {
		name     string
		num, den []float64
		want     result.Interval
	}{
		{"none", nil, nil, result.Interval{RangeOnly: true}},
		{"one pair", []float64{6}, []float64{2}, result.Interval{Median: 3, Low: 3, High: 3, Pairs: 1, RangeOnly: true}},
		{"pairs by round, not sorted", []float64{10, 2}, []float64{5, 2}, result.Interval{Median: 1.5, Low: 1, High: 2, Pairs: 2, RangeOnly: true}},
		{"five: the range", []float64{5, 4, 3, 2, 1}, ones, result.Interval{Median: 3, Low: 1, High: 5, Pairs: 5, RangeOnly: true}},
		{"six: an interval", []float64{6, 5, 4, 3, 2, 1}, ones, result.Interval{Median: 3.5, Low: 1, High: 6, Pairs: 6}},
		{"twelve: narrower than the range", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, ones,
			result.Interval{Median: 6.5, Low: 3, High: 10, Pairs: 12}},
		{"no counterpart, nothing to divide by", []float64{4, 1, 0, 9}, []float64{2, 0, 0}, result.Interval{Median: 2, Low: 2, High: 2, Pairs: 1, RangeOnly: true}},
	}
	for _, tt := range tests {
		if got := result.Ratio(tt.num, tt.den); got != tt.want {
			t.Errorf("%s: Ratio(%v, %v) = %+v; want %+v", tt.name, tt.num, tt.den, got, tt.want)
		}
	}
}
