package fleetlab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
)

// Ways to break a tier, for Engine.Broken, to prove that the experiments detect
// faults.
const (
	WithoutFences        = "fences"        // a refused result is written nevertheless
	WithoutPushes        = "pushes"        // pushes are not delivered
	WithoutInvalidations = "invalidations" // invalidations are acknowledged, and undone
	WithoutLeases        = "leases"        // a waiter is granted the load
	WithMixedKeys        = "keys"          // a part of the name is lost
	WithoutEnd           = "freshness"     // stored values stay fresh forever; invalidations fail
)

var errBroken = errors.New("fleetlab: the tier is broken")

// broken is a tier with one fault. It forwards all other calls unchanged.
type broken struct {
	fleet.Tier
	how string
}

func newBroken(t fleet.Tier, how string) (fleet.Tier, error) {
	switch how {
	case "":
		return t, nil
	case WithoutFences, WithoutPushes, WithoutInvalidations, WithoutLeases, WithMixedKeys, WithoutEnd:
		return &broken{t, how}, nil
	}
	return nil, fmt.Errorf("fleetlab: Engine.Broken is %q, which is not a way to break a tier", how)
}

func (b *broken) key(k fleet.Key) fleet.Key {
	if b.how == WithMixedKeys && len(k.Name) > 1 {
		k.Name = k.Name[:len(k.Name)-1]
	}
	return k
}

// Acquire forwards to the tier, with the fault.
func (b *broken) Acquire(ctx context.Context, k fleet.Key, ask fleet.Ask) (fleet.Answer, error) {
	a, err := b.Tier.Acquire(ctx, b.key(k), ask)
	switch {
	case err != nil:
	case b.how == WithoutLeases && a.Grant == fleet.GrantHeld:
		a.Grant = fleet.GrantLease // with the holder's fence
	}
	return a, err
}

// Settle forwards to the tier; without fences it writes a result that the tier
// refuses.
func (b *broken) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	if b.how == WithoutEnd && o.Entry != nil {
		e := *o.Entry
		e.Fresh, e.Keep, e.Until = time.Hour, time.Hour, 0
		o.Entry = &e
	}
	ok, err := b.Tier.Settle(ctx, b.key(k), fence, o)
	if b.how == WithoutFences && !ok && err == nil && o.Entry != nil {
		_, err = b.Tier.Write(ctx, b.key(k), fleet.Write{Entry: o.Entry})
		ok = true
	}
	return ok, err
}

// Extend forwards to the tier.
func (b *broken) Extend(ctx context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	return b.Tier.Extend(ctx, b.key(k), fence, d)
}

// Write forwards to the tier, or acknowledges falsely, or fails.
func (b *broken) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	switch {
	case b.how == WithoutInvalidations && w.Entry == nil:
		return b.undone(ctx, k, w)
	case b.how == WithoutEnd && w.Entry == nil:
		return 0, &fleet.UnavailableError{Op: "write", Err: errBroken}
	}
	return b.Tier.Write(ctx, b.key(k), w)
}

// undone invalidates and then writes the value back, under a higher fence. Skipping
// the invalidation would be noticed, because the stored fence would be lower than the
// returned one.
func (b *broken) undone(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	a, err := b.Tier.Acquire(ctx, k, fleet.Ask{Lease: time.Millisecond})
	if err != nil {
		return 0, err
	}
	fence, err := b.Tier.Write(ctx, k, w)
	if err != nil || a.Entry == nil {
		return fence, err
	}
	a.Entry.Keep = max(a.Entry.Fresh, 0) + time.Second
	return b.Tier.Write(ctx, k, fleet.Write{Entry: a.Entry})
}

// Watch forwards to the tier; without pushes it does nothing.
func (b *broken) Watch(namespace string, w fleet.Watcher) (stop func(), err error) {
	if b.how == WithoutPushes {
		return func() {}, nil
	}
	return b.Tier.Watch(namespace, w)
}
