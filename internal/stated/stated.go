// Package stated reads the numbers that an origin states in fields and bodies: how much a call
// has cost, how many are left, when to try again. A number that cannot be meant counts as none,
// so that it does not stop a budget. A time that cannot be meant is a long one for a caller that
// obeys it for a bounded time.
//
// The ages and lifetimes of caching have a rule that differs (RFC 9111, section 1.2.2): see
// package rfc9111.
package stated

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Most is the largest number of calls, or of units of cost, that can be meant.
const Most = 1 << 30

// Whole reads a number of decimal digits, from 0 to Most.
func Whole(s string) (n int, ok bool) {
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil || v > Most {
		return 0, false
	}
	return int(v), true //nolint:gosec // bounded
}

// RoundedUp reads a JSON number, or decimal text, from 0 to Most, and rounds it up.
func RoundedUp(s string) (n int, ok bool) {
	f, ok := decimal(s)
	if !ok || f > Most {
		return 0, false
	}
	return int(math.Ceil(f)), true
}

// decimal reads a number that is finite and not negative.
func decimal(s string) (f float64, ok bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) || strings.ContainsAny(s, "xXpP_") {
		return 0, false
	}
	return f, true
}

// MostSeconds is the longest time that can be meant, 68 years: what RFC 9111, section 1.2.2
// asks recipients to be able to represent.
const MostSeconds = 1<<31 - 1

const most = MostSeconds * time.Second

// Seconds reads a time of decimal digits, in seconds. For more than MostSeconds, d is that, and
// ok is false: who obeys for a bounded time only may do so.
func Seconds(s string) (d time.Duration, ok bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return time.Duration(min(n, MostSeconds)) * time.Second, err == nil && n <= MostSeconds //nolint:gosec // bounded
}

// RetryAfter reads a Retry-After field (RFC 9110, section 10.2.3): Seconds, or a date, which
// may have passed.
func RetryAfter(s string, now time.Time) (d time.Duration, ok bool) {
	if d, ok = Seconds(s); ok || d > 0 {
		return d, ok
	}
	t, err := http.ParseTime(s)
	return min(max(0, t.Sub(now)), most), err == nil
}

// epoch is more seconds than any limit is stated for.
const epoch = 1e8

// Reset reads for how long a limit holds, up to MostSeconds: seconds, seconds since 1970, or a
// time such as 6m0s.
func Reset(s string, now time.Time) (d time.Duration, ok bool) {
	if f, ok := decimal(s); ok {
		if f > epoch {
			f -= float64(now.UnixMilli()) / 1000
		}
		return time.Duration(min(max(f, 0), MostSeconds) * float64(time.Second)), f >= 0
	}
	d, err := time.ParseDuration(s)
	return min(max(0, d), most), err == nil && d >= 0
}
