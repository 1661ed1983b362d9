package limit

import "testing"

// BenchmarkFit measures the cost of a window on top of its calls: fading and fitting
// a curve with 30 filled cells. It is inside the package, because curve is
// unexported.
func BenchmarkFit(b *testing.B) {
	var c curve
	for i := range 30 {
		n := float64(5 + i)
		c.add(n, 1e6*max(1, n/20), 100)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.fade(1, 0) // a share of 1, because after a long run only one cell would be left
		c.fade(1, c.knee)
		c.add(20, 1e6, 1e-9)
		c.fit(1, kneePenalty)
	}
}
