package weir

import (
	"context"
	"math"
	"math/rand/v2"
)

// Probabilistic early refresh is XFetch of Vattani, Chierichetti and
// Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", PVLDB 8(8),
// 2015: a request at time t refreshes an entry that expires at T if
//
//	t - delta·beta·ln(U) >= T
//
// where delta is how long its load took and U is uniform in (0, 1]. Each
// request draws anew, so that a key with more requests is refreshed
// earlier. -ln(U) is exponential with mean 1.

// drawReach is the largest -ln(U) that counts. As long before the expiry as
// this times delta·beta, and earlier, a request is given no draw, so that most
// hits stay as they are without XFetch: it would refresh with a probability of
// e^-28, below 2^-40.
const drawReach = 28

// A loadTime is how long a load took, in nanoseconds, right within 0.4 %: the
// upper half of a float32, rounded. Zero is not known, or no time at all. It
// is so short to fit into what the fields of an entry leave of 64 bytes.
type loadTime uint16

// newLoadTime returns d nanoseconds as a loadTime. d is not negative.
func newLoadTime(d int64) loadTime {
	return loadTime((math.Float32bits(float32(d)) + 1<<15) >> 16)
}

// nanoseconds returns t as it is reckoned with.
func (t loadTime) nanoseconds() float64 {
	return float64(math.Float32frombits(uint32(t) << 16))
}

// drawFrom returns the instant from which hits on e draw whether they refresh
// it: not before its load's end, and not before its TTL without a load time.
func (e *entry[V]) drawFrom(beta float64) instant {
	// A huge beta makes this infinite, which is the first case; it stands
	// last, or with no load time there would be no number at all.
	lead := e.took.nanoseconds() * drawReach * beta
	if lead >= float64(e.freshUntil-e.loadedAt) {
		return e.loadedAt
	}
	return e.freshUntil - instant(lead)
}

// draws reports whether one request at now is to refresh e, which its
// refreshFrom allows.
func (e *entry[V]) draws(beta float64, now instant) bool {
	left := e.freshUntil - now
	return beta == 0 || left <= 0 || e.took.nanoseconds()*rand.ExpFloat64()*beta >= float64(left)
}

// hitsLate reports whether a Get may return the value although quick says no,
// because all it lacks is a look at the refresh. It sees to that. With
// RefreshBeta many hits come here, and the way through get would cost each a
// second look-up and a second look at the clock.
func (g *Guard[K, V]) hitsLate(ctx context.Context, key K, e *entry[V], now instant) bool {
	if now >= e.freshUntil || e.kind != kindValue || e.outdated() {
		return false
	}
	g.refresh(ctx, e, now, key)
	return true
}

// tookBefore returns the load time of the entry that memory holds for key. It
// stands in for that of a value which was not loaded.
func (g *Guard[K, V]) tookBefore(key K) loadTime {
	if g.o.RefreshBeta > 0 {
		if held, ok := g.store.GetEntryQuietly(key); ok {
			return held.Value.took
		}
	}
	return 0
}
