package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/limit"
)

var workerPool = scenario.Scenario{
	Name:  "worker-pool",
	Title: "A worker pool",
	Asks:  "Each request has ten jobs of 1 s, and three may run at once. Does that hold when four requests arrive together, and what happens to a request with a short deadline?",
	Published: &result.Published{
		Title: "highload-patterns: worker pool",
		Setup: "GET /handle: ten jobs of 1 s for each request, done by three workers. No figures.",
		FromSource: []string{
			"The process has three workers, and their channel has room for three more jobs. A job is submitted without its request's context.",
		},
		Flaws: []string{
			"A pool ignores deadlines: it starts jobs of a request that cannot finish in time, or whose client has left. A limit rejects them.",
			"The process must own the workers. If each handler starts its own, as is common, each request has three; that is measured too.",
		},
	},
	Service: poolService,
	Run:     runPool,
}

// The variants of worker-pool, in addition to unprotected.
const (
	poolEach  = "a pool for each request"
	poolOne   = "one pool for all" // the published one
	weirLimit = "weir limit"
)

const (
	jobsEach    = 10 // per request
	poolWorkers = 3
)

func runPool(ctx context.Context, l *scenario.Lab) error {
	job := scenario.Size(l, time.Second, 100*time.Millisecond)
	late := result.Table{
		Title: fmt.Sprintf("A request that can wait %v, behind the jobs of four others", 2*job),
		Head:  []string{"variant", "status", "after, ms", "of its jobs started"},
	}
	for _, variant := range []string{unprotected, poolEach, poolOne, weirLimit} {
		s, err := l.Serve(ctx, variant, job)
		if err != nil {
			return err
		}
		for _, clients := range []int{1, 4} {
			j := scenario.Job{
				Load:    load.Spec{URLs: []string{"/handle"}, Clients: clients, Requests: clients, Timeout: time.Minute},
				Setting: requestsTogether(clients),
			}
			m, err := l.Measure(ctx, s, j)
			if err != nil {
				return err
			}
			l.Check(fmt.Sprintf("%s, %s: no request fails", variant, requestsTogether(clients)), m.Failures == 0, "%d of %d failed", m.Failures, m.Requests)
		}
		if variant == poolOne || variant == weirLimit {
			cells, err := hurry(ctx, l, s, 2*job)
			if err != nil {
				return err
			}
			late.Cells = append(late.Cells, cells)
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	l.Table(late)
	judgePool(l)
	return nil
}

func requestsTogether(clients int) string {
	if clients == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests together", clients)
}

// inHurry is the setting in which a request with a deadline arrives while the jobs of
// four others are queued.
const inHurry = "4 requests, and 1 in a hurry"

// inVain names the jobs started for requests that timed out or were rejected.
const inVain = "jobs begun for requests that were not answered"

// hurry measures a request whose deadline is shorter than the queue: its status, its
// latency in milliseconds, and how many of its jobs were started.
func hurry(ctx context.Context, l *scenario.Lab, s *scenario.Server, deadline time.Duration) ([]string, error) {
	var status int
	var after time.Duration
	m, err := l.Measure(ctx, s, scenario.Job{
		Load:    load.Spec{URLs: []string{"/handle"}, Clients: 4, Requests: 4, Timeout: time.Minute},
		Setting: inHurry,
		During: func(ctx context.Context) (err error) {
			if err := jobsQueued(ctx, s); err != nil {
				return err
			}
			began := time.Now()
			status, err = getStatus(ctx, fmt.Sprintf("%s/handle?within=%s", s.URL, deadline))
			after = time.Since(began)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	what := s.Variant + ", with one in a hurry: "
	l.Check(what+"the others succeed", m.Failures == 0, "%d of %d failed", m.Failures, m.Requests)
	if s.Variant == weirLimit {
		l.Check(what+"it is rejected and does not time out: 503", status == http.StatusServiceUnavailable, "%d", status)
		l.Check(what+"none of its jobs is started", m.Values[inVain] == 0, "%.0f of %d", m.Values[inVain], jobsEach)
		l.CheckTime(what+"it is rejected at once", after < deadline/10, "after %.1f ms", after.Seconds()*1000)
	} else {
		l.Check(what+"it times out: 504", status == http.StatusGatewayTimeout, "%d", status)
	}
	return []string{s.Variant, fmt.Sprint(status), fmt.Sprintf("%.1f", after.Seconds()*1000), fmt.Sprintf("%.0f", m.Values[inVain])}, nil
}

// jobsQueued waits until four requests are in the service and it has finished a job
// on each worker, so that the service knows how long jobs take.
func jobsQueued(ctx context.Context, s *scenario.Server) error {
	for {
		body, err := s.Control(ctx, "/state")
		if err != nil {
			return err
		}
		var now poolState
		if err := json.Unmarshal(body, &now); err != nil {
			return fmt.Errorf("state of %s: %w", s.Variant, err)
		}
		if now.Requests == 4 && now.Done >= poolWorkers {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the load was over before its jobs were queued")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// getStatus requests a URL and returns the status of the response.
func getStatus(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func judgePool(l *scenario.Lab) {
	four := requestsTogether(4)
	of := func(variant string) result.Measurement { return l.Measurements(variant, four)[0] }
	nothing, each, one, limited := of(unprotected), of(poolEach), of(poolOne), of(weirLimit)
	l.Check("a pool for each request: more than three jobs at once", each.Source.Most > poolWorkers, "%d", each.Source.Most)
	l.Check("one pool for all: three jobs at once", one.Source.Most == poolWorkers, "%d", one.Source.Most)
	l.Check("weir: three jobs at once", limited.Source.Most == poolWorkers, "%d", limited.Source.Most)
	for _, m := range []result.Measurement{nothing, each, one, limited} {
		l.Check(m.Variant+": every job runs once", m.Source.Calls == jobsEach*m.Requests, "%d of %d", m.Source.Calls, jobsEach*m.Requests)
	}
	l.CheckTime("weir: three workers are kept busy: 40 jobs in 14 s", limited.Seconds < 14.5, "%.1f s", limited.Seconds)

	l.Row(result.NewRow("jobs at once, four requests: unprotected → weir", "calls", result.Lower).
		Here(float64(nothing.Source.Most), float64(limited.Source.Most)))
	l.Row(result.NewRow("jobs at once, four requests: a pool for each → weir", "calls", result.Lower).
		Here(float64(each.Source.Most), float64(limited.Source.Most)))
	l.Row(result.NewRow("mean time of a request of four: one pool for all → weir", "ms", result.Lower).
		Here(one.Latency.Mean, limited.Latency.Mean).
		Noted("a pool serves all requests in turn, so all of them end late; weir's queue is in order of arrival"))
	l.Note("Fewer concurrent jobs take longer in total, as required: if the source can take only three, more at once would each take longer, or fail.")
}

// A runner runs all the jobs of a request, or returns an error.
type runner func(ctx context.Context, do func()) error

func poolService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var job time.Duration
	if err := o.Decode(&job); err != nil {
		return nil, err
	}
	var run runner
	switch o.Variant {
	case unprotected:
		run = allAtOnce
	case poolEach:
		run = func(ctx context.Context, do func()) error { return throughPool(ctx, startPool(ctx), do) }
	case poolOne:
		pool := startPool(ctx)
		run = func(ctx context.Context, do func()) error { return throughPool(ctx, pool, do) }
	case weirLimit:
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{
			Name:          "jobs",
			Limit:         poolWorkers,
			MaxWait:       -1, // the callers' deadlines decide
			OverloadAfter: -1, // a standing queue of jobs is intended: first come, first served
		})
		if err != nil {
			return nil, err
		}
		run = func(ctx context.Context, do func()) error { return throughLimit(ctx, l, do) }
	}
	return new(jobHandler).service(job, run), nil
}

// allAtOnce gives each job a goroutine.
func allAtOnce(_ context.Context, do func()) error {
	var wg sync.WaitGroup
	for range jobsEach {
		wg.Go(do)
	}
	wg.Wait()
	return nil
}

// startPool starts three workers, which end with ctx.
func startPool(ctx context.Context) chan<- func() {
	pool := make(chan func())
	for range poolWorkers {
		go func() {
			for {
				select {
				case do := <-pool:
					do()
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return pool
}

// throughPool passes a request's jobs to the workers and waits for them, at most
// until its deadline.
func throughPool(ctx context.Context, pool chan<- func(), do func()) error {
	done := make(chan struct{}, jobsEach)
	for range jobsEach {
		select {
		case pool <- func() { do(); done <- struct{}{} }:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for range jobsEach {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// throughLimit makes each job wait for a permit. When a job is refused, the others
// stop waiting.
func throughLimit(ctx context.Context, l *limit.Concurrency, do func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range jobsEach {
		wg.Go(func() {
			p, err := l.Acquire(ctx)
			if err != nil {
				cancel(err)
				return
			}
			defer p.Release(limit.Ignored) // in case of a panic; does nothing after the Release below
			do()
			p.Release(limit.Success)
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// A poolState is the state that the lab polls during a measurement.
type poolState struct {
	Requests int64 // in the handler
	Done     int64 // jobs of all requests
}

// A jobHandler handles requests and counts their jobs.
type jobHandler struct {
	meter    scenario.Meter
	requests atomic.Int64
	done     atomic.Int64
	inVain   atomic.Int64
}

func (d *jobHandler) service(job time.Duration, run runner) *scenario.Service {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /handle", func(w http.ResponseWriter, r *http.Request) {
		d.requests.Add(1)
		defer d.requests.Add(-1)
		ctx, cancel := withDeadline(r)
		defer cancel()
		var begun atomic.Int64 // jobs of this request
		err := run(ctx, func() {
			begun.Add(1)
			defer d.meter.Begin()()
			time.Sleep(job)
			d.done.Add(1)
		})
		if err != nil {
			d.inVain.Add(begun.Load())
			refuseJobs(w, err)
			return
		}
		fmt.Fprintln(w, jobsEach, "jobs done")
	})
	state := http.NewServeMux()
	state.HandleFunc("POST /state", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(poolState{d.requests.Load(), d.done.Load()}) //nolint:errcheck // the lab is gone
	})
	return &scenario.Service{
		Meter: &d.meter,
		Reset: func(context.Context) error {
			d.done.Store(0)
			d.inVain.Store(0)
			return nil
		},
		Values:  func() map[string]float64 { return map[string]float64{inVain: float64(d.inVain.Load())} },
		Handler: mux,
		Control: state,
	}
}

// withDeadline returns the context of a request, with the deadline that the request
// may specify.
func withDeadline(r *http.Request) (context.Context, context.CancelFunc) {
	within, err := time.ParseDuration(r.URL.Query().Get("within"))
	if err != nil {
		return r.Context(), func() {}
	}
	return context.WithTimeout(r.Context(), within)
}

// refuseJobs writes the response to a request whose jobs were not done: with
// Retry-After if it was rejected, otherwise as timed out.
func refuseJobs(w http.ResponseWriter, err error) {
	var refused *limit.Error
	if errors.As(err, &refused) {
		w.Header().Set("Retry-After", strconv.Itoa(int(refused.RetryAfter.Seconds()+1)))
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	http.Error(w, err.Error(), http.StatusGatewayTimeout)
}
