package batch

import (
	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/limit"
)

// admit waits for a permit, and reports false if there is none. The limiter is
// asked again when callers have joined meanwhile for whom its refusal does not
// hold.
func (r *run[T, R]) admit() bool {
	b, bt := r.b, r.bt
	if b.o.Limiter == nil {
		return true
	}
	for {
		at := new(limit.Place)
		b.mu.Lock()
		asked := bt.demandLocked()
		bt.place = at
		b.mu.Unlock()
		permit, err := b.o.Limiter.Acquire(asked.Context(&bt.ctx, at))
		if err == nil {
			r.permit = permit
			at.Hold(permit)
			return true
		}
		judged := admit.Refusal(err)
		b.mu.Lock()
		if bt.final || judged == nil || !bt.demandLocked().Revises(asked, judged) {
			refused := bt.failLocked(err)
			if refused {
				b.count.Refused++
			}
			b.mu.Unlock()
			if refused {
				bt.ctx.cancel(nil)
			}
			return false
		}
		b.mu.Unlock()
	}
}
