package limit

import "testing"

// BenchmarkFit is what a window costs beside its calls: fading and fitting a
// curve of which 30 cells are filled. It is inside the package, as a curve is
// not available outside.
func BenchmarkFit(b *testing.B) {
	var c curve
	for i := range 30 {
		n := float64(5 + i)
		c.add(n, 1e6*max(1, n/20), 100)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.fade(1, 0) // by nothing, or one cell would be left of a long run
		c.fade(1, c.knee)
		c.add(20, 1e6, 1e-9)
		c.fit(1, kneePenalty)
	}
}
