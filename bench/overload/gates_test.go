package overload_test

import (
	"context"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/platinummonkey/go-concurrency-limits/core"
	gclimit "github.com/platinummonkey/go-concurrency-limits/limit"
	"github.com/platinummonkey/go-concurrency-limits/limiter"
	"github.com/platinummonkey/go-concurrency-limits/strategy"

	"github.com/weir-go/weir/internal/simulate"
	"github.com/weir-go/weir/limit"
)

// gates returns the rows of the table. The others are compared with the first one.
func gates() []simulate.Contender {
	return []simulate.Contender{
		simulate.Ideal(0),
		simulate.None(),
		fixed(),
		weirs(),
		failsafe("failsafe", 0),
		failsafe("failsafe-wait", 1),
		gradient2("gradient2", false),
		gradient2("gradient2-wait", true),
	}
}

// budget returns how long a caller may wait in a gate.
func budget(s simulate.Scenario) time.Duration { return s.Source.ServiceAt(0) }

func fixed() simulate.Contender {
	return simulate.Contender{Name: "fixed", New: func(s simulate.Scenario) simulate.Gate {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{
			Limit:   s.Source.CapacityAt(0),
			MaxWait: budget(s),
		})
		if err != nil {
			panic(err)
		}
		return simulate.Limiter(l)
	}}
}

// weirs returns weir's adaptive limiter, with the same queue budget as the others.
func weirs() simulate.Contender {
	return simulate.Contender{Name: "weir", New: func(s simulate.Scenario) simulate.Gate {
		l, err := limit.NewAdaptive(limit.AdaptiveOptions{MaxWait: budget(s)})
		if err != nil {
			panic(err)
		}
		return simulate.Limiter(l)
	}}
}

// failsafe returns failsafe-go's limiter. Callers wait for up to budgets times the
// budget.
func failsafe(name string, budgets time.Duration) simulate.Contender {
	return simulate.Contender{Name: name, New: func(s simulate.Scenario) simulate.Gate {
		return failsafeGate{adaptivelimiter.NewWithDefaults[any](), budgets * budget(s)}
	}}
}

type failsafeGate struct {
	adaptivelimiter.AdaptiveLimiter[any]
	wait time.Duration
}

// Acquire implements simulate.Gate.
func (g failsafeGate) Acquire(ctx context.Context) (func(limit.Outcome), error) {
	p, err := g.AcquirePermitWithMaxWait(ctx, g.wait)
	if err != nil {
		return nil, err
	}
	return func(o limit.Outcome) {
		if o == limit.Success {
			p.Record()
		} else {
			p.Drop() // as its documentation says for a call that timed out
		}
	}, nil
}

// gradient2 returns go-concurrency-limits' limiter, behind its queue if wait is true.
func gradient2(name string, wait bool) simulate.Contender {
	return simulate.Contender{Name: name, New: func(s simulate.Scenario) simulate.Gate {
		const second = int64(time.Second)
		l, err := gclimit.NewGradient2Limit("", 20, 200, 1, nil, 0.2, 600, gclimit.NoopLimitLogger{}, nil)
		if err != nil {
			panic(err)
		}
		var full core.Limiter
		full, err = limiter.NewDefaultLimiter(l, second, second, 1e5, 100,
			strategy.NewSimpleStrategy(20), gclimit.NoopLimitLogger{}, core.EmptyMetricRegistryInstance)
		if err != nil {
			panic(err)
		}
		if wait {
			full = limiter.NewFifoBlockingLimiter(full, 1024, budget(s))
		}
		return gradientGate{full, l}
	}}
}

type gradientGate struct {
	core.Limiter
	l *gclimit.Gradient2Limit
}

var errFull = errors.New("full")

// Limit returns the current limit.
func (g gradientGate) Limit() int { return g.l.EstimatedLimit() }

// Acquire implements simulate.Gate.
func (g gradientGate) Acquire(ctx context.Context) (func(limit.Outcome), error) {
	token, ok := g.Limiter.Acquire(ctx)
	if !ok {
		return nil, errFull
	}
	return func(o limit.Outcome) {
		switch o {
		case limit.Success:
			token.OnSuccess()
		case limit.Dropped:
			token.OnDropped()
		default:
			token.OnIgnore()
		}
	}, nil
}
