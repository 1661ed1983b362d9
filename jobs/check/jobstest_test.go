package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobstest"
)

// J26: package jobstest and a Worker make the same of a handler.
func TestJ26_JobstestAgreesWithAWorker(t *testing.T) {
	r := contract(t)
	no := errors.New("no")
	fails := func(err error) jobs.Handler[string, string] {
		return func(context.Context, *stringJob) (string, error) { return "", err }
	}
	for i, row := range []struct {
		name string
		h    jobs.Handler[string, string]
		o    jobs.QueueOptions
		so   jobs.SubmitOptions
	}{
		{"done", func(_ context.Context, j *stringJob) (string, error) { return j.Input + "!", nil }, jobs.QueueOptions{}, jobs.SubmitOptions{Owner: "o"}},
		{"failures", fails(no), jobs.QueueOptions{MaxAttempts: 3}, jobs.SubmitOptions{Key: "k"}},
		{"RetryIn", fails(jobs.RetryIn(no, time.Millisecond)), jobs.QueueOptions{MaxAttempts: 2}, jobs.SubmitOptions{}},
		{"Permanent", fails(jobs.Permanent(no)), jobs.QueueOptions{}, jobs.SubmitOptions{}},
		{"class", fails(no), jobs.QueueOptions{Classify: func(error) weir.Class { return weir.ClassNotFound }}, jobs.SubmitOptions{}},
		{"snoozes", fails(jobs.Snooze(time.Millisecond)), jobs.QueueOptions{MaxSnoozes: 2, MaxAttempts: 2}, jobs.SubmitOptions{}},
		{"snooze beyond the deadline", fails(jobs.Snooze(time.Hour)), jobs.QueueOptions{}, jobs.SubmitOptions{Deadline: time.Minute}},
		{"not begun", func(_ context.Context, j *stringJob) (string, error) {
			if j.Attempt < 3 {
				return "", jobs.NotBegun(no)
			}
			return "begun", nil
		}, jobs.QueueOptions{MaxAttempts: 1}, jobs.SubmitOptions{}},
		{"panic", func(context.Context, *stringJob) (string, error) { panic("oh") }, jobs.QueueOptions{MaxAttempts: 1}, jobs.SubmitOptions{}},
		{"Goexit", func(context.Context, *stringJob) (string, error) { runtime.Goexit(); return "", nil }, jobs.QueueOptions{MaxAttempts: 1}, jobs.SubmitOptions{}},
		{"large result", func(context.Context, *stringJob) (string, error) { return strings.Repeat("x", 100), nil }, jobs.QueueOptions{MaxResult: 50}, jobs.SubmitOptions{}},
		{"timeout", func(ctx context.Context, _ *stringJob) (string, error) { <-ctx.Done(); return "", ctx.Err() }, jobs.QueueOptions{MaxAttempts: 1, AttemptTimeout: 20 * time.Millisecond}, jobs.SubmitOptions{}},
		{"progress", func(_ context.Context, j *stringJob) (string, error) {
			j.Progress(jobs.Progress{Done: 1})
			j.Progress(jobs.Progress{Done: 2, Note: "last"})
			j.Log("a line")
			return "", no
		}, jobs.QueueOptions{MaxAttempts: 1}, jobs.SubmitOptions{}},
	} {
		row.o.RetryInitial = time.Millisecond
		ctx, cancel := r.soon()
		q, err := jobs.NewQueue[string, string](ctx, r.store, fmt.Sprint("agree", i), row.o)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		real := r.submit(q, "in", row.so)
		r.work(q, jobs.WorkerOptions{}, row.h)
		result, _ := r.wait(real)
		want := r.status(real)

		tried, err := jobstest.New(row.h, jobstest.Options{Queue: q.Name(), QueueOptions: row.o}).Submit("in", row.so)
		if err != nil {
			t.Fatal(err)
		}
		all := tried.Finish(t.Context())
		if got := all[len(all)-1].Result; got != result {
			t.Errorf("%s: Result = %q; want %q", row.name, got, result)
		}
		if got, want := essence(tried.Status()), essence(want); got != want {
			t.Errorf("%s: Status in jobstest\n%s\nwant that on a queue\n%s", row.name, got, want)
		}
	}
}

// essence returns what two jobs with the same history have in common.
func essence(s jobs.Status) string {
	line, _, _ := strings.Cut(s.Error, "\n") // without the stack
	text := fmt.Sprintf("%s %v attempt %d snoozes %d key %q owner %q error %q progress %+v started %v",
		s.Queue, s.State, s.Attempt, s.Snoozes, s.Key, s.Owner, line, s.Progress, !s.Started.IsZero())
	for _, l := range s.Log {
		text += fmt.Sprintf("\n  log of %d of %d: %d %s, in time %v", len(s.Log), s.Logged, l.Attempt, l.Text, !l.At.Before(s.Submitted))
	}
	for _, a := range s.History {
		line, _, _ := strings.Cut(a.Error, "\n")
		text += fmt.Sprintf("\n  %d %q %s", a.Attempt, line, a.Class)
	}
	return text
}
