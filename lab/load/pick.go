package load

import (
	"math"
	"sort"
)

// A picker chooses the URL of a request. The choice depends only on the request's
// number, so clients need not share a generator, and a load is the same in whatever
// order the clients run.
type picker struct {
	kind string
	urls int
	seed uint64
	// cumulative[r] is the weight of the ranks up to r, divided by the total weight.
	// This is Zipf by inversion, which is exact for every skew, including those below
	// 1, where the rejection sampler of math/rand does not work.
	cumulative []float64
}

func newPicker(s Spec) *picker {
	p := &picker{kind: s.Pick, urls: len(s.URLs), seed: s.Seed}
	if p.kind != Zipf {
		return p
	}
	sum := 0.0
	for r := range s.URLs {
		sum += math.Pow(float64(r+1), -s.Skew)
		p.cumulative = append(p.cumulative, sum)
	}
	for r := range p.cumulative {
		p.cumulative[r] /= sum
	}
	return p
}

// pick returns the index of the URL of request n.
func (p *picker) pick(n int64) int {
	switch p.kind {
	case Random:
		return min(int(p.uniform(n)*float64(p.urls)), p.urls-1)
	case Zipf:
		u := p.uniform(n)
		return min(sort.Search(p.urls, func(r int) bool { return p.cumulative[r] > u }), p.urls-1)
	default:
		return int(n % int64(p.urls))
	}
}

// uniform returns the n-th number of a sequence from 0 to below 1: SplitMix64
// (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014),
// whose elements can be computed in any order.
func (p *picker) uniform(n int64) float64 {
	z := p.seed + uint64(n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}
