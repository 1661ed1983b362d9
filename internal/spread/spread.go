// Package spread decides when rejected callers should come back. A source that rejects a thousand callers in one instant
// would otherwise meet all of them again in one instant.
package spread

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Most is the default bound of a RetryAfter that is an estimate, and the bound of what is added to a wait that is known.
const Most = 10 * time.Second

const (
	unknownLeast = time.Second
	unknownMost  = 4 * time.Second
)

// source replaces rand.Float64 in tests. It is atomic because rejections are concurrent.
var source atomic.Pointer[func() float64]

// Fix makes all further times depend on draw, a number from 0 up to 1. It is for tests. draw must be safe for concurrent
// use. nil restores the random source.
func Fix(draw func() float64) {
	if draw == nil {
		source.Store(nil)
		return
	}
	source.Store(&draw)
}

func upTo(d time.Duration) time.Duration {
	draw := rand.Float64
	if f := source.Load(); f != nil {
		draw = *f
	}
	return time.Duration(draw() * float64(d))
}

// Estimated returns a time that is uniform between wait, which is an estimate, and twice that. The time is at most most:
// if that is less than twice the wait, it is uniform between half of most and most, since callers that all get the bound
// itself would come back together.
func Estimated(wait, most time.Duration) time.Duration {
	least := max(1, min(wait, most/2))
	return least + upTo(least)
}

// Known returns a time that is never before wait, which is exact or which the source itself has stated. The
// random part is uniform between 0 and wait, at most Most.
func Known(wait time.Duration) time.Duration {
	wait = max(1, wait)
	return wait + upTo(min(wait, Most))
}

// Unknown returns the time for a limiter that has measured nothing yet, uniform between 1 s and 4 s.
func Unknown() time.Duration { return unknownLeast + upTo(unknownMost-unknownLeast) }
