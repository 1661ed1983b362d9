// Package bucket has the token bucket of one key of a ledger, of which units can be given
// back: see fleet.Ledger. It has no clock and no lock.
package bucket

import (
	"math"
	"time"
)

// A Bucket counts the units of one key. The zero Bucket is full.
type Bucket struct {
	Epoch uint64 // from one time when it was full to another; its owner sets it

	level    float64 // units that are out
	leaked   float64 // units that came back since the epoch began, whether there were any or not
	at       time.Duration
	perNano  float64 // units that come back
	seq      uint64
	returned float64
	returns  uint64     // corrections that returned units
	latest   []giveBack // of these, the latest
}

type giveBack struct {
	seq   uint64
	units float64
	total float64 // returned, with these
}

// New returns a Bucket that has level units less than its burst at now.
func New(level float64, now time.Duration) Bucket { return Bucket{level: level, at: now} }

// A Mark is where units stand in the order in which a Bucket counted them: see fleet.Mark.
type Mark struct {
	Epoch    uint64
	Seq      uint64
	Ahead    float64
	Leaked   float64
	Returns  uint64
	Returned float64
}

// nearly allows for the rounding of units, which are float64.
const nearly = 1e-6

// Pass brings b up to now, with that many units per nanosecond.
func (b *Bucket) Pass(now time.Duration, perNano float64) {
	b.perNano = perNano
	if gone := float64(max(0, now-b.at)) * b.perNano; gone > 0 {
		b.level, b.leaked = max(0, b.level-gone), b.leaked+gone
	}
	b.at = now
}

// FullAt reports whether all units are back at now, at the rate of the last Pass.
func (b *Bucket) FullAt(now time.Duration) bool {
	return b.level <= float64(max(0, now-b.at))*b.perNano
}

// Left returns how many of burst units there are; it is negative if some are owed.
func (b *Bucket) Left(burst int) float64 { return float64(burst) - b.level }

// Spend takes n of burst units, or none. Without them it returns the time until there are n
// units if no call takes any.
func (b *Bucket) Spend(burst, n int) (m Mark, retryAfter time.Duration, ok bool) {
	if missing := float64(n) - b.Left(burst); missing > nearly {
		return Mark{}, time.Duration(min(math.Ceil(missing/b.perNano), math.MaxInt64/4)), false
	}
	b.level += float64(n)
	b.seq++
	return Mark{Epoch: b.Epoch, Seq: b.seq, Ahead: b.level, Leaked: b.leaked, Returns: b.returns, Returned: b.returned}, 0, true
}

// Correct gives back what units had in excess of cost, less what has come back already; or
// takes what they lacked, until b owes debt units. It remembers keep corrections, at least
// one: it counts the forgotten ones as if they had been of earlier calls, and so gives back
// less, never more.
func (b *Bucket) Correct(burst, debt int, m Mark, units, cost, keep int) (returned, owed int) {
	if cost > units {
		owed = max(0, min(cost-units, int(math.Floor(float64(burst+debt)-b.level+nearly))))
		b.level += float64(owed)
		return 0, owed
	}
	if m.Epoch != b.Epoch {
		return 0, 0
	}
	// left is at most b.level: it is what is out up to this call, of all that is out.
	left := m.Ahead - (b.leaked - m.Leaked) - b.before(m)
	back := math.Floor(min(float64(units-cost), left+nearly))
	if back <= 0 {
		return 0, 0
	}
	b.level = max(0, b.level-back)
	b.returned += back
	b.returns++
	b.latest = append(b.latest, giveBack{m.Seq, back, b.returned})
	if over := len(b.latest) - keep; over > 0 {
		b.latest = append(b.latest[:0], b.latest[over:]...)
	}
	return int(back), 0
}

// before returns how many units, of those in front of m's, were given back after m.
func (b *Bucket) before(m Mark) (units float64) {
	i := 0
	if forgotten := b.returns - uint64(len(b.latest)); m.Returns >= forgotten {
		i = int(min(m.Returns-forgotten, uint64(len(b.latest)))) //nolint:gosec // at most keep
	} else {
		units = b.latest[0].total - b.latest[0].units - m.Returned
	}
	for _, g := range b.latest[i:] {
		if g.seq < m.Seq {
			units += g.units
		}
	}
	return units
}
