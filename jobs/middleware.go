package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// A Middleware is called around the handler for each attempt of a Worker, on the
// handler's goroutine. It calls next to run the handler and the Middleware in between,
// with ctx or a context derived from it. What it returns counts as the handler's error:
// it can replace next's error, for example by one of Permanent, RetryIn or Snooze. A
// panic is an error.
//
// The result is that of the last call of next that returned nil, so next can be called
// again. If there was no such call and the Middleware returns nil, the attempt fails. An
// attempt must not continue after its Middleware has returned: results of later calls are
// ignored.
type Middleware func(ctx context.Context, job JobInfo, next func(context.Context) error) error

// JobInfo describes an attempt, as a Job does, without the types of the queue.
type JobInfo struct {
	ID, Queue  string            // ID of the job, and the name of its queue
	Key, Owner string            // SubmitOptions.Key and Owner
	Headers    map[string]string // a copy; nil: none
	Attempt    int               // from 1; snoozed ones are included
	Snoozes    int               // how often it was snoozed
	Fence      uint64            // number of the attempt; no other attempt has it
	Submitted  time.Time         // time on the server's clock
}

// errNoResult is the error of an attempt whose Middleware returned nil without a result.
var errNoResult = errors.New("a Middleware returned nil, but the handler was not called or has failed")

// through returns h with the Middleware around it; the first is the outermost.
func through[In, Out any](all []Middleware, h Handler[In, Out]) Handler[In, Out] {
	if len(all) == 0 {
		return h
	}
	all = slices.Clone(all)
	return func(ctx context.Context, job *Job[In]) (Out, error) {
		var mu sync.Mutex // next can be called by several goroutines
		var last Out
		var has, over bool // guarded by mu, as last
		next := func(ctx context.Context) error {
			out, err := h(ctx, job)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !over {
				last, has = out, true
			}
			return err
		}
		for _, m := range slices.Backward(all) {
			inner := next
			next = func(ctx context.Context) error { return m(ctx, job.info(), inner) }
		}
		err := next(ctx)
		mu.Lock()
		defer mu.Unlock()
		over = true
		if err == nil && !has {
			err = errNoResult
		}
		if err != nil {
			var none Out
			return none, err
		}
		return last, nil
	}
}

func (j *Job[In]) info() JobInfo {
	return JobInfo{
		ID: j.ID, Queue: j.Queue, Key: j.Key, Owner: j.Owner, Headers: maps.Clone(j.Headers),
		Attempt: j.Attempt, Snoozes: j.Snoozes, Fence: j.Fence, Submitted: j.Submitted,
	}
}
