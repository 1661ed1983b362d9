package limit

import (
	"cmp"
	"math"
	"time"

	"github.com/weir-go/weir/option"
)

// Defaults of the options.
const (
	// leastQueue is the default of Queue where nothing is known of how fast the queue is
	// served. mostQueue is the default otherwise: MaxWait is the bound then.
	leastQueue = 4096
	mostQueue  = 4 * leastQueue

	defaultMaxWait = 10 * time.Second

	defaultInitial     = 10
	defaultMin         = 1
	defaultMax         = 1000
	defaultHeadroom    = 0.1
	defaultMaxBaseline = 30 * time.Second
)

// Upper bounds of the options. A Concurrency numbers its slots in 32 bits. Up to
// maxBurst, a float64 represents the tokens to within a thousandth of a token.
const (
	maxLimit    = math.MaxInt32
	maxBurst    = MaxUnits
	maxAdaptive = 10_000 // a curve has distinct cells to beyond this
)

// forever means an unbounded wait.
const forever = time.Duration(math.MaxInt64)

// ConcurrencyOptions configures a [Concurrency]. Limit is required.
type ConcurrencyOptions struct {
	// Name is reported as Limiter in errors.
	Name string
	// Limit is the number of permits, at least 1.
	Limit int
	// Queue is how many callers may wait. 0 means 16384, or 4096 while the drain rate
	// is unknown: nothing has been measured yet, or no call ends. MaxWait bounds the
	// queue as well. Negative means that no caller waits.
	Queue int
	// MaxWait bounds the time in the queue: the queue is full when it holds
	// more work than that, at the measured drain rate, and a caller that
	// has waited that long is rejected.
	// 0 means 10 s, negative means that only the caller's deadline counts.
	MaxWait time.Duration
	// Reserve is how many permits must stay free after a Background caller has
	// taken one. It must be below Limit. 0 means a tenth of Limit, rounded down,
	// and at least 1; with a Limit of 1 it means 0, because a single permit cannot
	// be both reserved and handed out. Negative means 0.
	Reserve int
	// OverloadAfter is how long the oldest caller of a class may wait before its
	// newest callers are served first. 0 means no such bound: they are served first
	// only if waiting does not end in time, see [Concurrency]. Negative means never.
	OverloadAfter time.Duration
	// MaxRetryAfter bounds Error.RetryAfter. 0 means 10 s (DefaultMaxRetryAfter), at
	// most 1 h.
	MaxRetryAfter time.Duration
	// MinLimit is how low the limit may fall while most calls end after their callers
	// have left, see [Concurrency]. 0 means that it never falls, and so does Limit or more.
	// Callers that leave on purpose can make it fall, so set it where they can be trusted, and to
	// no less than the others need.
	MinLimit int
	// OnStorm is called after such a time has begun or has ended, on the goroutine of a
	// call, without a lock. nil means none.
	OnStorm func(Storm)
}

func (o ConcurrencyOptions) validate() error {
	f := option.Faults{Package: "limit"}
	f.Check(retryInBounds(o.MaxRetryAfter), "ConcurrencyOptions.MaxRetryAfter", o.MaxRetryAfter, retryBound)
	f.Check(o.Limit >= 1, "ConcurrencyOptions.Limit", o.Limit, "at least 1")
	f.Check(o.Limit <= maxLimit, "ConcurrencyOptions.Limit", o.Limit, "at most 2147483647")
	f.Check(o.MinLimit >= 0, "ConcurrencyOptions.MinLimit", o.MinLimit, "at least 1, or 0 for a limit that never falls")
	f.Check(o.Reserve <= 0 || o.Reserve < o.Limit, "ConcurrencyOptions.Reserve", o.Reserve, "below Limit")
	return f.Err()
}

// withDefaults returns o with 0 and negative values resolved.
func (o ConcurrencyOptions) withDefaults() ConcurrencyOptions {
	o.MaxWait = waitOrDefault(o.MaxWait)
	if o.Reserve == 0 && o.Limit >= 2 {
		o.Reserve = defaultReserve(o.Limit)
	}
	o.Reserve = max(0, o.Reserve)
	o.OverloadAfter = overloadOrDefault(o.OverloadAfter)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, DefaultMaxRetryAfter)
	o.MinLimit = min(cmp.Or(o.MinLimit, o.Limit), o.Limit)
	return o
}

const retryBound = "from 10ms to 1h, or 0 for the default"

func retryInBounds(d time.Duration) bool { return d == 0 || d >= minRetry && d <= time.Hour }

// defaultReserve returns how many of limit permits Background callers leave free.
func defaultReserve(limit int) int {
	if limit < 2 {
		return 0
	}
	return max(1, limit/10)
}

