package limit

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// A bucket is the arithmetic of a RateLimiter. It reads no clock and has no
// lock: the RateLimiter passes instants in, and they must never run backwards.
// ([rate.Limiter] believes any instant, and with a clock read before its lock
// is taken counts the time between two callers twice.)
type bucket struct {
	lim       *rate.Limiter
	perSecond float64 // +Inf if unlimited
	burst     int
	// tolerance is what may be missing of a whole token, for the rounding of
	// float64. What is missing is owed, so the long-run rate is exact.
	tolerance float64

	taken uint64 // tokens taken so far; the newest one has this number
	spilt uint64 // tokens up to this number cannot come back: the bucket was full since
	back  [maxBack / 64]uint64
}

// maxBack bounds how many tokens ago a token may have been taken to be given
// back: which of the latest came back is one bit each in bucket.back.
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

// tokens returns what is in the bucket at t.
func (b *bucket) tokens(t time.Time) float64 {
	if b.unlimited() {
		return math.Inf(1)
	}
	return b.lim.TokensAt(t)
}

// change is for another rate and size from t on. What is in the bucket stays, as
// far as it has room. One that was unlimited is full.
func (b *bucket) change(t time.Time, perSecond float64, burst int) {
	if b.unlimited() || math.IsInf(perSecond, 1) {
		b.lim = rate.NewLimiter(rate.Limit(perSecond), burst)
		b.spilt = b.taken // what was taken while there was no limit does not come back
	} else {
		b.lim.SetLimitAt(t, rate.Limit(perSecond))
		b.lim.SetBurstAt(t, burst)
	}
	b.perSecond, b.burst, b.tolerance = perSecond, burst, tolerance(burst)
}

func tolerance(burst int) float64 { return 1e-13 * float64(burst) }

// take takes n tokens at t if n and spare of them are there, and returns the
// number of the last.
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

// book takes n tokens at t, there or not, and returns the number of the last.
func (b *bucket) book(t time.Time, n int) (token uint64) {
	if !b.unlimited() {
		b.lim.ReserveN(t, n)
	}
	b.taken += uint64(n)
	for i := range uint64(min(n, maxBack)) {
		word, bit := b.place(b.taken - i)
		*word &^= bit
	}
	return b.taken
}

// until returns how long after t the bucket will hold n tokens, rounded up, 0
// if it does at t. There may be more tokens than burst: they are taken as they
// come.
func (b *bucket) until(t time.Time, n int) time.Duration {
	missing := float64(n) - b.tokens(t)
	if missing <= b.tolerance {
		return 0
	}
	return nanoseconds(missing / b.perSecond * float64(time.Second))
}

// putBack returns a token at t, and reports whether it did. It does so once
// for a token, and not if the bucket was full since it was taken, as then the
// token would have been lost anyway and giving it back would let more than
// burst through at once.
func (b *bucket) putBack(t time.Time, token uint64) bool {
	word, bit := b.place(token)
	if token <= b.spilt || b.taken-token >= maxBack || *word&bit != 0 || b.unlimited() {
		return false
	}
	*word |= bit
	b.lim.AllowN(t, -1)
	return true
}

// place returns where the token's bit is.
func (b *bucket) place(token uint64) (word *uint64, bit uint64) {
	i := token % maxBack
	return &b.back[i/64], 1 << (i % 64)
}
