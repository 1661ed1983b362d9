package result

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the least confidence of an Interval's bounds.
const Confidence = 0.95

// MinPairs is the number of pairs that an interval of that confidence needs. The
// median of the population lies between the lowest and the highest of six ratios 31
// times out of 32, and of five 15 times out of 16.
const MinPairs = 6

// An Interval is a ratio with its bounds.
type Interval struct {
	Median    float64 `json:"median"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	Pairs     int     `json:"pairs"`
	RangeOnly bool    `json:"range_only,omitempty"` // fewer than MinPairs: the bounds are the lowest and the highest ratio, without that confidence
}

// Ratio compares rounds measured in turn: num[i] and den[i] are from one round, so a
// temporary slowdown of the machine affects both. It returns the median of
// num[i]/den[i] and its 95 % interval by order statistics, which assumes nothing
// about the distribution of the ratios. Both bounds are measured ratios, so with few
// pairs they are far apart. With 6 to 8 pairs they are the lowest and the highest
// ratio. With fewer there is no such interval: the bounds are still the lowest and
// the highest, and RangeOnly is set.
//
// Values without a counterpart are left out, and so are pairs whose ratio is not a
// number, as with a den of 0. Without any pair all fields except RangeOnly are 0.
func Ratio(num, den []float64) Interval {
	var ratios []float64
	for i := range min(len(num), len(den)) {
		if r := num[i] / den[i]; !math.IsNaN(r) && !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	if len(ratios) == 0 {
		return Interval{RangeOnly: true}
	}
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(ratios, &benchmath.DefaultThresholds), Confidence)
	out := Interval{Median: s.Center, Low: s.Lo, High: s.Hi, Pairs: len(ratios)}
	if len(ratios) < MinPairs {
		out.RangeOnly = true
		out.Low, out.High = slices.Min(ratios), slices.Max(ratios)
	}
	return out
}

// String formats the interval.
func (i Interval) String() string {
	what := "95 % interval"
	if i.RangeOnly {
		what = "range"
	}
	return fmt.Sprintf("%.3f, %s %.3f to %.3f, %d rounds", i.Median, what, i.Low, i.High, i.Pairs)
}
