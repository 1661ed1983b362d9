package admit

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-go/weir/limit"
)

// A Shared is a call that several callers wait for, on its way to a permit.
type Shared interface {
	// Locker guards the callers, and the call's end.
	sync.Locker
	// QueueLocked says where callers who join are queued from now on.
	QueueLocked(at *limit.Place)
	// DemandLocked returns the demand of the callers that wait now. It returns
	// false once the call's end is decided.
	DemandLocked() (d Demand, open bool)
	// Ask asks the limiter, which may be the user's code, without the lock.
	Ask(ctx context.Context) (limit.Permit, error)
	// RefusedLocked ends the call with the limiter's error. It runs in the same
	// step that has found the error to hold for everybody, so that no caller joins
	// in between and is refused on another's account.
	RefusedLocked(err error)
}

// Acquire returns a permit for c. It asks the limiter again when callers have
// joined in the meantime for whom its refusal does not hold: those with a later
// deadline or a higher priority (F3, H6).
func Acquire(ctx context.Context, c Shared) (limit.Permit, error) {
	for {
		at := new(limit.Place)
		asked := queue(c, at)
		permit, err := c.Ask(asked.Context(ctx, at))
		if err == nil {
			at.Hold(permit)
			return permit, nil
		}
		if ended(c, asked, err) {
			return permit, err
		}
	}
}

func queue(c Shared, at *limit.Place) Demand {
	c.Lock()
	defer c.Unlock()
	c.QueueLocked(at)
	d, _ := c.DemandLocked()
	return d
}

// ended ends c with a refusal, unless it does not hold for the callers that
// wait now.
func ended(c Shared, asked Demand, refusal error) bool {
	judged := asRefusal(refusal)
	c.Lock()
	defer c.Unlock()
	if now, open := c.DemandLocked(); open && judged != nil && now.Revises(asked, judged) {
		return false
	}
	c.RefusedLocked(refusal)
	return true
}

// asRefusal returns the *limit.Error that err is or wraps, nil if there is none. The
// methods of err are the user's code, and must not run with a lock held.
func asRefusal(err error) *limit.Error {
	var e *limit.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
