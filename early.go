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
// request draws again, so a key with more requests is refreshed earlier. -ln(U)
// is exponential with mean 1.

// drawReach is the largest -ln(U) that counts. More than drawReach·delta·beta
// before the expiry a request does not draw, so that most hits cost the same as
// without XFetch: it would refresh with a probability of e^-28, below 2^-40.
const drawReach = 28

// A loadTime is how long a load took, in nanoseconds, right within 0.4 %: the
// upper half of a float32, rounded. Zero means unknown, or no time at all. It
// is this short so that an entry fits into 64 bytes.
type loadTime uint16

// newLoadTime returns d nanoseconds as a loadTime. d is not negative.
func newLoadTime(d int64) loadTime {
	return loadTime((math.Float32bits(float32(d)) + 1<<15) >> 16)
}

// nanoseconds returns t for calculations.
func (t loadTime) nanoseconds() float64 {
	return float64(math.Float32frombits(uint32(t) << 16))
}

// drawFrom returns the instant from which hits on e draw for a refresh. It is
// not before the end of e's load; without a load time it is the end of the TTL.
func (e *entry[V]) drawFrom(beta float64) instant {
	// A huge beta makes this infinite, which the first case handles. beta is
	// multiplied last: with no load time the product would otherwise be NaN.
	lead := e.took.nanoseconds() * drawReach * beta
	if lead >= float64(e.freshUntil-e.loadedAt) {
		return e.loadedAt
	}
	return e.freshUntil - instant(lead)
}

// draws reports whether a request at now should refresh e. The caller has
// checked refreshFrom.
func (e *entry[V]) draws(beta float64, now instant) bool {
	left := e.freshUntil - now
	return beta == 0 || left <= 0 || e.took.nanoseconds()*rand.ExpFloat64()*beta >= float64(left)
}

// hitsLate reports whether a Get may return the value although quick returned
// false, because only the refresh was left to check. It starts that refresh if
// it is due. With RefreshBeta many hits take this path; get would cost each of
// them a second lookup and a second reading of the clock.
func (g *Guard[K, V]) hitsLate(ctx context.Context, key K, e *entry[V], now instant) bool {
	if now >= e.freshUntil || e.kind != kindValue || e.outdated() {
		return false
	}
	g.refresh(ctx, e, now, key)
	return true
}

// tookBefore returns the load time of the entry that memory holds for key. It
// serves as the load time of a value that was set, not loaded.
func (g *Guard[K, V]) tookBefore(key K) loadTime {
	if g.o.RefreshBeta > 0 {
		if held, ok := g.store.GetEntryQuietly(key); ok {
			return held.Value.took
		}
	}
	return 0
}
