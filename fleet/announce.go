package fleet

import (
	"context"
	"errors"
	"time"
)

// DefaultAnnounceEvery is how often Announce announces.
const DefaultAnnounceEvery = 5 * time.Second

// Announce keeps an instance known to r until ctx ends, and then withdraws it. It
// announces the result of tell at once, and again each time that every has passed.
// Each announcement is valid for three times as long, so that losing one does no
// harm. A failed announcement is repeated after a fifth of every. 0 means
// DefaultAnnounceEvery.
//
// Announce returns after the withdrawal, with nil unless that failed; then the
// instance stays known until its last announcement expires. If the Tier is not a
// Roster, Announce returns at once, with an error that matches
// [errors.ErrUnsupported]. Run it on a goroutine, and wait for that goroutine before
// closing r. tell is called on it each time, and must not block.
func Announce(ctx context.Context, r Roster, tell func() Instance, every time.Duration) error {
	if every <= 0 {
		every = DefaultAnnounceEvery
	}
	var last string // the ID that was announced last
	for ctx.Err() == nil {
		pause := every
		_, err := bounded(ctx, every, func(ctx context.Context) (struct{}, error) {
			i := tell()
			last = i.ID
			return struct{}{}, r.Announce(ctx, i, min(3*every, MaxLease))
		})
		if errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if err != nil {
			pause = every / 5
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	if last == "" {
		return nil
	}
	_, err := bounded(context.WithoutCancel(ctx), every, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.Withdraw(ctx, last)
	})
	return err
}

// bounded runs call with a deadline, for a Roster that has none, and turns a panic
// into an error.
func bounded[T any](ctx context.Context, d time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errMissed)
	defer cancel()
	return safely(ctx, call)
}
