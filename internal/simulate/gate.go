package simulate

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
)

// A Gate decides which calls reach the source, and when. Acquire returns a func that
// the caller calls once, when its call has ended. Otherwise it returns the error of a
// rejection, or any error if ctx has ended.
//
// A Gate may have a method Limit() int, which returns how many calls it would admit
// at once at that moment. It may have a method Close(), which is called after the
// run.
type Gate interface {
	Acquire(ctx context.Context) (release func(limit.Outcome), err error)
}

// A Contender is a kind of gate. New creates a new gate for a run, inside the bubble
// of that run.
type Contender struct {
	Name string
	New  func(s Scenario) Gate
}

// Limiter returns a Gate that uses l. If l has a method Limit() int, the gate has it,
// too.
func Limiter(l limit.Limiter) Gate {
	g := limiterGate{l}
	if s, ok := l.(sampled); ok {
		return sampledGate{g, s}
	}
	return g
}

// sampled is an optional interface of a Gate; see Gate.
type sampled interface{ Limit() int }

type limiterGate struct{ l limit.Limiter }

// permits is an optional interface of a Gate whose permits can outlive their callers.
type permits interface {
	Permit(ctx context.Context) (limit.Permit, error)
}

// Permit implements permits.
func (g limiterGate) Permit(ctx context.Context) (limit.Permit, error) { return g.l.Acquire(ctx) }

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

// None returns the contender that admits every call.
func None() Contender {
	return Contender{Name: "none", New: func(Scenario) Gate { return open{} }}
}

type open struct{}

// Acquire implements Gate.
func (open) Acquire(context.Context) (func(limit.Outcome), error) {
	return func(limit.Outcome) {}, nil
}

// Ideal returns the contender that knows the source. It admits as many calls as the
// source serves at full speed, follows every step of that at once, and queues the
// others. It rejects a call that would wait longer than maxWait by the true service
// time, or that has waited that long. A maxWait of 0 or less means the mean service
// time at the start of the run.
//
// Its result is the benchmark for limiters that have to find the limit. It is not the
// best possible result: a longer queue wastes less.
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
		err = wait.Cause(ctx)
	case <-timeout.C:
		err = &limit.Error{Reason: limit.QueueTimeout, RetryAfter: g.maxWait}
	}
	if !g.remove(ready) {
		g.release(limit.Unused) // admitted while it was leaving
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

// step admits the calls for which there is room. The driver calls it when the
// capacity has changed.
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
