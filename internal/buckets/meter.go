package buckets

import (
	"math"
	"math/bits"
	"time"
)

// A Meter is the arithmetic of token buckets of one kind. The debt of a bucket is
// what was taken from it and has not come back yet. Its unit is chosen so that the
// values of a token and of a nanosecond are whole numbers. So it is exact: no rate is
// rounded. Longer periods are counted
// in milliseconds instead of nanoseconds: the unit is the caller's.
type Meter struct {
	token    int64         // units in a token
	perNano  int64         // units that come back per nanosecond
	capacity int64         // units in a full bucket
	most     int64         // largest debt; above capacity, tokens are owed
	refill   time.Duration // time in which the largest debt has come back, rounded up
}

// maxDebt is the largest debt of a bucket, in its own unit.
const maxDebt = 1 << 62

// NewMeter returns the meter of buckets of burst tokens, of which rate come back per period,
// and which may owe debt more. The period is in the unit of the instants that the table gets.
// Burst must be at most MostBurst(per, rate), and debt also, less burst.
func NewMeter(per, rate int64, burst, debt int) Meter {
	m := ofRate(per, rate)
	m.capacity = int64(burst) * m.token
	m.most = m.capacity + int64(debt)*m.token
	m.refill = m.time(m.most)
	return m
}

// MostBurst returns how many tokens fit into a bucket of that rate.
func MostBurst(per, rate int64) int { return int(min(maxDebt/ofRate(per, rate).token, math.MaxInt)) }

// ofRate returns a meter without a size.
func ofRate(per, rate int64) Meter {
	a, b := per, rate
	for b != 0 {
		a, b = b, a%b
	}
	return Meter{token: per / a, perNano: rate / a}
}

// time returns how long it takes for units to come back, rounded up.
func (m Meter) time(units int64) time.Duration {
	return time.Duration((units + m.perNano - 1) / m.perNano)
}

// take takes a token if there is one, out of a bucket whose debt was last recorded
// elapsed ago. It returns the debt now, how many tokens are left, and the time in
// which as many come back. If none is left, wait is the time until the next one
// comes.
func (m Meter) take(debt int64, elapsed time.Duration) (now, left int64, wait time.Duration, ok bool) {
	return m.takeN(debt, elapsed, 1)
}

// takeN is take for n tokens at once, no more than a full bucket has. If fewer than n are
// left, wait is the time until there are n.
func (m Meter) takeN(debt int64, elapsed time.Duration, n int64) (now, left int64, wait time.Duration, ok bool) {
	debt = m.debtAt(debt, elapsed)
	if ok = debt+n*m.token <= m.capacity; ok {
		debt += n * m.token
	}
	left = max(0, (m.capacity-debt)/m.token)
	if left >= n {
		return debt, left, m.time(left * m.token), ok
	}
	return debt, left, m.time(debt - m.capacity + n*m.token), ok
}

// debtAt returns what is left of a debt that was recorded elapsed ago.
func (m Meter) debtAt(debt int64, elapsed time.Duration) int64 {
	if elapsed >= m.refill {
		return 0 // the product below might overflow
	}
	return max(0, debt-max(0, int64(elapsed))*m.perNano)
}

// convert converts a debt of the meter of into one of m with the same number of
// tokens, rounded up, and at most m.most.
func (m Meter) convert(debt int64, of Meter) int64 {
	hi, lo := bits.Mul64(uint64(debt), uint64(m.token))
	lo, carry := bits.Add64(lo, uint64(of.token-1), 0)
	hi += carry
	if hi >= uint64(of.token) {
		return m.most
	}
	q, _ := bits.Div64(hi, lo, uint64(of.token))
	return int64(min(q, uint64(m.most)))
}

// fullAt returns when a bucket whose debt was correct at seen will be full.
func (m Meter) fullAt(debt int64, seen time.Duration) time.Duration {
	if d := m.time(debt); d <= math.MaxInt64-seen {
		return seen + d
	}
	return math.MaxInt64
}
