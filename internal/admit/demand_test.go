package admit_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/limit"
)

var (
	soon  = time.Unix(100, 0)
	later = time.Unix(200, 0)
)

// F3: several callers request with the latest of their deadlines (none if one has
// none) and the highest of their priorities.
func TestF3DemandOfSeveralCallers(t *testing.T) {
	for _, tt := range []struct{ a, b, want admit.Demand }{
		{admit.Demand{Until: soon}, admit.Demand{Until: later}, admit.Demand{Until: later}},
		{admit.Demand{Until: later}, admit.Demand{Until: soon}, admit.Demand{Until: later}},
		{admit.Demand{Until: soon}, admit.Demand{}, admit.Demand{}},
		{admit.Demand{}, admit.Demand{Until: soon}, admit.Demand{}},
		{admit.Demand{Priority: limit.Low}, admit.Demand{Priority: limit.High}, admit.Demand{Priority: limit.High}},
		{admit.Demand{Priority: limit.High}, admit.Demand{Priority: limit.Background}, admit.Demand{Priority: limit.High}},
	} {
		if got := tt.a.With(tt.b); got != tt.want {
			t.Errorf("%+v.With(%+v) = %+v; want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}

// F3: admission is retried only for callers to which a rejection may not apply.
func TestF3DemandRevisesARefusal(t *testing.T) {
	tooLong, full := &limit.Error{Reason: limit.WaitTooLong}, &limit.Error{Reason: limit.QueueFull}
	for _, tt := range []struct {
		name       string
		now, asked admit.Demand
		refusal    *limit.Error
		want       bool
	}{
		{"a later deadline", admit.Demand{Until: later}, admit.Demand{Until: soon}, tooLong, true},
		{"no deadline", admit.Demand{}, admit.Demand{Until: soon}, tooLong, true},
		{"the same", admit.Demand{Until: soon}, admit.Demand{Until: soon}, tooLong, false},
		{"a full queue is full", admit.Demand{}, admit.Demand{Until: soon}, full, false},
		{"a higher class", admit.Demand{}, admit.Demand{Priority: limit.Low}, full, true},
	} {
		if got := tt.now.Revises(tt.asked, tt.refusal); got != tt.want {
			t.Errorf("%s: Revises = %t; want %t", tt.name, got, tt.want)
		}
	}
}

// F3: the limiter sees the demand, and the end of the call.
func TestF3DemandContext(t *testing.T) {
	call, cancel := context.WithCancel(context.Background())
	ctx := admit.Demand{Until: soon, Priority: limit.High}.Context(call, new(limit.Place))
	if until, ok := ctx.Deadline(); !ok || until != soon || limit.PriorityOf(ctx) != limit.High || ctx.Err() != nil {
		t.Errorf("the context has deadline %v, %t, class %v, error %v; want %v, High, none", until, ok, limit.PriorityOf(ctx), ctx.Err(), soon)
	}
	if _, ok := (admit.Demand{}).Context(call, new(limit.Place)).Deadline(); ok {
		t.Error("without a deadline the context has one")
	}
	cancel()
	if ctx.Err() == nil {
		t.Error("the context outlives the call")
	}
	if d := admit.Of(ctx, nil); d != (admit.Demand{}) {
		t.Errorf("without a limiter the demand is %+v; want none", d)
	}
}
