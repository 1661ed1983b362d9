// Package admit combines what callers that share one call, such as those of a
// flight or of a batch, request from a limiter.
package admit

import (
	"context"
	"time"

	"github.com/weir-go/weir/limit"
)

// A Demand is what several callers together may require from a limiter: the
// latest of their deadlines and the highest of their priorities, so that no
// caller is refused because of another's limits (F3).
type Demand struct {
	Until    time.Time // zero: no deadline
	Priority limit.Priority
}

// Of returns the demand of one caller to l. It calls ctx, which may be the user's
// code, so no lock may be held. With a nil limiter it returns the zero Demand.
func Of(ctx context.Context, l limit.Limiter) Demand {
	if l == nil {
		return Demand{}
	}
	until, _ := ctx.Deadline()
	return Demand{Until: until, Priority: limit.PriorityOf(ctx)}
}

// Outlasts reports whether d has a later deadline than o, or no deadline.
func (d Demand) Outlasts(o Demand) bool {
	return !o.Until.IsZero() && (d.Until.IsZero() || d.Until.After(o.Until))
}

// With returns d combined with the demand of another caller.
func (d Demand) With(o Demand) Demand {
	if o.Outlasts(d) {
		d.Until = o.Until
	}
	d.Priority = max(d.Priority, o.Priority)
	return d
}

// Revises reports whether refusal, of the earlier Demand asked, may not apply to
// d: the refusal was for a deadline and d has a later one, or d has a higher
// priority.
func (d Demand) Revises(asked Demand, refusal *limit.Error) bool {
	return d.Priority > asked.Priority || refusal.Reason == limit.WaitTooLong && d.Outlasts(asked)
}

// Context returns the context in which the call requests its permit, and keeps at
// up to date. It has the callers' deadline, for the limiter to judge by, but it
// ends only with ctx, the call's own context: callers with a later deadline may
// still join.
func (d Demand) Context(ctx context.Context, at *limit.Place) context.Context {
	if d.Priority != limit.PriorityOf(ctx) {
		ctx = limit.ContextWithPriority(ctx, d.Priority)
	}
	ctx = limit.ContextWithPlace(ctx, at)
	if d.Until.IsZero() {
		return ctx
	}
	return asking{ctx, d.Until}
}

type asking struct {
	context.Context
	until time.Time
}

func (a asking) Deadline() (time.Time, bool) { return a.until, true }
