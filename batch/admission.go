package batch

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/limit"
)

// A demand is what a batch may ask of the limiter for its callers: the latest
// of their deadlines and the highest of their priorities, so that no caller is
// refused on another's account.
type demand struct {
	until    time.Time // zero: no deadline
	priority limit.Priority
}

// demand returns what one caller brings. It asks ctx, which may be the user's
// code, so it is called without the lock.
func (b *Batcher[T, R]) demand(ctx context.Context) demand {
	if b.o.Limiter == nil {
		return demand{}
	}
	until, _ := ctx.Deadline()
	return demand{until: until, priority: limit.PriorityOf(ctx)}
}

// outlasts reports whether d has a later deadline than o, or none.
func (d demand) outlasts(o demand) bool {
	return !o.until.IsZero() && (d.until.IsZero() || d.until.After(o.until))
}

// with returns d with what another caller brings.
func (d demand) with(o demand) demand {
	if o.outlasts(d) {
		d.until = o.until
	}
	d.priority = max(d.priority, o.priority)
	return d
}

// revises reports whether a refusal of what was asked may not hold for d.
func (d demand) revises(asked demand, refusal error) bool {
	var e *limit.Error
	if !errors.As(refusal, &e) {
		return false
	}
	return d.priority > asked.priority || e.Reason == limit.WaitTooLong && d.outlasts(asked)
}

// An admission is the context in which a batch asks for its permit. It has the
// deadline of the callers, for the limiter to judge by, but ends with the batch
// only, since callers with a later one may join.
type admission struct {
	context.Context
	until time.Time
}

func (a admission) Deadline() (time.Time, bool) { return a.until, !a.until.IsZero() }

// context returns the context that carries d.
func (d demand) context(ctx context.Context) context.Context {
	if d.priority != limit.PriorityOf(ctx) {
		ctx = limit.ContextWithPriority(ctx, d.priority)
	}
	if d.until.IsZero() {
		return ctx
	}
	return admission{ctx, d.until}
}

// admit waits for a permit, and reports false if there is none. The limiter is
// asked again when callers have joined meanwhile for whom its refusal does not
// hold.
func (r *run[T, R]) admit() bool {
	b, bt := r.b, r.bt
	if b.o.Limiter == nil {
		return true
	}
	b.mu.Lock()
	asked := bt.demand
	b.mu.Unlock()
	for {
		permit, err := b.o.Limiter.Acquire(asked.context(&bt.ctx))
		if err == nil {
			r.permit = permit
			return true
		}
		b.mu.Lock()
		now := bt.demand
		if bt.final || !now.revises(asked, err) {
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
		asked = now
	}
}
