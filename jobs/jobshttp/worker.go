package jobshttp

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/weirhttp"
)

const (
	// mostRetryAfter caps the delay of a job by a response's Retry-After.
	mostRetryAfter = time.Hour
	// mostRefused caps the wait before a call is retried within its attempt after
	// weir's own limit refused it.
	mostRefused = 30 * time.Second
)

// The fields that identify the attempt for the handler.
const (
	attemptField = "Weir-Job-Attempt"
	fenceField   = "Weir-Job-Fence"
)

// Workers run the requests in a Route's queues through its handler.
type Workers struct {
	all      []*jobs.Worker
	stopping context.Context // ends with stop
	stop     context.CancelFunc
}

// Work starts workers. They can run in any program that has the route. Concurrency in
// o applies to each of the two queues, and to each queue of a former name.
func (rt *Route) Work(o jobs.WorkerOptions) (*Workers, error) {
	w := &Workers{}
	w.stopping, w.stop = context.WithCancel(context.Background())
	often := func(ctx context.Context, job *jobs.Job[Request]) (Response, error) {
		return rt.attempt(ctx, w.stopping, job)
	}
	once := often
	if rt.o.UnsafeAttempts == 1 {
		once = atMostOnce(often)
	}
	for _, p := range rt.pairs() {
		err := w.add(p.often, often, o)
		if err == nil {
			err = w.add(p.once, once, o)
		}
		if err != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = w.Close(ctx) // the first error is returned
			return nil, err
		}
	}
	return w, nil
}

// add starts the worker of one queue.
func (w *Workers) add(q *queue, h jobs.Handler[Request, Response], o jobs.WorkerOptions) error {
	one, err := q.Work(h, o)
	if err == nil {
		w.all = append(w.all, one)
	}
	return err
}

// Close takes no more jobs and waits for the running ones until ctx ends. Then it
// cancels their calls and hands the jobs back; a request that must not be sent twice
// fails instead. A call that weir's own limit has refused is handed back at once.
// Close returns nil if all have finished.
func (w *Workers) Close(ctx context.Context) error {
	w.stop()
	errs := make([]error, len(w.all))
	var wg sync.WaitGroup
	for i, one := range w.all {
		wg.Go(func() { errs[i] = one.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Stats returns the sum of all workers' counts.
func (w *Workers) Stats() jobs.WorkerStats {
	var sum jobs.WorkerStats
	for _, one := range w.all {
		sum = sum.With(one.Stats())
	}
	return sum
}

// atMostOnce is for requests that must not be sent twice: if the worker has to stop
// in the middle, the job is not handed back.
func atMostOnce(attempt jobs.Handler[Request, Response]) jobs.Handler[Request, Response] {
	return func(ctx context.Context, job *jobs.Job[Request]) (Response, error) {
		p, err := attempt(ctx, job)
		if errors.As(err, new(*interruptedError)) && errors.Is(err, jobs.ErrStopping) {
			return p, jobs.Permanent(errStopped)
		}
		return p, err
	}
}

// An interruptedError means that the attempt's context ended in the middle of a call.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return e.cause.Error() }
func (e *interruptedError) Unwrap() error { return e.cause }

// attempt runs the job's request through the handler. A call that weir's own limit
// refuses has not begun, so it is retried until the attempt ends or the worker stops.
func (rt *Route) attempt(ctx, stopping context.Context, job *jobs.Job[Request]) (Response, error) {
	header := job.Input.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	// A safe request needs none, and a cache keeps the responses to different keys apart.
	if header["Idempotency-Key"] == nil && !isSafe(job.Input.Method) {
		header.Set("Idempotency-Key", `"`+job.ID+`"`)
	}
	header.Set(attemptField, strconv.Itoa(job.Attempt))
	header.Set(fenceField, strconv.FormatUint(job.Fence, 10))
	for {
		in := job.Input
		in.Header = header
		r, err := in.request(ctx)
		if err != nil {
			return Response{}, jobs.Permanent(err)
		}
		p, receipt, err := record(rt.next, r, rt.o.MaxResult)
		if receipt.Outcome == weirhttp.OutcomeRefused {
			if err := pause(ctx, stopping, min(retryAfter(p.Header, time.Second), mostRefused)); err != nil {
				return Response{}, jobs.NotBegun(err)
			}
			continue
		}
		if ctx.Err() != nil {
			return Response{}, &interruptedError{context.Cause(ctx)}
		}
		return judge(p, err)
	}
}

// judge decides whether a response is the job's result, and returns an error if not.
func judge(p Response, err error) (Response, error) {
	switch {
	case errors.As(err, new(*oversizeError)):
		return Response{}, jobs.Permanent(err)
	case err != nil:
		return Response{}, err
	}
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		err := &statusError{p.Status}
		if d := retryAfter(p.Header, 0); d > 0 {
			return Response{}, jobs.RetryIn(err, min(d, mostRetryAfter))
		}
		return Response{}, err
	case http.StatusSwitchingProtocols:
		return Response{}, jobs.Permanent(&statusError{p.Status})
	}
	return p, nil
}

// retryAfter returns the Retry-After, or missing without a usable one.
func retryAfter(h http.Header, missing time.Duration) time.Duration {
	if d, ok := weirhttp.RetryAfter(h, time.Now()); ok {
		return d
	}
	return missing
}

// pause waits for d plus up to a fifth at random, so that calls that were refused
// together do not return together.
func pause(ctx, stopping context.Context, d time.Duration) error {
	t := time.NewTimer(d + rand.N(d/5+1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stopping.Done():
		return jobs.ErrStopping
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}
