package quota

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/option"
)

// A FailureMode decides what a fleet-wide limit does while the engine that counts its
// permits is unreachable. There is no default: no mode suits every service.
type FailureMode uint8

const (
	// FailOpen admits every caller. Use it for limits that keep clients fair to each
	// other.
	FailOpen FailureMode = 1 + iota
	// FailClosed refuses every caller, with an [*OutageError]. Use it for limits that
	// must hold at any cost. It is the only mode in which the fleet's bound holds at
	// all times.
	FailClosed
	// FailLocalShare lets each instance count alone: it admits 1/Instances of the
	// rate, with 1/Instances of the burst, but at least 1. It begins with a single
	// permit, not with a burst, because callers admitted before the outage still
	// count.
	FailLocalShare
)

// String returns "open", "closed", "local share", or "failure mode(N)".
func (m FailureMode) String() string {
	switch m {
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	case FailLocalShare:
		return "local share"
	}
	return "failure mode(" + strconv.Itoa(int(m)) + ")"
}

// Terms define what a fleet-wide limit promises, and how it keeps to it. Rate and
// OnFailure are required. All instances must have the same Rate and Lease.
type Terms struct {
	// Name is reported as limit.Error.Limiter.
	Name string

	// Rate is the limit of the whole fleet: in a window of any length w all instances
	// together admit at most Permits/Per·w + Burst. Permits and Per are required, up
	// to 2^30 and 366 days. A Burst of 0 means Permits. Burst must be at least 2, and
	// at least 20 ms' worth of permits, because a part of it pays for Lease.
	Rate fleet.Rate

	// OnFailure decides what to do while the engine is unreachable. Required.
	OnFailure FailureMode
	// Instances is the maximum number of instances, for FailLocalShare, from 1 to
	// 10,000. Other modes ignore it.
	Instances int
	// Retry is how long the engine is not called after an outage begins, before one
	// request tests it again. Until then OnFailure decides for every caller. 0 means
	// one second; at least 1 ms.
	Retry time.Duration

	// Lease is how long an instance may use the permits that it gets from the engine,
	// counted from its request. A response that takes longer is a failure. Permits
	// not used by then are lost. The part of Burst that comes back within a Lease is
	// not available at once, see [Limiter]. 0 means the time in which half of Burst
	// comes back, at most 200 ms. A Lease is at least 1 ms and less than Burst's
	// worth, and should be several round trips.
	Lease time.Duration
	// MaxBatch bounds how many permits an instance requests at once. 0 means a
	// quarter of the burst that Lease leaves, at least 1, so that no instance takes
	// the whole burst and leaves none for the others.
	MaxBatch int
}

// Bounds and defaults of Terms.
const (
	maxRatePermits   = 1 << 30
	maxRatePer       = 366 * 24 * time.Hour
	maxInstances     = 10_000
	minLease         = time.Millisecond
	minDefaultLease  = 10 * time.Millisecond // leaves time for a round trip
	maxDefaultLease  = 200 * time.Millisecond
	maxLease         = time.Minute
	defaultRetry     = time.Second
	defaultQueue     = 1024
	defaultQueueWait = 10 * time.Second
	defaultKeys      = 100_000
)

// forever is a wait without a bound.
const forever = time.Duration(math.MaxInt64)

// LimiterOptions configure a [Limiter]. Terms and Key are required.
type LimiterOptions struct {
	Terms

	// Key is the key under which the engine counts: limiters with the same Key share
	// the permits. Its Name is required.
	Key fleet.Key

	// Queue is how many callers may wait on this instance. 0 means 1024; negative
	// means that callers do not wait.
	Queue int
	// MaxWait bounds the wait. A caller that would certainly wait longer is refused
	// at once, and a caller that has waited MaxWait is refused then. 0 means 10 s;
	// negative means that only the caller's deadline counts.
	MaxWait time.Duration
}

func (o LimiterOptions) validate(m fleet.Meter) error {
	f := option.Faults{Package: "quota"}
	f.Check(m != nil, "Meter", m, "one")
	o.Terms.check(&f, "LimiterOptions.")
	f.Check(o.Key.Name != "" && len(o.Key.Name) <= fleet.MaxName, "LimiterOptions.Key.Name",
		fmt.Sprintf("%d bytes long", len(o.Key.Name)), "from 1 to 4096")
	f.Check(len(o.Key.Namespace) <= fleet.MaxName, "LimiterOptions.Key.Namespace",
		fmt.Sprintf("%d bytes long", len(o.Key.Namespace)), "at most 4096")
	return f.Err()
}

// withDefaults returns o with 0 and negative numbers replaced by their meanings.
func (o LimiterOptions) withDefaults() LimiterOptions {
	o.Terms = o.Terms.withDefaults()
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	o.Queue = max(0, o.Queue)
	switch {
	case o.MaxWait == 0:
		o.MaxWait = defaultQueueWait
	case o.MaxWait < 0:
		o.MaxWait = forever
	}
	return o
}

// An OptionError is a fault in an options struct.
type OptionError = option.Error

