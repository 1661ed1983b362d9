package simulate_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

// Calls take 100 ms each, one at a time. The second waits. The third would have to
// wait for 200 ms, and is rejected.
func TestIdealQueueIsBounded(t *testing.T) {
	s := story(simulate.Const(1), 0, 1*ms, 2*ms)
	p := one(t, s, simulate.Ideal(0))
	if p.RefusedBy[limit.QueueFull.String()] != 1 || p.Answered != 2 {
		t.Errorf("refused %v, answered %d; want one rejected for a full queue, and 2 answered", p.RefusedBy, p.Answered)
	}
	took(t, p, 100*ms, 199*ms)
	if p.SourceLatency.Max != 100*ms {
		t.Errorf("the source took up to %v; want 100ms, because no call waits there", p.SourceLatency.Max)
	}
	took(t, one(t, s, simulate.Ideal(200*ms)), 199*ms, 298*ms)
}

func TestIdealFollowsTheCapacity(t *testing.T) {
	s := story(simulate.Schedule{{0, 1}, {50 * ms, 2}, {140 * ms, 1}}, 0, 1*ms, 110*ms)
	p := one(t, s, simulate.Ideal(0))
	// The second is admitted at 50 ms. The third arrives when the first is done, but
	// two calls are in service at 140 ms, when only one server is left; a fourth call
	// would have to wait for both.
	took(t, p, 100*ms, 149*ms)
	if p.Limit != (simulate.Range{Mean: p.Limit.Mean, Min: 1, Max: 2, Known: true}) {
		t.Errorf("limit %+v; want from 1 to 2", p.Limit)
	}
	s.Arrivals.Trace = append(s.Arrivals.Trace, 145*ms)
	if p := one(t, s, simulate.Ideal(0)); p.Latency.Max != 165*ms {
		t.Errorf("the fourth took %v; want 165ms, queued from 145 to 210", p.Latency.Max)
	}
}

func TestIdealWaitEnds(t *testing.T) {
	s := story(simulate.Const(1), 0, 1*ms)
	s.Source.Hung = simulate.Const(1)
	s.Deadline = 150 * ms
	if p := one(t, s, simulate.Ideal(0)); p.RefusedBy[limit.QueueTimeout.String()] != 1 {
		t.Errorf("%+v; want one rejected for a timeout in the queue", p)
	}
	s.Deadline = 90 * ms
	s.Source.Hung = nil
	s.Source.Service = simulate.Const(0.095)
	s.Arrivals.Trace = []time.Duration{0, 1 * ms, 92 * ms}
	p := one(t, s, simulate.Ideal(0))
	// The first gives up at 90 ms. The second takes its place with one millisecond
	// left, and then the third takes it.
	if p.CallTimedOut != 3 || p.Refused != 0 {
		t.Errorf("%+v; want three that gave up in the source", p)
	}
}

// The second caller leaves the queue, which makes room for the third.
func TestIdealForgetsWhoLeft(t *testing.T) {
	c := simulate.Contender{New: func(s simulate.Scenario) simulate.Gate {
		inner := simulate.Ideal(0).New(s)
		n := 0
		return gateFunc(func(ctx context.Context) (func(limit.Outcome), error) {
			if n++; n == 2 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 20*ms)
				defer cancel()
			}
			return inner.Acquire(ctx)
		})
	}}
	p := one(t, story(simulate.Const(1), 0, 1*ms, 30*ms), c)
	if p.Answered != 2 || p.RefusedBy[context.DeadlineExceeded.Error()] != 1 {
		t.Errorf("%+v; want two answered, and one that failed when its context ended", p)
	}
	took(t, p, 100*ms, 170*ms)
}

func TestNoneRefusesNobody(t *testing.T) {
	s := story(simulate.Const(1), make([]time.Duration, 50)...)
	if p := one(t, s, simulate.None()); p.Admitted != 50 || p.Limit.Known {
		t.Errorf("%d admitted, limit %+v; want 50, and none", p.Admitted, p.Limit)
	}
}

// withLimit is a limiter that appears to adapt its limit.
type withLimit struct {
	limit.Limiter
	n func() int
}

func (l withLimit) Limit() int { return l.n() }

func TestLimiterOffersItsLimit(t *testing.T) {
	c := simulate.Contender{Name: "learns", New: func(simulate.Scenario) simulate.Gate {
		return simulate.Limiter(withLimit{Limiter: limit.All(), n: func() int { return 7 }})
	}}
	p := one(t, story(simulate.Const(1), 0), c)
	if want := (simulate.Range{Mean: 7, Min: 7, Max: 7, Known: true}); p.Limit != want {
		t.Errorf("limit %+v; want %+v", p.Limit, want)
	}
}

type closer struct {
	gateFunc
	closed *int
}

func (c closer) Close() { *c.closed++ }

func TestRunClosesTheGate(t *testing.T) {
	closed := 0
	one(t, story(simulate.Const(1), 0), simulate.Contender{New: func(simulate.Scenario) simulate.Gate {
		return closer{func(context.Context) (func(limit.Outcome), error) { return func(limit.Outcome) {}, nil }, &closed}
	}})
	if closed != 1 {
		t.Errorf("Close was called %d times; want once", closed)
	}
}
