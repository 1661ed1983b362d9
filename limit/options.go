package limit

import (
	"errors"
	"math"
	"time"
)

// Defaults of the options.
const (
	defaultQueue   = 1024
	defaultMaxWait = 10 * time.Second
)

// Upper bounds of the options. A slot of a Concurrency is numbered in 32 bits;
// up to maxBurst a float64 holds a token to a thousandth.
const (
	maxLimit = math.MaxInt32
	maxBurst = 1 << 30
)

// forever is a wait without a bound.
const forever = time.Duration(math.MaxInt64)

// ConcurrencyOptions configures a [Concurrency]. Limit is required.
type ConcurrencyOptions struct {
	// Name is the Limiter of its errors.
	Name string
	// Limit is how many permits there are, at least 1.
	Limit int
	// Queue is how many callers may wait. 0 means 1024, negative means that
	// nobody waits.
	Queue int
	// MaxWait bounds the time in the queue: a caller whose expected wait is
	// longer is refused at once, one that has waited as long is refused then.
	// 0 means 10 s, negative means that the caller's deadline alone counts.
	MaxWait time.Duration
	// Reserve is how many permits stay free when a Background caller has
	// taken one, below Limit. 0 means a tenth of Limit, rounded down, and at
	// least 1; with a Limit of 1 it means 0, as a single permit cannot be
	// both reserved and given out. Negative means 0.
	Reserve int
}

func (o ConcurrencyOptions) validate() error {
	var f faults
	f.check(o.Limit >= 1, "ConcurrencyOptions.Limit", o.Limit, "at least 1")
	f.check(o.Limit <= maxLimit, "ConcurrencyOptions.Limit", o.Limit, "at most 2147483647")
	f.check(o.Reserve <= 0 || o.Reserve < o.Limit, "ConcurrencyOptions.Reserve", o.Reserve, "below Limit")
	return errors.Join(f...)
}

// withDefaults returns o with plain numbers in place of 0 and negative ones.
func (o ConcurrencyOptions) withDefaults() ConcurrencyOptions {
	o.Queue = queueOrDefault(o.Queue)
	o.MaxWait = waitOrDefault(o.MaxWait)
	if o.Reserve == 0 && o.Limit >= 2 {
		o.Reserve = max(1, o.Limit/10)
	}
	o.Reserve = max(0, o.Reserve)
	return o
}

// RateOptions configures a [RateLimiter]. PerSecond is required.
type RateOptions struct {
	// Name is the Limiter of its errors.
	Name string
	// PerSecond is how many calls may start a second in the long run, above
	// 0; a fraction is fine. math.Inf(1) means no limit: everybody is let in
	// at once, whatever the other options say.
	PerSecond float64
	// Burst is how many tokens the bucket holds, so how many calls may start
	// at the same instant after a pause. 0 means a tenth of a second's worth,
	// rounded down, and at least 1. At most 2^30.
	Burst int
	// Queue is how many callers may wait. 0 means 1024, negative means that
	// nobody waits.
	Queue int
	// MaxWait bounds the wait: who would wait longer is refused at once.
	// 0 means 10 s, negative means that the caller's deadline alone counts.
	MaxWait time.Duration
}

func (o RateOptions) validate() error {
	var f faults
	f.check(o.PerSecond > 0, "RateOptions.PerSecond", o.PerSecond, "above 0") // NaN is not
	f.check(o.Burst >= 0, "RateOptions.Burst", o.Burst, "at least 1, or 0 for the default")
	f.check(o.Burst <= maxBurst, "RateOptions.Burst", o.Burst, "at most 1073741824")
	return errors.Join(f...)
}

// withDefaults returns o with plain numbers in place of 0 and negative ones.
func (o RateOptions) withDefaults() RateOptions {
	if o.Burst == 0 {
		o.Burst = int(max(1, min(o.PerSecond/10, maxBurst)))
	}
	o.Queue = queueOrDefault(o.Queue)
	o.MaxWait = waitOrDefault(o.MaxWait)
	return o
}

func queueOrDefault(n int) int {
	if n == 0 {
		return defaultQueue
	}
	return max(0, n)
}

func waitOrDefault(d time.Duration) time.Duration {
	switch {
	case d == 0:
		return defaultMaxWait
	case d < 0:
		return forever
	}
	return d
}

// faults gathers what is wrong with one options struct.
type faults []error

func (f *faults) check(ok bool, field string, value any, bound string) {
	if !ok {
		*f = append(*f, &OptionError{Field: field, Value: value, Bound: bound})
	}
}
