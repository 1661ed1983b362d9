package simulate

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/limit"
)

// A Gate decides which calls get through to the source, and when. Acquire
// returns a func that the caller calls once, when its call has ended; or the
// error of a refusal, or any error when ctx has ended.
//
// A Gate may have a method Limit() int, for how many calls it would let in at
// once at that moment, and a method Close(), which is called after the run.
type Gate interface {
	Acquire(ctx context.Context) (release func(limit.Outcome), err error)
}

// A Contender is a kind of gate. New makes a fresh one for a run, inside its
// bubble.
type Contender struct {
	Name string
	New  func(s Scenario) Gate
}

// Limiter returns the gate that is l. If l has a method Limit() int, so has
// the gate.
func Limiter(l limit.Limiter) Gate {
	g := limiterGate{l}
	if s, ok := l.(sampled); ok {
		return sampledGate{g, s}
	}
	return g
}

// sampled is what a gate may be beside, see Gate.
type sampled interface{ Limit() int }

type limiterGate struct{ l limit.Limiter }

// Acquire implements Gate.
func (g limiterGate) Acquire(ctx context.Context) (func(limit.Outcome), error) {
	p, err := g.l.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return p.Release, nil
}

type sampledGate struct {
	limiterGate
	sampled
}

// None returns the contender that lets everybody through.
func None() Contender {
	return Contender{Name: "none", New: func(Scenario) Gate { return open{} }}
}

type open struct{}

// Acquire implements Gate.
func (open) Acquire(context.Context) (func(limit.Outcome), error) {
	return func(limit.Outcome) {}, nil
}

// Ideal returns the contender that knows the source: it lets in as many calls
// as the source serves at full speed, follows every step of that at once, and
// keeps others in a queue. A call that would wait there longer than maxWait by
// the true service time, or has waited as long, is rejected. A maxWait of 0 or
// less means the mean service time at the start of the run.
//
// What it gives is the mark that a limiter is measured against which has to
// find out. It is not the most that can be had: a longer queue wastes less.
func Ideal(maxWait time.Duration) Contender {
	return Contender{Name: "ideal", New: func(s Scenario) Gate {
		g := &ideal{src: s.Source, maxWait: maxWait, start: time.Now()}
		if maxWait <= 0 {
			g.maxWait = s.Source.ServiceAt(0)
		}
		return g
	}}
}

type ideal struct {
	src     Source
	maxWait time.Duration
	start   time.Time

	mu    sync.Mutex
	busy  int             // guarded by mu
	queue []chan struct{} // guarded by mu; head first, each closed when its caller is let in
}

// Limit returns the capacity.
func (g *ideal) Limit() int { return g.src.CapacityAt(time.Since(g.start)) }

// Acquire implements Gate.
func (g *ideal) Acquire(ctx context.Context) (func(limit.Outcome), error) {
	capacity := g.Limit()
	expected := func(queued int) time.Duration {
		return g.src.ServiceAt(time.Since(g.start)) * time.Duration(queued+1) / time.Duration(capacity)
	}
	g.mu.Lock()
	if len(g.queue) == 0 && g.busy < capacity {
		g.busy++
		g.mu.Unlock()
		return g.release, nil
	}
	if expected(len(g.queue)) > g.maxWait {
		g.mu.Unlock()
		return nil, &limit.Error{Reason: limit.QueueFull, RetryAfter: g.maxWait}
	}
	ready := make(chan struct{})
	g.queue = append(g.queue, ready)
	g.mu.Unlock()

	timeout := time.NewTimer(g.maxWait)
	defer timeout.Stop()
	var err error
	select {
	case <-ready:
		return g.release, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timeout.C:
		err = &limit.Error{Reason: limit.QueueTimeout, RetryAfter: g.maxWait}
	}
	if !g.remove(ready) {
		g.release(limit.Unused) // let in on its way out
	}
	return nil, err
}

func (g *ideal) remove(ready chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, r := range g.queue {
		if r == ready {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (g *ideal) release(limit.Outcome) {
	g.mu.Lock()
	g.busy--
	g.mu.Unlock()
	g.step()
}

// step lets in who may go. The driver calls it when the capacity has changed.
func (g *ideal) step() {
	capacity := g.Limit()
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) > 0 && g.busy < capacity {
		g.busy++
		close(g.queue[0])
		g.queue = g.queue[1:]
	}
}
