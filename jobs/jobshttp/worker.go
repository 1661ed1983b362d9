package jobshttp

import (
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
	// mostRetryAfter bounds what an answer's Retry-After can put a job off.
	mostRetryAfter = time.Hour
	// mostRefused bounds the wait until a call that a limit of ours has refused
	// is tried again, within its attempt.
	mostRefused = 30 * time.Second
)

// What tells the handler which attempt it is.
const (
	attemptField = "Weir-Job-Attempt"
	fenceField   = "Weir-Job-Fence"
)

// Workers have the handler of a Route answer the requests in its queues.
type Workers struct {
	all      []*jobs.Worker
	stopping context.Context // ends with stop
	stop     context.CancelFunc
}

// Work starts workers, in this program or in one of their own: Concurrency of o
// is for each of the two queues, and for each of those of a former name.
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

// add starts the worker of a queue.
func (w *Workers) add(q *queue, h jobs.Handler[Request, Response], o jobs.WorkerOptions) error {
	one, err := q.Work(h, o)
	if err == nil {
		w.all = append(w.all, one)
	}
	return err
}

// Close takes no more jobs and waits for those that run, until ctx ends; then
// their calls are canceled, and the jobs are handed back. A request that must
// not be sent twice fails instead. What one of our own limits has refused is
// handed back at once. It returns nil if all have finished.
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

// Stats returns the counts of all of them.
func (w *Workers) Stats() jobs.WorkerStats {
	var sum jobs.WorkerStats
	for _, one := range w.all {
		sum = sum.With(one.Stats())
	}
	return sum
}

// atMostOnce is for what must not happen twice: where the worker has to stop in
// the middle, the job is not handed back.
func atMostOnce(attempt jobs.Handler[Request, Response]) jobs.Handler[Request, Response] {
	return func(ctx context.Context, job *jobs.Job[Request]) (Response, error) {
		p, err := attempt(ctx, job)
		if errors.As(err, new(*interruptedError)) && errors.Is(err, jobs.ErrStopping) {
			return p, jobs.Permanent(errStopped)
		}
		return p, err
	}
}

// An interruptedError is the end of an attempt's context in the middle of a call.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return e.cause.Error() }
func (e *interruptedError) Unwrap() error { return e.cause }

// attempt has the handler answer the job's request. What our own limits refuse
// has not begun, so it is tried again as long as the attempt lasts and the worker
// is not stopping.
func (rt *Route) attempt(ctx, stopping context.Context, job *jobs.Job[Request]) (Response, error) {
	header := job.Input.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if header["Idempotency-Key"] == nil {
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

// judge says whether an answer is the job's result, or why not.
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

// retryAfter reads Retry-After, RFC 9110 section 10.2.3.
func retryAfter(h http.Header, missing time.Duration) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return missing
}

// pause waits for d and up to a fifth more, so that clients that were refused
// together do not come back together.
func pause(ctx, stopping context.Context, d time.Duration) error {
	t := time.NewTimer(d + rand.N(d/5+1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stopping.Done():
		return jobs.ErrStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