// AdaptiveOptions configures an [Adaptive]. The zero AdaptiveOptions suit most
// sources.
type AdaptiveOptions struct {
	// Name is reported as Limiter in errors.
	Name string
	// Initial is the limit before anything is measured. 0 means 10, within Min
	// and Max. Set it too low rather than too high: while the source has capacity
	// to spare, the limit doubles within about ten times the latency.
	Initial int
	// Min and Max bound the limit. 0 means 1 and 1000. At most 10,000.
	Min, Max int
	// Headroom is how far above the knee the limit is kept, as a fraction of the
	// knee, at most 1. It keeps a source busy that queues calls internally, and
	// costs latency. Less of it is used where concurrent calls slow each other
	// down. 0 means 0.1; negative means none.
	Headroom float64
	// MaxBaseline is the ceiling on healthy latency. A source that takes longer
	// even with capacity to spare counts as overloaded, perhaps by other clients,
	// and the limit falls to Min. 0 means 30 s, negative means no ceiling.
	MaxBaseline time.Duration
	// Queue is as in ConcurrencyOptions.
	Queue int
	// MaxWait bounds the time in the queue: the queue is full when it holds
	// more work than that, and a caller that has waited that long is
	// rejected. 0 means three quarters of the measured healthy latency, at
	// least 1 ms, and 10 s before it is known; negative means that only the
	// caller's deadline counts.
	MaxWait time.Duration
	// OverloadAfter is as in ConcurrencyOptions.
	OverloadAfter time.Duration
	// MaxRetryAfter is as in ConcurrencyOptions.
	MaxRetryAfter time.Duration
	// DryRun admits every caller. AdaptiveStats counts what would have happened to
	// them, treating the calls in progress beyond the limit as queued.
	DryRun bool
}

func (o AdaptiveOptions) validate() error {
	f := option.Faults{Package: "limit"}
	d := o.withDefaults()
	f.Check(o.Min >= 0 && o.Min <= maxAdaptive, "AdaptiveOptions.Min", o.Min, "from 1 to 10000, or 0 for the default")
	f.Check(o.Max >= 0 && o.Max <= maxAdaptive, "AdaptiveOptions.Max", o.Max, "from 1 to 10000, or 0 for the default")
	f.Check(d.Min <= d.Max, "AdaptiveOptions.Min", d.Min, "at most Max")
	f.Check(o.Initial == 0 || o.Initial >= d.Min && o.Initial <= d.Max, "AdaptiveOptions.Initial", o.Initial, "from Min to Max, or 0 for the default")
	f.Check(retryInBounds(o.MaxRetryAfter), "AdaptiveOptions.MaxRetryAfter", o.MaxRetryAfter, retryBound)
	f.Check(o.Headroom <= 1, "AdaptiveOptions.Headroom", o.Headroom, "at most 1") // NaN is not
	return f.Err()
}

// withDefaults returns o with 0 and negative values resolved. A MaxWait of 0
// stays, because it depends on the measured latency.
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
	if o.MaxWait < 0 {
		o.MaxWait = forever
	}
	o.OverloadAfter = overloadOrDefault(o.OverloadAfter)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, DefaultMaxRetryAfter)
	return o
}

// RateOptions configures a [RateLimiter]. PerSecond is required.
type RateOptions struct {
	// Name is reported as Limiter in errors.
	Name string
	// PerSecond is how many calls may start per second in the long run, above
	// 0; it may be fractional. math.Inf(1) means no limit: every caller is admitted
	// at once, whatever the other options say.
	PerSecond float64
	// Burst is how many tokens the bucket holds, which is how many calls may start
	// at the same instant after a pause. 0 means a tenth of a second's worth,
	// rounded down, and at least 1. At most 2^30.
	Burst int
	// Queue is how many callers may wait. 0 means as many as are admitted within
	// MaxWait, from 4096 to 16384. Negative means that no caller waits.
	Queue int
	// MaxWait bounds the wait: a caller that would wait longer is rejected at once.
	// 0 means 10 s, negative means that only the caller's deadline counts.
	MaxWait time.Duration
	// MaxDebt is how many tokens the bucket may owe, after calls of AcquireN that cost
	// more than their estimate. Later callers wait until they have come; what goes
	// beyond MaxDebt is forgiven. 0 means Burst, negative means that nothing is owed.
	// At most 2^30.
	MaxDebt int
}

func (o RateOptions) validate() error {
	f := option.Faults{Package: "limit"}
	f.Check(o.PerSecond > 0, "RateOptions.PerSecond", o.PerSecond, "above 0") // NaN is not
	f.Check(o.Burst >= 0, "RateOptions.Burst", o.Burst, "at least 1, or 0 for the default")
	f.Check(o.Burst <= maxBurst, "RateOptions.Burst", o.Burst, "at most 1073741824")
	f.Check(o.MaxDebt <= maxBurst, "RateOptions.MaxDebt", o.MaxDebt, "at most 1073741824")
	return f.Err()
}

// withDefaults returns o with 0 and negative values resolved.
func (o RateOptions) withDefaults() RateOptions {
	if o.Burst == 0 {
		o.Burst = int(max(1, min(o.PerSecond/10, maxBurst)))
	}
	o.MaxWait = waitOrDefault(o.MaxWait)
	if o.Queue == 0 {
		o.Queue = int(min(max(leastQueue, o.PerSecond*o.MaxWait.Seconds()), mostQueue))
	}
	o.Queue = max(0, o.Queue)
	if o.MaxDebt == 0 {
		o.MaxDebt = o.Burst
	}
	o.MaxDebt = max(0, o.MaxDebt)
	return o
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

// overloadOrDefault keeps 0, which means no bound.
func overloadOrDefault(d time.Duration) time.Duration {
	if d < 0 {
		return forever
	}
	return d
}
