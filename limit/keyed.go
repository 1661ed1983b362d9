package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/buckets"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/option"
)

const (
	maxKeyedRate = 1_000_000_000
	maxKeyedPer  = 366 * 24 * time.Hour
	maxKeys      = 1 << 30
	defaultKeys  = 100_000
)

// KeyedRateOptions configure a [KeyedRateLimiter]. Rate is required.
type KeyedRateOptions struct {
	// Name is reported as Limiter in errors.
	Name string
	// Rate is how many calls of a key may start per Per, from 1 to 1,000,000,000.
	Rate int
	// Per is the period of Rate. 0 means one second, at most 366 days.
	Per time.Duration
	// Burst is how many calls of a key may start together. 0 means Rate.
	Burst int
	// Keys is how many keys have a bucket each. 0 means 100,000, at most 2^30. Each takes
	// about 120 bytes, however long it is.
	Keys int
}

func (o KeyedRateOptions) validate() error {
	f := option.Faults{Package: "limit", Prefix: "KeyedRateOptions."}
	f.Check(o.Rate >= 1 && o.Rate <= maxKeyedRate, "Rate", o.Rate, "from 1 to 1000000000")
	f.Check(o.Per >= 0 && o.Per <= maxKeyedPer, "Per", o.Per, "from 0 to 366 days")
	f.Check(o.Burst >= 0, "Burst", o.Burst, "at least 0")
	f.Check(o.Keys >= 0 && o.Keys <= maxKeys, "Keys", o.Keys, "from 0 to 1073741824")
	if f.Err() == nil {
		// Only here are the other options known to be valid.
		o = o.withDefaults()
		most := buckets.MostBurst(int64(o.Per), int64(o.Rate))
		f.Check(o.Burst <= most, "Burst", o.Burst, fmt.Sprintf("at most %d with that Rate and Per", most))
	}
	return f.Err()
}

func (o KeyedRateOptions) withDefaults() KeyedRateOptions {
	o.Per = cmp.Or(o.Per, time.Second)
	o.Burst = cmp.Or(o.Burst, o.Rate)
	o.Keys = cmp.Or(o.Keys, defaultKeys)
	return o
}

func (o KeyedRateOptions) meter() buckets.Meter {
	return buckets.NewMeter(int64(o.Per), int64(o.Rate), o.Burst, 0)
}

// A KeyedRateLimiter limits the rate at which the calls of each of many keys start, such as
// those of the tenants of a service. Each key has a token bucket, and no key uses up the
// tokens of another. Callers do not wait.
//
// It is for the place where the key of a caller is known, in front of a Guard, so that a
// tenant is rejected only for the calls that it has made itself, hits included. It is no
// [Limiter], because a load of a Guard serves callers of several keys.
//
// A bucket that is full again is forgotten, because a new one would be no different, and only
// such a bucket makes room for a new key. While all places are taken, new keys share one
// more bucket. So no key exceeds its rate, however many keys are made up, and a flood of them
// takes a bounded amount of memory; but it can exhaust the bucket that new keys share.
//
// For several instances that count together, see quota.KeyedLimiter, whose Allow has the same
// signature. For clients of an HTTP handler, see weirhttp.ClientLimiter.
//
// Create one with [NewKeyedRateLimiter]; the zero KeyedRateLimiter is not usable. It is safe
// for concurrent use. It has no goroutine and no timer, so there is nothing to close.
type KeyedRateLimiter struct {
	name  string
	start time.Time
	table *buckets.Table
	rest  *buckets.Table // the bucket of the keys that have no place in table

	admitted, refused, shared atomic.Uint64
}

// NewKeyedRateLimiter returns a KeyedRateLimiter whose buckets are full, or an error that joins
// an [*OptionError] for every option that is out of bounds.
func NewKeyedRateLimiter(o KeyedRateOptions) (*KeyedRateLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &KeyedRateLimiter{
		name: o.Name, start: time.Now(),
		table: buckets.NewTable(o.Keys, o.meter()), rest: buckets.NewTable(1, o.meter()),
	}, nil
}

// Name returns the name in its options.
func (l *KeyedRateLimiter) Name() string { return l.name }

// Allow takes a token of key and returns nil. Without one it returns an [*Error] with
// RateExceeded and the exact time until a call of key would be admitted; a rejected call
// costs its key nothing. If ctx is done, it returns context.Cause(ctx) and takes nothing. Any
// string is a key, also an empty one.
func (l *KeyedRateLimiter) Allow(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return wait.Cause(ctx)
	}
	now := time.Since(l.start)
	_, after, ok, room := l.table.Claim(key, now, false)
	if !room {
		l.shared.Add(1)
		_, after, ok = l.rest.Take("", now)
	}
	if !ok {
		l.refused.Add(1)
		return &Error{Limiter: l.name, Reason: RateExceeded, RetryAfter: max(1, after)}
	}
	l.admitted.Add(1)
	return nil
}

// Update changes the options while l is in use. Tokens that a key has spent stay spent, at
// most all of the new Burst. With fewer Keys (up to 64 remain), new keys share a bucket until enough of the
// known ones have been forgotten. The Name cannot change. If Update returns an error, which
// joins an [*OptionError] for every fault, nothing changes.
func (l *KeyedRateLimiter) Update(o KeyedRateOptions) error {
	if err := errors.Join(sameName(o.Name, l.name, "KeyedRateOptions"), o.validate()); err != nil {
		return err
	}
	o = o.withDefaults()
	now := time.Since(l.start)
	l.table.Update(o.Keys, o.meter(), now)
	l.rest.Update(1, o.meter(), now)
	return nil
}

// KeyedRateStats are the state and the counters of a KeyedRateLimiter, over all keys.
type KeyedRateStats struct {
	Keys     int    // keys that have a bucket
	Admitted uint64 // calls that got a token
	Refused  uint64 // calls that were rejected
	Shared   uint64 // calls of keys without a place, which share a bucket; also in Admitted or Refused
}

// Stats returns a snapshot.
func (l *KeyedRateLimiter) Stats() KeyedRateStats {
	return KeyedRateStats{Keys: l.table.Len(), Admitted: l.admitted.Load(), Refused: l.refused.Load(), Shared: l.shared.Load()}
}
