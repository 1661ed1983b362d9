package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// Join finds the job that Submit would join, and submits nothing.
func TestJ4_JoinAcceptsNothing(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	join := func(in string, o jobs.SubmitOptions) (*stringHandle, error) {
		ctx, cancel := r.soon()
		defer cancel()
		return q.Join(ctx, in, o)
	}
	for _, o := range []jobs.SubmitOptions{{}, {Key: "k"}} {
		if h, err := join("a", o); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("Join(%+v) before there is a job = %v, %v; want ErrNotFound", o, h, err)
		}
	}
	h := r.submit(q, "a", jobs.SubmitOptions{Key: "k"})
	failed := r.submit(q, "failed", jobs.SubmitOptions{Key: "failed"})
	wantJoined := func(in string, o jobs.SubmitOptions, want *stringHandle) {
		t.Helper()
		if got, err := join(in, o); err != nil || got.ID() != want.ID() || !got.Joined() {
			t.Errorf("Join(%q, %+v) = %v, %v; want the job", in, o, got, err)
		}
	}
	wantJoined("a", jobs.SubmitOptions{Key: "k"}, h)
	if _, err := join("b", jobs.SubmitOptions{Key: "k"}); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("Join with another input = %v; want ErrConflict", err)
	}
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		if j.Input == "failed" {
			return "", jobs.Permanent(errors.New("no"))
		}
		return j.Input, nil
	})
	r.wantResult(h, "a")
	r.wantError(failed, jobs.StateFailed)
	wantJoined("a", jobs.SubmitOptions{Key: "k"}, h)
	if _, err := join("a", jobs.SubmitOptions{Key: "k", Restart: true}); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("Join with Restart for a job that is done = %v; want ErrNotFound", err)
	}
	if _, err := join("failed", jobs.SubmitOptions{Key: "failed"}); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("Join for a job that failed = %v; want ErrNotFound: its key is free", err)
	}
	wantJoined("failed", jobs.SubmitOptions{Key: "failed", Once: true}, failed)
	if s := q.Stats(); s.Submitted != 2 || s.Joined != 3 {
		t.Errorf("Stats = %+v; want 2 submitted and 3 joined", s)
	}
}

// Jobs are counted by state, without being read.
func TestJ12_JobsOfAQueueAreCounted(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	var all []*stringHandle
	for _, in := range []string{"done", "done", "failed", "dead"} {
		all = append(all, r.submit(q, in, jobs.SubmitOptions{}))
	}
	goOn := make(chan bool)
	r.work(q, jobs.WorkerOptions{Concurrency: 8}, func(ctx context.Context, j *stringJob) (string, error) {
		switch j.Input {
		case "failed":
			return "", jobs.Permanent(errors.New("no"))
		case "dead":
			return "", errors.New("no")
		case "running":
			<-goOn
		}
		return j.Input, nil
	})
	defer close(goOn)
	for _, h := range all {
		_, _ = r.wait(h) // some jobs end with an error
	}
	r.submit(q, "running", jobs.SubmitOptions{})
	for range 3 {
		r.submit(q, "queued", jobs.SubmitOptions{Delay: time.Hour})
	}
	want := jobs.Count{Queued: 3, Started: 1, Dead: 1, Finished: 3}
	var got jobs.Count
	defer func() {
		if t.Failed() {
			t.Logf("Count = %+v; want %+v", got, want)
		}
	}()
	r.eventually("the jobs are counted", func() bool {
		ctx, cancel := r.soon()
		defer cancel()
		var err error
		if got, err = r.store.Count(ctx, "q"); err != nil {
			t.Fatalf("Count = %v; want nil", err)
		}
		return got == want
	})
	for _, queue := range []string{"other", "a.b", "*"} {
		if got, err := r.store.Count(t.Context(), queue); got != (jobs.Count{}) || err != nil {
			t.Errorf("Count(%q) = %+v, %v; want nothing", queue, got, err)
		}
	}
}
