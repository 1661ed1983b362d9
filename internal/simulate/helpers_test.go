package simulate_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

const ms = time.Millisecond

// fixed returns a contender with the real limiter and a fixed limit.
func fixed(n int, maxWait time.Duration) simulate.Contender {
	return simulate.Contender{Name: "fixed", New: func(simulate.Scenario) simulate.Gate {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: n, MaxWait: maxWait})
		if err != nil {
			panic(err)
		}
		return simulate.Limiter(l)
	}}
}

// A gateFunc is a gate, and its own contender.
type gateFunc func(ctx context.Context) (func(limit.Outcome), error)

func (g gateFunc) Acquire(ctx context.Context) (func(limit.Outcome), error) { return g(ctx) }

func (g gateFunc) contender() simulate.Contender {
	return simulate.Contender{Name: "func", New: func(simulate.Scenario) simulate.Gate { return g }}
}

// one runs s with c, and returns the whole run as one Phase.
func one(t *testing.T, s simulate.Scenario, c simulate.Contender) simulate.Phase {
	t.Helper()
	return simulate.Compare(t, s, c)[0].Whole
}

// story returns a scenario whose calls arrive at the given instants, at a source that
// takes 100 ms per call.
func story(capacity simulate.Schedule, arrivals ...time.Duration) simulate.Scenario {
	return simulate.Scenario{
		Duration: time.Second,
		Source:   simulate.Source{Capacity: capacity, Service: simulate.Const(0.1)},
		Arrivals: simulate.Arrivals{Trace: arrivals},
		Deadline: time.Minute,
	}
}

// took checks the median and the longest latency of the calls.
func took(t *testing.T, p simulate.Phase, p50, most time.Duration) {
	t.Helper()
	if p.Latency.P50 != p50 || p.Latency.Max != most {
		t.Errorf("latency: median %v, max %v; want %v, %v", p.Latency.P50, p.Latency.Max, p50, most)
	}
}

// ended checks how many calls ended in each way.
func ended(t *testing.T, p simulate.Phase, answered, callTimedOut, loadTimedOut int) {
	t.Helper()
	if p.Answered != answered || p.CallTimedOut != callTimedOut || p.LoadTimedOut != loadTimedOut {
		t.Errorf("%d answered, %d timed out at their deadline, %d at the load's; want %d, %d, %d",
			p.Answered, p.CallTimedOut, p.LoadTimedOut, answered, callTimedOut, loadTimedOut)
	}
}
