package choose

import (
	"math"
	"slices"
)

const (
	// keyFloor is how many calls of their keys each server may have, whatever the others have. A
	// server with a limit has half of that.
	keyFloor = 8
	// NoBound lets a server have all calls of its keys.
	NoBound = 0.
)

// keep returns the server for a key: the first, in an order that the key and the servers'
// identities determine (rendezvous hashing, Thaler and Ravishankar 1998), that has room within
// the bound (consistent hashing with bounded loads, Mirrokni, Thorup and Zadimoghaddam 2016).
// With weights the order is an exponential race, so that each server is the first for its
// share of the keys; one that comes or goes moves no others.
//
// It reports whether the server is the first in that order. It returns nil if all servers are
// in tried or full.
//
// Calls that are chosen at the same instant do not see each other, so that a server may have
// as many calls more than the bound.
func (v *view) keep(now Instant, r *Request, tried []*Server) (s *Server, first bool) {
	var home, within, beyond contest
	total := int64(-1)
	for i := range v.open {
		e := &v.open[i]
		p := priority(r.Key, e)
		home.enter(e, p)
		if !within.wins(e, p) && !(within.e == nil && beyond.wins(e, p)) || slices.Contains(tried, e.Server) || v.full(now, e) {
			continue
		}
		beyond.enter(e, p)
		if n := e.calls(); r.Bound != NoBound && n >= e.floor() {
			if total < 0 {
				total = v.calls()
			}
			if float64(n+1) > math.Ceil(r.Bound*float64(total+1)*e.weight/v.weight) {
				continue
			}
		}
		within.enter(e, p)
	}
	if within.e == nil {
		within = beyond
	}
	if within.e == nil {
		return nil, false
	}
	home.e.drawn(now)
	return within.e.Server, within.e == home.e
}

// owns reports whether s, which is not open, would be the first for a key if it were.
func (v *view) owns(s *entry, key uint64) bool {
	var c contest
	c.enter(s, priority(key, s))
	for i := range v.open {
		c.enter(&v.open[i], priority(key, &v.open[i]))
	}
	return c.e == s
}

// A contest finds the first server in the order of a key.
type contest struct {
	e *entry
	p uint64
}

func (c *contest) wins(e *entry, p uint64) bool {
	switch {
	case c.e == nil:
		return true
	case e.weight == c.e.weight: //nolint:staticcheck // exactly
		return p > c.p
	}
	return race(p)/e.weight < race(c.p)/c.e.weight
}

func (c *contest) enter(e *entry, p uint64) {
	if c.wins(e, p) {
		c.e, c.p = e, p
	}
}

// priority returns the place of e in the order of a key, the higher the better.
func priority(key uint64, e *entry) uint64 { return Mix(key, e.ID) }

// race returns the time of an exponential race for a priority.
func race(p uint64) float64 { return -math.Log((float64(p>>11) + 0.5) / (1 << 53)) }

// Mix combines two hashes (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
func Mix(a, b uint64) uint64 {
	x := a ^ (b*0x9e3779b97f4a7c15 + 0x7f4a7c15f39cc060)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// calls returns the calls of e, event streams included: a model server sends little else.
func (e *entry) calls() int64 { return e.flying.Load() + e.parted.Load() }

// calls returns the calls of all open servers.
func (v *view) calls() (n int64) {
	for i := range v.open {
		n += v.open[i].calls()
	}
	return n
}

// floor returns how many calls e may have whatever the others have.
func (e *entry) floor() int64 {
	if e.limit > 0 {
		return max(e.limit/2, 1)
	}
	return keyFloor
}
