package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// A bucket is the arithmetic of a RateLimiter. It reads no clock and has no lock:
// the RateLimiter passes in instants, which must never run backwards.
// ([rate.Limiter] accepts any instant. If the clock is read before its lock is taken,
// it counts the time between two callers twice.)
type bucket struct {
	lim       *rate.Limiter
	perSecond float64 // +Inf if unlimited
	burst     int
	// tolerance is how much of a whole token may be missing, to allow for float64
	// rounding. The missing part is owed, so the long-run rate is exact.
	tolerance float64

	taken uint64 // tokens taken so far; the newest one has this number
	spilt uint64 // tokens up to this number cannot come back: the bucket was full since
	back  [maxBack / 64]uint64

	refunded int64  // tokens returned by refund
	era      uint64 // changes of rate and size so far
}

// maxBack is how many of the latest tokens can be returned. bucket.back has one bit
// for each of them, set once it has been returned.
const maxBack = 1024

func newBucket(perSecond float64, burst int) bucket {
	return bucket{
		lim:       rate.NewLimiter(rate.Limit(perSecond), burst),
		perSecond: perSecond,
		burst:     burst,
		tolerance: tolerance(burst),
	}
}

func (b *bucket) unlimited() bool { return math.IsInf(b.perSecond, 1) }

// tokens returns the number of tokens in the bucket at t.
func (b *bucket) tokens(t time.Time) float64 {
	if b.unlimited() {
		return math.Inf(1)
	}
	return b.lim.TokensAt(t)
}

// change sets the rate and size from t on. Tokens in the bucket stay, up to the new
// size. A bucket that was unlimited becomes full.
func (b *bucket) change(t time.Time, perSecond float64, burst int) {
	if b.unlimited() || math.IsInf(perSecond, 1) {
		b.lim = rate.NewLimiter(rate.Limit(perSecond), burst)
		b.spilt = b.taken // tokens taken while there was no limit cannot be returned
	} else {
		b.lim.SetLimitAt(t, rate.Limit(perSecond))
		b.lim.SetBurstAt(t, burst)
	}
	b.era++
	b.perSecond, b.burst, b.tolerance = perSecond, burst, tolerance(burst)
}

func tolerance(burst int) float64 { return 1e-13 * float64(burst) }

// take takes n tokens at t if the bucket has at least n+spare, and returns the
// number of the last one taken.
func (b *bucket) take(t time.Time, n, spare int) (token uint64, ok bool) {
	have := b.tokens(t)
	if have < float64(n+spare)-b.tolerance {
		return 0, false
	}
	if have >= float64(b.burst) {
		b.spilt = b.taken
	}
	return b.book(t, n), true
}

// book takes n tokens at t, even if the bucket has fewer, and returns the number of
// the last one.
func (b *bucket) book(t time.Time, n int) (token uint64) {
	if !b.unlimited() {
		b.lim.ReserveN(t, n)
	}
	b.taken += uint64(n)
	if n == 1 { // the tokens of a permit for several are returned by refund
		word, bit := b.place(b.taken)
		*word &^= bit
	}
	return b.taken
}

// until returns how long after t the bucket will have produced n tokens, rounded up,
// or 0 if it has n at t. n may exceed burst, because tokens are taken as they come.
func (b *bucket) until(t time.Time, n int) time.Duration {
	missing := float64(n) - b.tokens(t)
	if missing <= b.tolerance {
		return 0
	}
	return nanoseconds(missing / b.perSecond * float64(time.Second))
}

// putBack returns a token to the bucket at t, and reports whether it did. A token
// can be returned once, and only if the bucket has not been full since it was taken:
// the token would have overflowed anyway, and returning it would let more than burst
// through at once.
func (b *bucket) putBack(t time.Time, token uint64) bool {
	word, bit := b.place(token)
	if token <= b.spilt || b.taken-token >= maxBack || *word&bit != 0 || b.unlimited() {
		return false
	}
	*word |= bit
	b.lim.ReserveN(t, -1) // AllowN would do nothing while tokens are owed
	return true
}

// unspent returns the tokens that were taken and have not come back yet, at t, and net
// how many were taken less those that refund returned. What comes back belongs to the
// tokens that were taken first: so those up to net−unspent have come back.
func (b *bucket) unspent(t time.Time) (unspent float64, net int64) {
	return float64(b.burst) - b.tokens(t), int64(b.taken) - b.refunded
}

// refund returns n tokens to the bucket at t. See counter.refundLocked for how many may
// be returned.
func (b *bucket) refund(t time.Time, n int) {
	b.lim.ReserveN(t, -n) // as in putBack
	b.refunded += int64(n)
}

// owe takes n tokens at t that the bucket need not have, until it owes most. It
// returns how many it took.
func (b *bucket) owe(t time.Time, n, most int) int {
	if b.unlimited() {
		return n
	}
	have := b.tokens(t)
	if have >= float64(b.burst) {
		b.spilt = b.taken
	}
	n = min(n, int(math.Floor(have+b.tolerance))+most)
	if n <= 0 {
		return 0
	}
	b.lim.SetBurstAt(t, max(b.burst, n)) // ReserveN refuses more than the burst
	b.lim.ReserveN(t, n)
	b.lim.SetBurstAt(t, b.burst)
	b.taken += uint64(n)
	return n
}

// place returns the location of the token's bit.
func (b *bucket) place(token uint64) (word *uint64, bit uint64) {
	i := token % maxBack
	return &b.back[i/64], 1 << (i % 64)
}
