package limit

import "math"

// A curve is what has been seen of a source: the mean latency by the number of
// calls in progress. It forgets, so that it follows a source that changes. It
// is plain arithmetic and reads no clock.
//
// What it looks for is the knee. Below it the source has room, and the latency
// does not depend on the number of calls; above it calls wait for each other,
// and the latency grows with their number (by Little's law in proportion, where
// the source queues) or with a power of it (where they hinder each other, as
// Gunther's Universal Scalability Law has it). So the model has three numbers:
//
//	latency(n) = base                     n <= knee
//	latency(n) = base * (n/knee)^slope    n > knee
type curve struct {
	cells [curveCells]cell

	base  float64 // latency with room to spare, in nanoseconds; 0: nothing is known
	knee  float64 // calls in progress
	slope float64 // 1, 2 or 4

	top    float64 // the most calls in progress that were seen
	bottom float64 // the fewest
	flat   bool    // no knee in what was seen: it is at top or beyond
	steep  bool    // nothing was seen below the knee: it is at bottom or below
}

// A cell is what was seen around one number of calls in progress.
type cell struct {
	weight  float64 // samples, less what is forgotten
	n       float64 // sum over them of the calls in progress
	latency float64 // sum over them
}

const (
	curveCells = 160  // up to 16 one a number, above 5 % apart: to beyond 10,000
	cellWidth  = 0.05 // of a cell above 16, as a share

	minWeight = 3.0 // of a cell that counts
	// minVariance is that of the logarithm of one sample, at least: latencies
	// that do not vary are not exact.
	minVariance = 0.002
	// kneePenalty is by how much, in units of the noise squared, a curve with a
	// knee must fit better than one without. It is what Akaike's criterion asks
	// for one more parameter.
	kneePenalty = 2.0
	// firstKneePenalty is the same before a knee was ever seen.
	firstKneePenalty = 6.0
)

// slopes are the ways in which latency may grow above the knee.
var slopes = [...]float64{1, 2, 4}

func cellOf(n float64) int {
	if n < 16 {
		return int(n + 0.5)
	}
	return min(curveCells-1, 16+int(math.Log(n/16)/cellWidth+0.5))
}

// at returns the latency that is expected with n calls in progress.
func (c *curve) at(n float64) float64 {
	if n <= c.knee {
		return c.base
	}
	return c.base * math.Pow(n/c.knee, c.slope)
}

// add takes in that the mean latency over samples calls was latency, with n in
// progress.
func (c *curve) add(n, latency, samples float64) {
	l := &c.cells[cellOf(n)]
	l.weight += samples
	l.n += samples * n
	l.latency += samples * latency
}

// fade keeps share of what was seen with more than above calls in progress.
func (c *curve) fade(share, above float64) {
	for i := range c.cells {
		l := &c.cells[i]
		if l.n > above*l.weight {
			l.weight *= share
			l.n *= share
			l.latency *= share
		}
	}
}

// points are the logarithms of what a curve has seen, lowest number first.
type points struct {
	x, y, w [curveCells]float64 // calls in progress, latency, weight
	n       int
}

// miss returns how badly a curve with that knee (a logarithm) and slope fits:
// the sum of squares in units of the noise; and the base (a logarithm) with
// which it fits best.
func (p *points) miss(knee, slope float64) (miss, base float64) {
	var sw, sy float64
	for i := range p.n {
		sw += p.w[i]
		sy += p.w[i] * (p.y[i] - slope*max(0, p.x[i]-knee))
	}
	base = sy / sw
	for i := range p.n {
		d := p.y[i] - slope*max(0, p.x[i]-knee) - base
		miss += p.w[i] * d * d
	}
	return miss, base
}

// fit works out base, knee and slope by least squares over the logarithms.
// variance is that of the latency of one call, relative to its mean squared.
func (c *curve) fit(variance, penalty float64) {
	var p points
	for i := range c.cells {
		if l := &c.cells[i]; l.weight >= minWeight {
			p.x[p.n] = math.Log(l.n / l.weight)
			p.y[p.n] = math.Log(l.latency / l.weight)
			p.w[p.n] = l.weight / max(variance, minVariance)
			p.n++
		}
	}
	if p.n == 0 {
		return
	}
	bottom, top := p.x[0], p.x[p.n-1]
	least, base := p.miss(top, 1) // flat throughout
	least -= penalty
	knee, slope, flat := top, slopes[0], true
	for _, s := range slopes {
		for i := range p.n - 1 {
			for _, k := range [...]float64{p.x[i], (p.x[i] + p.x[i+1]) / 2} {
				if m, b := p.miss(k, s); m < least {
					least, base, knee, slope, flat = m, b, k, s, false
				}
			}
		}
	}
	c.base, c.knee, c.slope = math.Exp(base), math.Exp(knee), slope
	c.bottom, c.top = math.Exp(bottom), math.Exp(top)
	c.flat, c.steep = flat, !flat && knee <= bottom
}
