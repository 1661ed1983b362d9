// Package load drives a target with a closed loop: a fixed number of clients,
// each of which sends its next request once the last one is answered.
//
// The loop is that of fortio (fortio.org/fortio/periodic); the latencies are
// kept in an HdrHistogram, because fortio's own histogram interpolates its
// percentiles in buckets up to twice as wide as their lower end.
//
// A closed loop slows down with its target, so it says how much work gets
// done and how long a client waits, not what happens to traffic that keeps
// coming: for that an open loop is needed.
package load

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"fortio.org/fortio/periodic"
	"fortio.org/log"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Func sends one request as the given client, 0 to Clients-1, and checks
// the answer: nil is a good one. It runs on Clients goroutines at once, and
// never twice at a time for the same client. It returns soon after ctx ends.
type Func func(ctx context.Context, client int) error

// A Loop is one run of a number of clients.
type Loop struct {
	clients  int
	duration time.Duration
	do       Func
	answered atomic.Int64 // good answers; an atomic so that Answered never delays a client

	mu       sync.Mutex
	hist     *hdrhistogram.Histogram // guarded by mu; good answers, in microseconds
	slowest  time.Duration           // guarded by mu; exact, of good answers
	failures int64                   // guarded by mu
	first    error                   // guarded by mu; the first failure
}

// A Result is what a run has measured. The times are those of good answers
// only, so that a quick refusal does not pass for a quick answer.
type Result struct {
	Requests     int64         // all that were sent
	Failures     int64         // those that had no good answer
	FirstFailure error         // why the first of them failed; nil without any
	Elapsed      time.Duration // from the first request to the last answer
	P50          time.Duration // three significant digits
	P99          time.Duration // three significant digits
	Slowest      time.Duration // exact
}

// The histogram's range and precision. A request above the range counts in
// Slowest as it is, and in the percentiles as the highest value.
const (
	lowest  = time.Microsecond
	highest = time.Hour
	digits  = 3
)

// New returns a Loop of that many clients. Both numbers must be positive.
func New(clients int, duration time.Duration, do Func) *Loop {
	if clients < 1 || duration <= 0 || do == nil {
		panic(fmt.Sprintf("load: New(%d, %v, do): both must be positive, and do not nil", clients, duration))
	}
	return &Loop{
		clients:  clients,
		duration: duration,
		do:       do,
		hist:     hdrhistogram.New(int64(lowest/time.Microsecond), int64(highest/time.Microsecond), digits),
	}
}

// Answered returns how many good answers there are so far. It may be called
// while Run runs.
func (l *Loop) Answered() int64 { return l.answered.Load() }

// Run sends requests until the duration is over, waits for the last answers
// and returns what it measured. If ctx ends before that, it returns the cause
// once every client has stopped. A Loop runs once.
func (l *Loop) Run(ctx context.Context) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	quiet()
	stop := periodic.NewAborter() // ours, or fortio takes over the interrupt signal
	defer context.AfterFunc(ctx, func() { stop.Abort(false) })()

	runner := periodic.NewPeriodicRunner(&periodic.RunnerOptions{
		RunType:    "closed loop",
		NumThreads: l.clients,
		QPS:        -1, // as fast as the answers come
		Duration:   l.duration,
		Stop:       stop,
		Out:        io.Discard,
	})
	// NewPeriodicRunner wipes runners it is given, so they come after it.
	for i := range runner.Options().Runners {
		runner.Options().Runners[i] = &client{loop: l, ctx: ctx}
	}
	r := runner.Run()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return l.result(r.DurationHistogram.Count, r.ActualDuration), nil
}

func (l *Loop) result(requests int64, elapsed time.Duration) Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	percentile := func(q float64) time.Duration {
		return min(l.slowest, time.Duration(l.hist.ValueAtQuantile(q))*time.Microsecond)
	}
	return Result{
		Requests:     requests,
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
	if err != nil {
		l.failures++
		if l.first == nil {
			l.first = err
		}
		return
	}
	l.slowest = max(l.slowest, latency)
	// The value is in range, so there is no error to hand on.
	_ = l.hist.RecordValue(int64(min(max(latency, lowest), highest) / time.Microsecond))
}

// A client is one of the loop's. Only its own goroutine touches it.
type client struct {
	loop *Loop
	ctx  context.Context
}

var _ periodic.Runnable = (*client)(nil)

// Run sends one request. fortio's context never ends, so the client uses the
// one that it was made with.
func (c *client) Run(_ context.Context, id periodic.ThreadID) (ok bool, details string) {
	start := time.Now()
	err := c.loop.do(c.ctx, int(id))
	c.loop.record(time.Since(start), err)
	return err == nil, ""
}

// quiet keeps fortio's log, which goes to standard error, to its errors. The
// level is one for the whole process.
var quiet = sync.OnceFunc(func() { log.SetLogLevelQuiet(log.Error) })
