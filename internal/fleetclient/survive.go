package fleetclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A survivor wraps a Tier that may panic or call runtime.Goexit in any method.
// Such a call counts as unavailable, as if it had missed its deadline: whether
// the request took effect is unknown (T3). Each call runs on a separate
// goroutine, because nothing else stops a Goexit; the cost is small next to a
// round trip. Other calls, such as lease renewals, run on goroutines of the
// Client, where a panic would end the process.
type survivor struct {
	fleet.BaseTier // its Abilities are never used

	tier fleet.Tier
}

var _ fleet.Tier = survivor{}

// errExited is the cause of an UnavailableError whose Tier called
// runtime.Goexit.
var errExited = errors.New("the tier called runtime.Goexit")

// asked is a result, or the error of a call that did not return.
type asked[T any] struct {
	answer T
	err    error
}

// survive makes one call of the Tier.
func survive[T any](op string, call func() (T, error)) (T, error) {
	done := make(chan asked[T], 1)
	go func() {
		a := asked[T]{err: &fleet.UnavailableError{Op: op, Err: errExited}}
		defer func() {
			if r := recover(); r != nil {
				a.err = &fleet.UnavailableError{Op: op, Err: fmt.Errorf("the tier panicked: %v", r)}
			}
			done <- a
		}()
		a.answer, a.err = call()
	}()
	a := <-done
	return a.answer, a.err
}

// Acquire implements fleet.Tier.
func (s survivor) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	return survive("acquire", func() (fleet.Answer, error) { return s.tier.Acquire(ctx, k, a) })
}

// Extend implements fleet.Tier.
func (s survivor) Extend(ctx context.Context, k fleet.Key, fence uint64, d time.Duration) (bool, error) {
	return survive("extend", func() (bool, error) { return s.tier.Extend(ctx, k, fence, d) })
}

// Settle implements fleet.Tier.
func (s survivor) Settle(ctx context.Context, k fleet.Key, fence uint64, o fleet.Outcome) (bool, error) {
	return survive("settle", func() (bool, error) { return s.tier.Settle(ctx, k, fence, o) })
}

// Write implements fleet.Tier.
func (s survivor) Write(ctx context.Context, k fleet.Key, w fleet.Write) (uint64, error) {
	return survive("write", func() (uint64, error) { return s.tier.Write(ctx, k, w) })
}

// Tags implements fleet.Tier.
func (s survivor) Tags(ctx context.Context, namespace string, tags []string) (fleet.TagState, error) {
	return survive("tags", func() (fleet.TagState, error) { return s.tier.Tags(ctx, namespace, tags) })
}

// InvalidateTags implements fleet.Tier.
func (s survivor) InvalidateTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return survive("invalidate tags", func() (uint64, error) {
		return s.tier.InvalidateTags(ctx, namespace, tags, keep)
	})
}

// ExpireTags implements fleet.Tier.
func (s survivor) ExpireTags(ctx context.Context, namespace string, tags []string, keep time.Duration) (uint64, error) {
	return survive("expire tags", func() (uint64, error) { return s.tier.ExpireTags(ctx, namespace, tags, keep) })
}

// Watch implements fleet.Tier. A panic in the stop function of the Tier is
// ignored.
func (s survivor) Watch(namespace string, w fleet.Watcher) (func(), error) {
	stop, err := survive("watch", func() (func(), error) { return s.tier.Watch(namespace, w) })
	if stop == nil {
		return func() {}, err
	}
	return func() {
		_, _ = survive("watch", func() (struct{}, error) { stop(); return struct{}{}, nil })
	}, err
}
