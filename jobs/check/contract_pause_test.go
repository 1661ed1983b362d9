package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// J28: of a paused queue no job starts, in any program. Running jobs finish, new jobs
// are accepted, and the pause outlives a restart of the server.
func TestJ28_NothingOfAPausedQueueStarts(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{RetryInitial: 50 * time.Millisecond})
	elsewhere := r.open(jobs.StoreOptions{}) // as another program
	started, let := make(chan struct{}), make(chan struct{})
	var log contractLog
	h := func(ctx context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Input == "running" {
			close(started)
			<-let
		}
		if j.Input == "fails" && j.Attempt == 1 {
			return "", jobs.RetryIn(errors.New("no"), 500*time.Millisecond)
		}
		return j.Input, nil
	}
	r.work(q, jobs.WorkerOptions{}, h)
	r.work(r.queueOn(elsewhere, jobs.QueueOptions{}), jobs.WorkerOptions{}, h)
	running, fails := r.submit(q, "running", jobs.SubmitOptions{}), r.submit(q, "fails", jobs.SubmitOptions{})
	<-started
	r.eventually("an attempt has failed", func() bool { return r.status(fails).State == jobs.StateRetrying })

	ctx, cancel := r.soon()
	defer cancel()
	for range 2 { // again
		if err := elsewhere.Pause(ctx, "q"); err != nil {
			t.Fatalf("Pause = %v; want nil", err)
		}
	}
	waits := r.submit(q, "waits", jobs.SubmitOptions{})
	close(let)
	r.wantResult(running, "running")
	r.work(r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{}), jobs.WorkerOptions{}, h) // a new program
	nothing := func() {
		t.Helper()
		r.pass(time.Second)
		if log.count("waits") != 0 || log.count("fails") != 1 {
			t.Fatalf("%d and %d attempts; want none while the queue is paused", log.count("waits"), log.count("fails")-1)
		}
		if c := r.counts(); !c.Paused {
			t.Errorf("Queues = %+v; want a paused queue", c)
		}
	}
	nothing()
	r.restart()
	nothing()

	r.eventually("the queue is resumed", func() bool { return r.store.Resume(ctx, "q") == nil })
	r.wantResult(waits, "waits")
	r.wantResult(fails, "fails")
	if c := r.counts(); c.Paused {
		t.Errorf("Queues = %+v; want a queue that is not paused", c)
	}
	if err := r.store.Resume(ctx, "q"); err != nil {
		t.Errorf("Resume of a queue that is not paused = %v; want nil", err)
	}
}

// J28: other queues are not affected, and a queue that no program has used cannot be
// paused.
func TestJ28_OnlyThatQueueIsPaused(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	ctx, cancel := r.soon()
	defer cancel()
	other, err := jobs.NewQueue[string, string](ctx, r.store, "other", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Pause(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Submit(ctx, "in", jobs.SubmitOptions{}); err != nil {
		t.Errorf("Submit to a paused queue = %v; want nil", err)
	}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.wantResult(r.submit(q, "in", jobs.SubmitOptions{}), "in")
	for _, name := range []string{"unknown", "a.b"} {
		if err := r.store.Pause(ctx, name); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("Pause(%q) = %v; want %v", name, err, jobs.ErrNotFound)
		}
		if err := r.store.Resume(ctx, name); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("Resume(%q) = %v; want %v", name, err, jobs.ErrNotFound)
		}
	}
}
