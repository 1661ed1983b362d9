package fleet

import (
	"context"
	"errors"
	"time"
)

// DefaultAnnounceEvery is how often Announce announces.
const DefaultAnnounceEvery = 5 * time.Second

// Announce keeps an instance known to r until ctx ends, and withdraws it then. It
// announces what tell returns at once, and again each time that every has passed,
// for three times as long, so that a lost one does no harm; after a failure it
// tries again in a fifth of that. 0 means DefaultAnnounceEvery.
//
// It returns when all is done, nil unless it could not withdraw: then the instance
// stays known for as long as it had announced. An error that matches
// [errors.ErrUnsupported], of a Tier that is no Roster, is returned at once. Start
// it on a goroutine, and wait for that to end before r is closed. tell is called
// on it, each time, and must not block.
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

// bounded is call with a deadline, for a Roster that has none; a panic is an error.
func bounded[T any](ctx context.Context, d time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errMissed)
	defer cancel()
	return safely(ctx, call)
}
