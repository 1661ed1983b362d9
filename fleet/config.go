package fleet

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weir-go/weir/option"
)

// A Config configures what the instances of a service share, and for how long. Guards
// (weir.Fleet), HTTP caches (weirhttp.FleetOptions) and gateways (gateway.Fleet)
// embed it. All instances of one Namespace must use the same Config. Without a Tier
// there is no fleet.
type Config struct {
	// Tier is the store that the instances share: a weirredis.Tier, or a [Memory] for
	// one process. Put a [Breaker] in front of an engine. Its owner must close it.
	Tier Tier

	// Namespace separates the users of one Tier, in at most MaxName bytes. Instances
	// of one namespace must have the same source. Empty: the name of a Guard, or
	// "http" for HTTP.
	Namespace string

	// Lease is how long an instance that died keeps the others from loading its
	// key. A live instance renews it, every third of it, for as long as the load
	// takes. Zero: DefaultLease. From MinLease to MaxLease.
	Lease time.Duration

	// MemoryCap is how long an instance serves its own copy before it asks the
	// Tier for a newer one, however long the copy is fresh. If a push is lost
	// unnoticed, an invalidation is seen that much later. Zero: DefaultMemoryCap.
	// From MinMemoryCap to a year.
	MemoryCap time.Duration

	// MaxKeep bounds how long the Tier stores an entry. Zero: DefaultMaxKeep, and a
	// Guard's TTL if that is longer. From a second to a year.
	MaxKeep time.Duration

	// Cooling is how long no instance loads a key again after a load has failed.
	// Callers get the stale value if they may, otherwise a Guard returns the error
	// and an HTTP cache lets one of them try. It doubles with each failure in a
	// row, up to MaxCooling. Zero: DefaultCooling and DefaultMaxCooling. Cooling is
	// at most an hour, and MaxCooling from Cooling to a day. A negative Cooling
	// disables it: the instances load one after another.
	Cooling, MaxCooling time.Duration

	// PushValues lets the Tier push small values of keys that several instances request,
	// together with the news that they have changed: an instance that has such a value
	// sends no request for it. It is off by default because it widens who can see values:
	// Redis does not restrict tracking by key patterns, so every user of the engine
	// with the right to use CLIENT TRACKING receives what is pushed. An instance with
	// PushValues off neither pushes values nor uses them.
	PushValues bool

	// MaxPush is the largest entry that is pushed, in bytes, with its header. Zero:
	// DefaultMaxPush. From 1 to LargestPush.
	MaxPush int

	// PushMemory bounds the bytes of the pushed values that an instance keeps until
	// they are requested, and of the list of keys that it keeps values for, which are
	// those that it requested last. Zero: DefaultPushMemory. From MinPushMemory to
	// 1<<40.
	PushMemory int
}

// Defaults and bounds of a [Config].
const (
	DefaultLease      = 3 * time.Second        // of Config.Lease
	DefaultMemoryCap  = time.Minute            // of Config.MemoryCap
	DefaultMaxKeep    = 24 * time.Hour         // of Config.MaxKeep
	DefaultCooling    = 250 * time.Millisecond // of Config.Cooling
	DefaultMaxCooling = 10 * time.Second       // of Config.MaxCooling

	// MinLease leaves the renewals time for a slow call of the engine that stays
	// within a [Breaker]'s DefaultDeadline.
	MinLease     = 100 * time.Millisecond
	MinMemoryCap = 100 * time.Millisecond // Config.MemoryCap

	DefaultMaxPush    = 1 << 10 // Config.MaxPush
	LargestPush       = 64 << 10
	DefaultPushMemory = 32 << 20  // Config.PushMemory
	MinPushMemory     = 256 << 10 // Config.PushMemory, in bytes

	mostPushMemory = 1 << 40

	minMaxKeep   = time.Second
	year         = 366 * 24 * time.Hour
	maxCooling   = time.Hour
	maxCoolingTo = 24 * time.Hour
)

// Validate returns all faults of c at once, joined by errors.Join, each an
// *OptionError, or nil. Without a Tier every other field must be zero.
func (c Config) Validate() error {
	f := option.Faults{Package: "fleet", Prefix: "Config."}
	if c.Tier == nil {
		f.Check(c == Config{}, "Tier", nil, "given with the other fields")
		return f.Err()
	}
	within := func(field string, d, low, high time.Duration) {
		f.Check(d == 0 || d >= low && d <= high, field, d, fmt.Sprintf("0 (the default), or from %v to %v", low, high))
	}
	f.Filled("Tier", c.Tier)
	f.Check(len(c.Namespace) <= MaxName, "Namespace", fmt.Sprintf("%d bytes long", len(c.Namespace)), fmt.Sprintf("at most %d", MaxName))
	within("Lease", c.Lease, MinLease, MaxLease)
	within("MemoryCap", c.MemoryCap, MinMemoryCap, year)
	within("MaxKeep", c.MaxKeep, minMaxKeep, year)
	f.Check(c.Cooling <= maxCooling, "Cooling", c.Cooling, fmt.Sprintf("at most %v; negative disables it", maxCooling))
	within("MaxCooling", c.MaxCooling, max(cmp.Or(c.Cooling, DefaultCooling), 0), maxCoolingTo)
	f.Check(c.MaxPush >= 0 && c.MaxPush <= LargestPush, "MaxPush", c.MaxPush, fmt.Sprintf("0 (the default), or from 1 to %d", LargestPush))
	f.Check(c.PushMemory == 0 || c.PushMemory >= MinPushMemory && int64(c.PushMemory) <= mostPushMemory, "PushMemory", c.PushMemory,
		fmt.Sprintf("0 (the default), or from %d to %d", MinPushMemory, int64(mostPushMemory)))
	return f.Err()
}

// WithDefaults returns c with zero fields replaced by their defaults, except for the
// Namespace. Without a Tier it returns c unchanged. A negative Cooling means that
// cooling is disabled.
func (c Config) WithDefaults() Config {
	if c.Tier == nil {
		return c
	}
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.MemoryCap = cmp.Or(c.MemoryCap, DefaultMemoryCap)
	c.MaxKeep = cmp.Or(c.MaxKeep, DefaultMaxKeep)
	c.Cooling = cmp.Or(c.Cooling, DefaultCooling)
	c.MaxCooling = cmp.Or(c.MaxCooling, max(DefaultMaxCooling, c.Cooling))
	c.MaxPush = cmp.Or(c.MaxPush, DefaultMaxPush)
	c.PushMemory = cmp.Or(c.PushMemory, DefaultPushMemory)
	return c
}

// Pushed returns how many bytes a pushed value may have: MaxPush, or 0 if PushValues is
// off. Call it on a Config that has its defaults.
func (c Config) Pushed() int {
	if !c.PushValues {
		return 0
	}
	return c.MaxPush
}

// Failed returns the Outcome of a failed load: the key cools, unless cooling is
// disabled. Call it on a Config that has its defaults.
func (c Config) Failed(f Failure) Outcome {
	if c.Cooling < 0 {
		return Outcome{Failure: f}
	}
	return Outcome{Failure: f, Cool: c.Cooling, MaxCool: c.MaxCooling}
}

// An OptionError is a fault in an options struct.
type OptionError = option.Error
