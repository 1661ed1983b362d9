package limit

import "math"

// A curve holds the observed mean latency of a source by the number of calls in
// progress. Old observations fade, so that it follows a source that changes. It does
// arithmetic only and reads no clock.
//
// Its purpose is to find the knee. Below the knee the source has capacity to spare,
// and the latency does not depend on the number of calls. Above it calls wait for each
// other: the latency grows in proportion to their number if the source queues
// (Little's law), or with a power of it if calls slow each other down (Gunther's
// Universal Scalability Law). So the model has three parameters:
//
//	latency(n) = base                     n <= knee
//	latency(n) = base * (n/knee)^slope    n > knee
type curve struct {
	cells [curveCells]cell

	base  float64 // latency with capacity to spare, in nanoseconds; 0 if nothing was measured
	knee  float64 // calls in progress
	slope float64 // 1, 2 or 4

	top    float64 // the most calls in progress observed
	bottom float64 // the fewest
	flat   bool    // no knee observed: it is at top or beyond
	steep  bool    // nothing observed below the knee: it is at bottom or below
}

// A cell holds the observations around one number of calls in progress.
type cell struct {
	weight  float64 // number of samples, after fading
	n       float64 // sum of their calls in progress
	latency float64 // sum of their latencies
}

const (
	curveCells = 160  // one per number up to 16, then 5 % apart, to beyond 10,000
	cellWidth  = 0.05 // relative width of a cell above 16

	minWeight = 3.0 // of a cell that counts
	// minVariance is the least variance assumed for the logarithm of one sample:
	// latencies that happen not to vary are still not exact.
	minVariance = 0.002
	// kneePenalty is by how much, in units of the noise squared, a curve with a
	// knee must fit better than one without. Akaike's criterion requires this for
	// one more parameter.
	kneePenalty = 2.0
	// firstKneePenalty replaces kneePenalty until the first knee has been seen.
	firstKneePenalty = 6.0
)

// slopes are the exponents with which latency can grow above the knee.
var slopes = [...]float64{1, 2, 4}

func cellOf(n float64) int {
	if n < 16 {
		return int(n + 0.5)
	}
	return min(curveCells-1, 16+int(math.Log(n/16)/cellWidth+0.5))
}

// at returns the expected latency with n calls in progress.
func (c *curve) at(n float64) float64 {
	if n <= c.knee {
		return c.base
	}
	return c.base * math.Pow(n/c.knee, c.slope)
}

// add records that the mean latency of samples calls was latency, with n in
// progress.
func (c *curve) add(n, latency, samples float64) {
	l := &c.cells[cellOf(n)]
	l.weight += samples
	l.n += samples * n
	l.latency += samples * latency
}

// fade reduces the weight of observations with more than above calls in progress to
// share of what it was.
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

// points are the logarithms of a curve's observations, fewest calls first.
type points struct {
	x, y, w [curveCells]float64 // calls in progress, latency, weight
	n       int
}

// miss returns how badly a curve with the given knee (a logarithm) and slope fits,
// as the sum of squares in units of the noise. It also returns the base (a logarithm)
// with which that curve fits best.
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

// fit computes base, knee and slope by least squares over the logarithms. variance
// is the variance of the latency of one call, relative to its mean squared.
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
