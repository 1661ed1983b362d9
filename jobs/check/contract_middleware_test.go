package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/jobs"
)

type (
	jobInfo = jobs.JobInfo
	nextRun = func(context.Context) error
)

// J24: Middleware runs around each attempt, the first outermost, with the job's
// metadata. The handler receives its context.
func TestJ24_MiddlewareRunsInOrder(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var mu sync.Mutex
	var steps []string // guarded by mu
	step := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
	}
	type key struct{}
	layer := func(name string) jobs.Middleware {
		return func(ctx context.Context, job jobInfo, next nextRun) error {
			step(name + " of " + job.Headers["n"])
			before, _ := ctx.Value(key{}).(string)
			err := next(context.WithValue(ctx, key{}, before+name))
			step(name + " ends")
			return err
		}
	}
	fails := true
	r.work(q, jobs.WorkerOptions{Middleware: []jobs.Middleware{layer("a"), layer("b")}}, func(ctx context.Context, j *stringJob) (string, error) {
		step("handler of " + ctx.Value(key{}).(string))
		if fails {
			fails = false
			return "", errors.New("no")
		}
		return j.Input, nil
	})
	h := r.submit(q, "in", jobs.SubmitOptions{Headers: map[string]string{"n": "1"}})
	r.wantResult(h, "in")
	once := []string{"a of 1", "b of 1", "handler of ab", "b ends", "a ends"}
	mu.Lock()
	defer mu.Unlock()
	if want := append(slices.Clone(once), once...); !slices.Equal(steps, want) {
		t.Errorf("steps = %q; want %q", steps, want)
	}
}

// J24: The error of a Middleware is that of the handler, whether it is another one, a
// panic, or a missing call of next: a job is never done without a result of its
// handler.
func TestJ24_MiddlewareDecidesTheError(t *testing.T) {
	for name, c := range map[string]struct {
		m       jobs.Middleware
		state   jobs.State // zero: done
		message string
	}{
		"replaced": {m: func(ctx context.Context, _ jobInfo, next nextRun) error {
			return jobs.Permanent(errors.Join(errors.New("replaced"), next(ctx)))
		}, state: jobs.StateFailed, message: "replaced"},
		"panic": {m: func(context.Context, jobInfo, nextRun) error { panic("in the middle") },
			state: jobs.StateDead, message: "in the middle"},
		"no call":   {m: func(context.Context, jobInfo, nextRun) error { return nil }, state: jobs.StateDead, message: "returned nil"},
		"swallowed": {m: func(ctx context.Context, _ jobInfo, next nextRun) error { next(ctx); return nil }, state: jobs.StateDead, message: "returned nil"},
		"again": {m: func(ctx context.Context, _ jobInfo, next nextRun) error {
			if err := next(ctx); err == nil {
				return errors.New("the first call must fail")
			}
			return next(ctx)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := contractInOneTest(t)
			q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
			calls := 0
			r.work(q, jobs.WorkerOptions{Middleware: []jobs.Middleware{c.m}}, func(_ context.Context, j *stringJob) (string, error) {
				if calls++; calls == 1 {
					return "", errors.New("the first call")
				}
				return "second", nil
			})
			h := r.submit(q, "a", jobs.SubmitOptions{})
			if c.state == 0 {
				r.wantResult(h, "second")
			} else if e := r.wantError(h, c.state); !strings.Contains(e.Message, c.message) {
				t.Errorf("the error is %q; want one with %q", e.Message, c.message)
			}
		})
	}
}

// J24: A Middleware that is nil is refused with its place.
func TestJ24_MiddlewareIsChecked(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	_, err := q.Work(new(contractLog).echo, jobs.WorkerOptions{Middleware: []jobs.Middleware{nil}})
	if err == nil || !strings.Contains(err.Error(), "WorkerOptions.Middleware[0]") {
		t.Errorf("Work = %v; want an error that names Middleware[0]", err)
	}
}
