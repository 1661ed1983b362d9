package batch

import (
	"context"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/limit"
)

// admit waits for a permit, and reports false if there is none.
func (r *run[T, R]) admit() bool {
	if r.b.o.Limiter == nil {
		return true
	}
	permit, err := admit.Acquire(&r.bt.ctx, (*admission[T, R])(r))
	if err != nil {
		if r.refused {
			r.bt.ctx.cancel(nil)
		}
		return false
	}
	r.permit = permit
	return true
}

// An admission adapts a run to admit.Acquire.
type admission[T, R any] run[T, R]

func (a *admission[T, R]) Lock()   { a.b.mu.Lock() }
func (a *admission[T, R]) Unlock() { a.b.mu.Unlock() }

func (a *admission[T, R]) QueueLocked(at *limit.Place) { a.bt.place = at }

func (a *admission[T, R]) DemandLocked() (admit.Demand, bool) {
	return a.bt.demandLocked(), !a.bt.final
}

func (a *admission[T, R]) Ask(ctx context.Context) (limit.Permit, error) {
	return a.b.o.Limiter.Acquire(ctx)
}

func (a *admission[T, R]) RefusedLocked(err error) {
	if a.refused = a.bt.failLocked(err); a.refused {
		a.b.count.Refused++
	}
}
