package inserts

import "testing"

// The median is one of the measurements, with the combined checks of all.
func TestMedian(t *testing.T) {
	of := func(perSecond float64, p99 float64, lost int64) Measurement {
		return Measurement{PerSecond: perSecond, P99MS: p99, Check: Verdict{Stored: 10, Lost: lost}}
	}
	tests := []struct {
		rounds []Measurement
		want   Measurement
	}{
		{[]Measurement{of(5, 1, 0)}, of(5, 1, 0)},
		{[]Measurement{of(5, 1, 0), of(4, 2, 0)}, Measurement{PerSecond: 4, P99MS: 2, Check: Verdict{Stored: 20}}},
		{[]Measurement{of(5, 1, 1), of(9, 2, 0), of(7, 3, 0)}, Measurement{PerSecond: 7, P99MS: 3, Check: Verdict{Stored: 30, Lost: 1}}},
	}
	for _, tt := range tests {
		if got := median(tt.rounds); got != tt.want {
			t.Errorf("median(%+v) = %+v; want %+v", tt.rounds, got, tt.want)
		}
	}
}
