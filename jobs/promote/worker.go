package promote

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
)

// maxAnswers is the number of loads after which one attempt accepts a superseded
// value as its result. A key that is written all the time would otherwise never have
// one.
const maxAnswers = 3

// Work starts a Worker for the promoted calls. Its handler calls the Guard with the
// job's input as the key. The caller must close the Worker. A program that does not
// promote can have one too: a separate worker process whose Guard has the same
// source.
//
// The load takes a permit of the Guard's Limiter, so do not give the Worker the same
// one: attempts that hold all of its permits would wait for more. The duration of an
// attempt, and so jobs.QueueOptions.AttemptTimeout, includes the wait for the Guard's
// limiter.
func (p *Promoter[K, V]) Work(o jobs.WorkerOptions) (*jobs.Worker, error) {
	return p.q.Work(p.handle, o)
}

// handle is one attempt of a promoted call.
func (p *Promoter[K, V]) handle(ctx context.Context, job *jobs.Job[K]) (v V, err error) {
	for answers := 0; ; {
		r := p.g.GetResult(ctx, job.Input)
		var full *limit.Error
		switch {
		case r.Err == nil:
			if answers++; !r.Superseded || answers == maxAnswers {
				return r.Value, nil
			}
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		case errors.As(r.Err, &full):
			if err := pause(ctx, full.RetryAfter); err != nil {
				return v, err
			}
		default:
			return v, p.outcome(r.Err)
		}
	}
}

// pause waits for d, or returns the cause if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
}

// outcome converts an error of the Guard to one that fails or retries the job.
func (p *Promoter[K, V]) outcome(err error) error {
	switch p.g.Classify(err) {
	case weir.ClassNotFound, weir.ClassPermanent:
		return jobs.Permanent(err)
	}
	return err
}
