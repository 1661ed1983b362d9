package admit

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-go/weir/limit"
)

// A Shared is a call that several callers wait for, and that needs a permit.
type Shared interface {
	// Locker guards the callers and the end of the call.
	sync.Locker
	// QueueLocked sets where callers that join from now on are queued.
	QueueLocked(at *limit.Place)
	// DemandLocked returns the combined demand of the current callers. It returns
	// false once the end of the call is decided.
	DemandLocked() (d Demand, open bool)
	// Ask requests a permit from the limiter, which may be the user's code,
	// without the lock.
	Ask(ctx context.Context) (limit.Permit, error)
	// RefusedLocked ends the call with the limiter's error. It runs in the same
	// critical section that found the error to apply to all callers, so that no
	// caller joins in between and is refused because of another's limits.
	RefusedLocked(err error)
}

// Acquire returns a permit for c. After a refusal, it asks the limiter again if
// callers have joined to which the refusal does not apply: those with a later
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

// ended ends c with a refusal, unless the refusal does not apply to the current
// callers.
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

// asRefusal returns the *limit.Error that err is or wraps, or nil. The methods of
// err are the user's code, and must not run with a lock held.
func asRefusal(err error) *limit.Error {
	var e *limit.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
