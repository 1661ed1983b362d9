package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// Shared parts of the scenarios about faults: one key that a crowd of callers
// requests at once, a source whose fault is part of the experiment, and callers that
// hang up.

// The variants of the scenarios about faults, in addition to unprotected and xsync.
const (
	xsyncChan = "x/sync singleflight, DoChan"
	shielded  = "weir"
)

// crowd is the number of callers that request the key.
const crowd = 50

// theKey is the key that they request.
const theKey = "the one that all want"

// A getter is a protected call.
type getter func(ctx context.Context, key string) (string, error)

// protect wraps call with a variant. As in many programs, the call of x/sync
// singleflight gets the context of the first caller. With DoChan each caller can
// leave at any time, and the call gets a context that no caller can cancel.
func protect(variant string, call getter, options weir.Options) (getter, error) {
	var g singleflight.Group
	switch variant {
	case unprotected:
		return call, nil
	case xsync:
		return func(ctx context.Context, key string) (string, error) {
			v, err, _ := g.Do(key, func() (any, error) { return call(ctx, key) })
			if err != nil {
				return "", err
			}
			return v.(string), nil
		}, nil
	case xsyncChan:
		return func(ctx context.Context, key string) (string, error) {
			answer := g.DoChan(key, func() (any, error) { return call(context.WithoutCancel(ctx), key) })
			select {
			case r := <-answer:
				if r.Err != nil {
					return "", r.Err
				}
				return r.Val.(string), nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}, nil
	}
	guard, err := weir.New(call, options)
	if err != nil {
		return nil, err
	}
	return guard.Get, nil
}

// A faulty is a service whose source fails on request: begin releases the waiting
// calls, heal ends the fault.
type faulty struct {
	meter  scenario.Meter
	inside atomic.Int64 // requests in the handler

	mu      sync.Mutex
	begun   chan struct{} // closed by begin; guarded by mu
	healed  bool          // guarded by mu
	dropped int64         // calls that noticed their cancellation; guarded by mu
}

// Names of the counts of a faulty service.
const (
	callsCanceled = "calls canceled"
	callsRunning  = "calls that still run"
)

// service serves the values that get returns.
func (f *faulty) service(get getter) *scenario.Service {
	f.begun = make(chan struct{})
	control := http.NewServeMux()
	control.HandleFunc("POST /inside", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, f.inside.Load()) })
	control.HandleFunc("POST /running", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, f.meter.Running()) })
	control.HandleFunc("POST /begin", func(http.ResponseWriter, *http.Request) { f.begin() })
	control.HandleFunc("POST /heal", func(http.ResponseWriter, *http.Request) { f.heal() })
	return &scenario.Service{
		Meter:   &f.meter,
		Control: control,
		Values: func() map[string]float64 {
			f.mu.Lock()
			defer f.mu.Unlock()
			return map[string]float64{callsCanceled: float64(f.dropped), callsRunning: float64(f.meter.Running())}
		},
		Reset: func(context.Context) error { f.reset(); return nil },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.inside.Add(1)
			defer f.inside.Add(-1)
			answer, err := get(r.Context(), theKey)
			if err != nil {
				answerError(w, err)
				return
			}
			fmt.Fprintln(w, answer)
		}),
	}
}

func (f *faulty) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.begun)
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = true
}

// ail starts the fault again: the opposite of heal.
func (f *faulty) ail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = false
}

// reset makes calls wait for begin again.
func (f *faulty) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun, f.dropped = make(chan struct{}), 0
}

// state returns the channel that a call waits for, and whether the fault is over.
func (f *faulty) state() (begun chan struct{}, healed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun, f.healed
}

// canceled counts a call that noticed its cancellation.
func (f *faulty) canceled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped++
}

// A reply is the outcome of a request.
type reply struct {
	at, took time.Duration // since the first request was due; since it was due itself
	status   int           // 0: no response
	body     string
	err      error
}

// newClient returns a client with its own connections.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * crowd}}
}

// ask sends a request that was due at a time after start.
func ask(ctx context.Context, client *http.Client, url string, start, due time.Time) (r reply) {
	r.at = due.Sub(start)
	defer func() { r.took = time.Since(due) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		r.err = err
		return r
	}
	resp, err := client.Do(req)
	if err != nil {
		r.err = err
		return r
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r.status, r.body, r.err = resp.StatusCode, strings.TrimSpace(string(body)), err
	if err == nil && r.status != http.StatusOK {
		r.err = fmt.Errorf("%s: %s", resp.Status, r.body)
	}
	return r
}

// callers are requests that were sent at the same time.
type callers struct {
	start   time.Time
	replies []reply // each written by its caller, read after done
	done    sync.WaitGroup
}

// send starts n callers, each with its context from ctxOf.
func send(n int, client *http.Client, url string, ctxOf func(i int) context.Context) *callers {
	c := &callers{start: time.Now(), replies: make([]reply, n)}
	for i := range n {
		c.done.Go(func() { c.replies[i] = ask(ctxOf(i), client, url, c.start, c.start) })
	}
	return c
}

// wait waits for all replies; the client's timeout bounds the wait.
func (c *callers) wait() []reply {
	c.done.Wait()
	return c.replies
}

// tally makes a measurement of replies to requests sent within elapsed.
func tally(load string, replies []reply, elapsed time.Duration) result.Measurement {
	m := result.Measurement{Load: load, Requests: int64(len(replies)), Seconds: elapsed.Seconds(), Statuses: make(map[int]int64)}
	var good []float64
	for _, r := range replies {
		m.Statuses[r.status]++
		if r.err != nil {
			m.Failures++
			if m.FirstFailure == "" {
				m.FirstFailure = plain(r.err)
			}
			continue
		}
		m.Good++
		good = append(good, r.took.Seconds()*1000)
	}
	if m.Good > 0 {
		m.PerSecond = float64(m.Good) / elapsed.Seconds()
		m.Latency = latencyOf(good)
	}
	return m
}

// plain returns the error's text without the called address, which differs in each
// run.
func plain(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// latencyOf is the distribution of some latencies in milliseconds.
func latencyOf(all []float64) *result.Latency {
	slices.Sort(all)
	at := func(q float64) float64 { return all[max(0, int(math.Ceil(q*float64(len(all))))-1)] }
	l := &result.Latency{P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Slowest: at(1)}
	for _, v := range all {
		l.Mean += v / float64(len(all))
	}
	return l
}

// slowestMS is the latency of the slowest good response of m in milliseconds, or
// infinity if there is none.
func slowestMS(m result.Measurement) float64 {
	if m.Latency == nil {
		return math.Inf(1)
	}
	return m.Latency.Slowest
}

// patience is how long a scenario waits for its service to reach a state.
const patience = 20 * time.Second

// until polls the service for a number until wanted accepts it.
func until(ctx context.Context, s *scenario.Server, path string, wanted func(n int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		body, err := s.Control(ctx, path)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(body)))
		if err != nil {
			return err
		}
		if wanted(n) {
			return nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("scenarios: %s%s is still %d, which is not the wanted number: %w", s.Variant, path, n, context.Cause(ctx))
		}
	}
}

// gathered waits until the crowd is in the service and has had time to get from the
// handler's first line to the call.
func gathered(ctx context.Context, s *scenario.Server) error {
	err := until(ctx, s, "/inside", is(crowd))
	time.Sleep(50 * time.Millisecond)
	return err
}

// is and atMost are conditions for until.
func is(want int) func(int) bool     { return func(n int) bool { return n == want } }
func atMost(want int) func(int) bool { return func(n int) bool { return n <= want } }
