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

// What the scenarios about faults have in common: one key that a crowd of
// callers wants at once, a source whose fault is part of the experiment, and
// callers that hang up.

// The variants of the scenarios about faults, beside unprotected and xsync.
const (
	xsyncChan = "x/sync singleflight, DoChan"
	shielded  = "weir"
)

// crowd is how many callers want the key.
const crowd = 50

// theKey is the one they want.
const theKey = "the one that all want"

// A getter is a protected call.
type getter func(ctx context.Context, key string) (string, error)

// protect puts a variant before call. As many programs do it, the call of
// x/sync singleflight has the context of the caller that comes first; with
// DoChan each caller leaves when it has to, and the call has nobody's context.
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

// A faulty is a service whose source fails on request: begin lets calls go on
// that wait for it, heal ends the fault.
type faulty struct {
	meter  scenario.Meter
	inside atomic.Int64 // requests in the handler

	mu      sync.Mutex
	begun   chan struct{} // closed by begin; guarded by mu
	healed  bool          // guarded by mu
	dropped int64         // calls that have noticed their end; guarded by mu
}

// Names of what a faulty service counts.
const (
	callsCanceled = "calls canceled"
	callsRunning  = "calls that still run"
)

// service serves what get gets.
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

// ail is the opposite of heal.
func (f *faulty) ail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = false
}

// reset has calls wait for begin again.
func (f *faulty) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun, f.dropped = make(chan struct{}), 0
}

// state returns what a call waits for, and whether there is no fault any more.
func (f *faulty) state() (begun chan struct{}, healed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun, f.healed
}

// canceled notes that a call has noticed that nobody wants it.
func (f *faulty) canceled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped++
}

// A reply is what became of a request.
type reply struct {
	at, took time.Duration // since the first request was due; from when it was due
	status   int           // 0: no answer
	body     string
	err      error
}

// newClient returns a client whose connections are its own.
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

// callers are requests that have been sent at once.
type callers struct {
	start   time.Time
	replies []reply // written by its caller each, read after done
	done    sync.WaitGroup
}

// send has n callers ask, each with the context that it is given.
func send(n int, client *http.Client, url string, ctxOf func(i int) context.Context) *callers {
	c := &callers{start: time.Now(), replies: make([]reply, n)}
	for i := range n {
		c.done.Go(func() { c.replies[i] = ask(ctxOf(i), client, url, c.start, c.start) })
	}
	return c
}

// wait waits for all answers: the client's timeout bounds that.
func (c *callers) wait() []reply {
	c.done.Wait()
	return c.replies
}

// tally is a measurement of replies. Their requests were sent in elapsed.
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

// plain is an error without the called address, which differs in each run.
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

// slowestMS is the slowest good answer of m, in milliseconds, and more than any
// if there is none.
func slowestMS(m result.Measurement) float64 {
	if m.Latency == nil {
		return math.Inf(1)
	}
	return m.Latency.Slowest
}

// patience is how long a scenario waits for its own service to have come so
// far.
const patience = 20 * time.Second

// until asks the service for a number until it is what is wanted.
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
			return fmt.Errorf("scenarios: %s%s is %d, and does not become what it should: %w", s.Variant, path, n, context.Cause(ctx))
		}
	}
}

// gathered waits until the crowd is in the service, and has had the time to
// get from the handler's first line to the call.
func gathered(ctx context.Context, s *scenario.Server) error {
	err := until(ctx, s, "/inside", is(crowd))
	time.Sleep(50 * time.Millisecond)
	return err
}

// is and atMost are what until may want.
func is(want int) func(int) bool     { return func(n int) bool { return n == want } }
func atMost(want int) func(int) bool { return func(n int) bool { return n <= want } }
