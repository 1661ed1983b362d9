package limit

import (
	"cmp"
	"math"
	"time"

	"github.com/weir-go/weir/option"
)

// Defaults of the options.
const (
	defaultQueue   = 1024
	defaultMaxWait = 10 * time.Second

	// defaultOverloadAfter is for how long a queue may stand at least before it
	// is an overload; twice the mean holding time is the other bound.
	defaultOverloadAfter = 100 * time.Millisecond

	defaultInitial     = 10
	defaultMin         = 1
	defaultMax         = 1000
	defaultHeadroom    = 0.1
	defaultMaxBaseline = 30 * time.Second
)

// Upper bounds of the options. A slot of a Concurrency is numbered in 32 bits;
// up to maxBurst a float64 holds a token to a thousandth.
const (
	maxLimit    = math.MaxInt32
	maxBurst    = 1 << 30
	maxAdaptive = 10_000 // up to where a curve tells numbers apart
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
	// MaxWait bounds the time in the queue: the queue is full when it holds
	// more than that much work, by the measured drain rate, and a caller that
	// has waited as long is refused.
	// 0 means 10 s, negative means that the caller's deadline alone counts.
	MaxWait time.Duration
	// Reserve is how many permits stay free when a Background caller has
	// taken one, below Limit. 0 means a tenth of Limit, rounded down, and at
	// least 1; with a Limit of 1 it means 0, as a single permit cannot be
	// both reserved and given out. Negative means 0.
	Reserve int
	// OverloadAfter is how long the queue may have been standing, never empty;
	// for longer, and the newest in it are served first. 0 means 100 ms or
	// twice the mean time for which a permit is held, whichever is longer.
	// Negative means never.
	OverloadAfter time.Duration
}

func (o ConcurrencyOptions) validate() error {
	f := option.Faults{Package: "limit"}
	f.Check(o.Limit >= 1, "ConcurrencyOptions.Limit", o.Limit, "at least 1")
	f.Check(o.Limit <= maxLimit, "ConcurrencyOptions.Limit", o.Limit, "at most 2147483647")
	f.Check(o.Reserve <= 0 || o.Reserve < o.Limit, "ConcurrencyOptions.Reserve", o.Reserve, "below Limit")
	return f.Err()
}

// withDefaults returns o with plain numbers in place of 0 and negative ones.
func (o ConcurrencyOptions) withDefaults() ConcurrencyOptions {
	o.Queue = queueOrDefault(o.Queue)
	o.MaxWait = waitOrDefault(o.MaxWait)
	if o.Reserve == 0 && o.Limit >= 2 {
		o.Reserve = defaultReserve(o.Limit)
	}
	o.Reserve = max(0, o.Reserve)
	o.OverloadAfter = overloadOrDefault(o.OverloadAfter)
	return o
}

// defaultReserve is how many of limit permits Background callers leave free.
func defaultReserve(limit int) int {
	if limit < 2 {
		return 0
	}
	return max(1, limit/10)
}

// AdaptiveOptions configures an [Adaptive]. The zero AdaptiveOptions are fit
// for most sources.
type AdaptiveOptions struct {
	// Name is the Limiter of its errors.
	Name string
	// Initial is the limit before anything is known. 0 means 10, within Min
	// and Max. Rather too low than too high: it doubles within some ten times
	// the latency while the source has room.
	Initial int
	// Min and Max bound the limit. 0 means 1 and 1000. At most 10,000.
	Min, Max int
	// Headroom is how far above the knee the limit is kept, as a share of it,
	// at least 0 and at most 1. It keeps a source busy whose calls queue in it,
	// and costs latency. Where calls hinder each other less of it is used.
	// 0 means 0.1; negative means none.
	Headroom float64
	// MaxBaseline is the ceiling on healthy latency. A source that takes longer
	// even with room to spare counts as overloaded, perhaps by others, and
	// the limit goes down to Min. 0 means 30 s, negative means no ceiling.
	MaxBaseline time.Duration
	// Queue is how many callers may wait. 0 means 1024, negative means that
	// nobody waits.
	Queue int
	// MaxWait bounds the time in the queue: the queue is full when it holds
	// more than that much work, and a caller that has waited as long is
	// refused. 0 means three quarters of the healthy latency, as measured, at
	// least 1 ms, and 10 s before it is known; negative means that the caller's
	// deadline alone counts.
	MaxWait time.Duration
	// OverloadAfter is as in ConcurrencyOptions.
	OverloadAfter time.Duration
	// DryRun lets everybody in. What would have become of them is counted in
	// AdaptiveStats, as if those in progress beyond the limit were queued.
	DryRun bool
}

func (o AdaptiveOptions) validate() error {
	f := option.Faults{Package: "limit"}
	d := o.withDefaults()
	f.Check(o.Min >= 0 && o.Min <= maxAdaptive, "AdaptiveOptions.Min", o.Min, "from 1 to 10000, or 0 for the default")
	f.Check(o.Max >= 0 && o.Max <= maxAdaptive, "AdaptiveOptions.Max", o.Max, "from 1 to 10000, or 0 for the default")
	f.Check(d.Min <= d.Max, "AdaptiveOptions.Min", d.Min, "at most Max")
	f.Check(o.Initial == 0 || o.Initial >= d.Min && o.Initial <= d.Max, "AdaptiveOptions.Initial", o.Initial, "from Min to Max, or 0 for the default")
	f.Check(o.Headroom <= 1, "AdaptiveOptions.Headroom", o.Headroom, "at most 1") // NaN is not
	return f.Err()
}

// withDefaults returns o with plain numbers in place of 0 and negative ones. A
// MaxWait of 0 stays: it depends on what is measured.
func (o AdaptiveOptions) withDefaults() AdaptiveOptions {
	o.Min = cmp.Or(o.Min, defaultMin)
	o.Max = cmp.Or(o.Max, max(defaultMax, o.Min))
	if o.Initial == 0 {
		o.Initial = max(o.Min, min(defaultInitial, o.Max))
	}
	if o.Headroom == 0 {
		o.Headroom = defaultHeadroom
	}
	o.Headroom = max(0, o.Headroom)
	o.MaxBaseline = max(0, cmp.Or(o.MaxBaseline, defaultMaxBaseline))
	o.Queue = queueOrDefault(o.Queue)
	if o.MaxWait < 0 {
		o.MaxWait = forever
	}
	o.OverloadAfter = overloadOrDefault(o.OverloadAfter)
	return o
}

// RateOptions configures a [RateLimiter]. PerSecond is required.
type RateOptions struct {
	// Name is the Limiter of its errors.
	Name string
	// PerSecond is how many calls may start per second in the long run, above
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
	f := option.Faults{Package: "limit"}
	f.Check(o.PerSecond > 0, "RateOptions.PerSecond", o.PerSecond, "above 0") // NaN is not
	f.Check(o.Burst >= 0, "RateOptions.Burst", o.Burst, "at least 1, or 0 for the default")
	f.Check(o.Burst <= maxBurst, "RateOptions.Burst", o.Burst, "at most 1073741824")
	return f.Err()
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

// overloadOrDefault leaves 0, which depends on what is measured.
func overloadOrDefault(d time.Duration) time.Duration {
	if d < 0 {
		return forever
	}
	return d
}
