package promote

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
)

// maxAnswers is how often one attempt takes an answer that was overtaken while
// it was loaded, before it is the result: a key that is written all the time
// would never have one.
const maxAnswers = 3

// Work starts a Worker of the promoted calls, whose handler asks the Guard, with
// the job's key for a key. It is the caller's to stop. A program that does not
// promote may have one too: a worker apart, whose Guard has the same source.
//
// The load takes a permit of the Guard's Limiter by itself, so do not give the
// Worker the same one: attempts that hold all of its permits would wait for more.
// The time of an attempt, and so jobs.QueueOptions.AttemptTimeout, includes the
// wait for the Guard's limiter.
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

// pause waits for d, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcome is what an error of the Guard means for the job.
func (p *Promoter[K, V]) outcome(err error) error {
	switch p.g.Classify(err) {
	case weir.ClassNotFound, weir.ClassPermanent:
		return jobs.Permanent(err)
	}
	return err
}