// KeyedLimiterOptions configure a [KeyedLimiter]. Terms are required and apply to
// each key.
type KeyedLimiterOptions struct {
	Terms

	// Namespace is the namespace in which the engine counts: limiters with the same
	// one share the permits of each key.
	Namespace string

	// Keys is how many keys an instance remembers. It forgets the least recently used
	// ones, which costs only a few permits and round trips. 0 means 100,000, at most
	// 2^30. Each key takes about 300 bytes, whatever its length.
	Keys int
}

func (o KeyedLimiterOptions) validate(m fleet.Meter) error {
	f := option.Faults{Package: "quota"}
	f.Check(m != nil, "Meter", m, "one")
	o.Terms.check(&f, "KeyedLimiterOptions.")
	f.Check(len(o.Namespace) <= fleet.MaxName, "KeyedLimiterOptions.Namespace",
		fmt.Sprintf("%d bytes long", len(o.Namespace)), "at most 4096")
	f.Check(o.Keys >= 0 && o.Keys <= 1<<30, "KeyedLimiterOptions.Keys", o.Keys, "from 1 to 2^30, or 0 for the default")
	return f.Err()
}

// withDefaults returns o with zeros replaced by their defaults.
func (o KeyedLimiterOptions) withDefaults() KeyedLimiterOptions {
	o.Terms = o.Terms.withDefaults()
	if o.Keys == 0 {
		o.Keys = defaultKeys
	}
	return o
}

// check records all faults of t in f. in is the prefix of the field names.
func (t Terms) check(f *option.Faults, in string) {
	sound := f.Check(t.Rate.Permits >= 1 && t.Rate.Permits <= maxRatePermits, in+"Rate.Permits", t.Rate.Permits, "from 1 to 2^30")
	sound = f.Check(t.Rate.Per > 0 && t.Rate.Per <= maxRatePer, in+"Rate.Per", t.Rate.Per, "above 0, at most 366 days") && sound
	sound = f.Check(t.Rate.Burst >= 0 && t.Rate.Burst <= maxRatePermits, in+"Rate.Burst", t.Rate.Burst, "from 1 to 2^30, or 0 for the default") && sound
	f.Check(t.OnFailure >= FailOpen && t.OnFailure <= FailLocalShare, in+"OnFailure", t.OnFailure, "FailOpen, FailClosed or FailLocalShare")
	f.Check(t.OnFailure != FailLocalShare || t.Instances >= 1 && t.Instances <= maxInstances,
		in+"Instances", t.Instances, "from 1 to 10000 with FailLocalShare")
	f.Check(t.Retry == 0 || t.Retry >= time.Millisecond, in+"Retry", t.Retry, "at least 1ms, or 0 for the default")
	f.Check(t.MaxBatch >= 0, in+"MaxBatch", t.MaxBatch, "at least 1, or 0 for the default")
	okLease := f.Check(t.Lease == 0 || t.Lease >= minLease && t.Lease <= maxLease, in+"Lease", t.Lease, "from 1ms to 1m, or 0 for the default")
	if !sound || !okLease {
		return // the checks below need them
	}
	t = t.withDefaults()
	if t.Lease < minLease || comesBack(t.Rate, t.Lease) >= t.Rate.Burst {
		need := max(2, 2*uint64(comesBack(t.Rate, minDefaultLease))) // unsigned: no overflow
		if t.Lease >= minLease {
			need = 1 + uint64(comesBack(t.Rate, t.Lease))
		}
		f.Check(false, in+"Rate.Burst", t.Rate.Burst, fmt.Sprintf("at least %d with that rate and Lease", need))
	}
}

// withDefaults returns t with zeros replaced by their defaults. A Lease of 0 stays if
// Burst is too small to pay for one.
func (t Terms) withDefaults() Terms {
	if t.Rate.Burst == 0 {
		t.Rate.Burst = t.Rate.Permits
	}
	if t.Retry == 0 {
		t.Retry = defaultRetry
	}
	if t.Lease == 0 {
		t.Lease = defaultLease(t.Rate)
	}
	if t.MaxBatch == 0 {
		t.MaxBatch = max(1, (t.Rate.Burst-comesBack(t.Rate, t.Lease))/4)
	}
	return t
}

// defaultLease returns the time in which half of the burst comes back, at most
// maxDefaultLease; 0 if that is too short for a round trip.
func defaultLease(r fleet.Rate) time.Duration {
	hi, lo := bits.Mul64(uint64(r.Per), uint64(r.Burst/2))
	d := maxDefaultLease
	if hi < uint64(r.Permits) {
		if q, _ := bits.Div64(hi, lo, uint64(r.Permits)); q < uint64(d) {
			d = time.Duration(q)
		}
	}
	if d < minDefaultLease {
		return 0
	}
	return d
}

// comesBack returns how many permits come back in d, rounded up.
func comesBack(r fleet.Rate, d time.Duration) int {
	hi, lo := bits.Mul64(uint64(r.Permits), uint64(d))
	lo, carry := bits.Add64(lo, uint64(r.Per-1), 0)
	hi += carry
	if hi >= uint64(r.Per) {
		return math.MaxInt
	}
	q, _ := bits.Div64(hi, lo, uint64(r.Per))
	return int(min(q, math.MaxInt))
}
