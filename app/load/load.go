// Package load drives a target with a closed loop: a fixed number of clients,
// each of which sends its next request once it has the response to the last one. [Closed]
// is the loop alone, on which the lab's load generator also runs. A [Loop] also measures.
//
// A closed loop slows down with its target, so it measures throughput and how long a client
// waits, not the behavior under traffic that keeps arriving. That needs an open loop.
package load

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Closed runs a closed loop and returns once every client has stopped. It calls
// send on clients goroutines, 0 to clients-1, never twice at a time for the same
// client, with the request's number from 0 on and the time at which it begins.
// The clients share the requests, so that the slowest client does not send its part alone
// at the end. They stop at the time end, after that many requests, or when ctx ends.
func Closed(ctx context.Context, clients int, end time.Time, requests int64, send func(client int, request int64, began time.Time)) {
	var next atomic.Int64 // atomic because all clients draw from it between two requests
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				now := time.Now()
				if !now.Before(end) {
					return
				}
				n := next.Add(1) - 1
				if n >= requests {
					return
				}
				send(client, n, now)
			}
		})
	}
	all.Wait()
}

// A Func sends one request as the given client, 0 to Clients-1, and checks the response:
// nil means a successful one. It runs on Clients goroutines concurrently, and never twice at a time
// for the same client. It returns soon after ctx ends.
type Func func(ctx context.Context, client int) error

// A Loop is one run of a number of clients.
type Loop struct {
	clients  int
	duration time.Duration
	do       Func
	answered atomic.Int64 // successful responses; an atomic so that Answered never delays a client

	mu       sync.Mutex
	hist     histogram     // guarded by mu; successful responses
	slowest  time.Duration // guarded by mu; exact, of successful responses
	requests int64         // guarded by mu
	failures int64         // guarded by mu
	first    error         // guarded by mu; the first failure
}

// A Result holds the measurements of a run. Times cover successful responses only, so that a fast
// rejection does not count as a fast response.
type Result struct {
	Requests     int64         // all that were sent
	Failures     int64         // requests without a successful response
	FirstFailure error         // why the first of them failed; nil without any
	Elapsed      time.Duration // from the first request to the last response
	P50          time.Duration // three significant digits
	P99          time.Duration // three significant digits
	Slowest      time.Duration // exact
}

// New returns a Loop of that many clients. Both numbers must be positive.
func New(clients int, duration time.Duration, do Func) *Loop {
	if clients < 1 || duration <= 0 || do == nil {
		panic(fmt.Sprintf("load: New(%d, %v, do): the numbers must be positive, and do must not be nil", clients, duration))
	}
	return &Loop{
		clients:  clients,
		duration: duration,
		do:       do,
	}
}

// Answered returns the number of successful responses so far. It may be called while Run runs.
func (l *Loop) Answered() int64 { return l.answered.Load() }

// Run sends requests until the duration is over, waits for the last responses and returns
// its measurements. If ctx ends before that, it returns the cause once every client has
// stopped. A Loop runs once.
func (l *Loop) Run(ctx context.Context) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	start := time.Now()
	Closed(ctx, l.clients, start.Add(l.duration), math.MaxInt64, func(client int, _ int64, began time.Time) {
		err := l.do(ctx, client)
		l.record(time.Since(began), err)
	})
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return l.result(time.Since(start)), nil
}

func (l *Loop) result(elapsed time.Duration) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	percentile := func(p int64) time.Duration {
		return min(l.slowest, l.hist.percentile(p))
	}
	return Result{
		Requests:     l.requests,
		Failures:     l.failures,
		FirstFailure: l.first,
		Elapsed:      elapsed,
		P50:          percentile(50),
		P99:          percentile(99),
		Slowest:      l.slowest,
	}
}

func (l *Loop) record(latency time.Duration, err error) {
	if err == nil {
		l.answered.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if err != nil {
		l.failures++
		if l.first == nil {
			l.first = err
		}
		return
	}
	l.slowest = max(l.slowest, latency)
	l.hist.record(latency)
}
