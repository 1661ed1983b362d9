package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// wantDead waits until the queue counts so many dead jobs, as the dead list has.
func (r *contractRig) wantDead(want int) {
	r.Helper()
	r.eventually("the queue counts its dead", func() bool { return r.counts().Dead == want })
	ctx, cancel := r.soon()
	defer cancel()
	list, err := r.store.List(ctx, jobs.Filter{States: []jobs.State{jobs.StateDead}})
	if err != nil || len(list) != want {
		r.Errorf("the dead list has %d, %v; want %d, as are counted", len(list), err, want)
	}
}

// fails is a handler that fails as its input says.
func fails(_ context.Context, j *stringJob) (string, error) {
	switch j.Input {
	case "dead":
		return "", errors.New("out of luck")
	case "failed":
		return "", jobs.Permanent(errors.New("never"))
	}
	return j.Input, nil
}

// A dead job is counted from its death on, until it is retried, dropped, submitted
// anew, or its time is over. No other is.
func TestQueuesCountTheDead(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 2})
	w := r.work(q, jobs.WorkerOptions{}, fails)
	dead := []*stringHandle{
		r.submit(q, "dead", jobs.SubmitOptions{}), r.submit(q, "dead", jobs.SubmitOptions{}),
		r.submit(q, "dead", jobs.SubmitOptions{Key: "k"}),
	}
	for _, h := range dead {
		r.wantError(h, jobs.StateDead)
	}
	r.wantError(r.submit(q, "failed", jobs.SubmitOptions{}), jobs.StateFailed)
	r.wantResult(r.submit(q, "done", jobs.SubmitOptions{}), "done")
	r.wantDead(3)
	want := jobs.WorkerStats{Started: 8, Succeeded: 1, Retried: 3, Ended: 4, Failed: 1, Dead: 3}
	// An outcome is counted a moment after others can read it.
	r.eventually(fmt.Sprintf("the Worker's Stats are %+v", want), func() bool { return w.Stats() == want })

	ctx, cancel := r.soon()
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatalf("Stop = %v; want nil", err)
	}
	if err := r.store.Retry(ctx, "q", dead[0].ID()); err != nil {
		t.Fatalf("Retry = %v; want nil", err)
	}
	r.wantDead(2)
	if err := r.store.Drop(ctx, "q", dead[1].ID()); err != nil {
		t.Fatalf("Drop = %v; want nil", err)
	}
	r.wantDead(1)
	r.submit(q, "dead", jobs.SubmitOptions{Key: "k"})
	r.wantDead(0)

	second := r.work(q, jobs.WorkerOptions{}, fails) // the two that are queued again die once more
	r.wantDead(2)
	r.eventually("the Store adds up both Workers", func() bool {
		return r.store.WorkerStats()["q"] == want.With(second.Stats())
	})
}

func TestQueuesCountTheDeadUntilTheirTime(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1, DeadTTL: 6 * time.Second, Lease: time.Second})
	r.work(q, jobs.WorkerOptions{}, fails)
	r.wantError(r.submit(q, "dead", jobs.SubmitOptions{}), jobs.StateDead)
	r.wantDead(1)
	r.wantDead(0)
}

// A job that dies with its worker is counted too.
func TestQueuesCountTheDeadOfAWorkerThatIsLost(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1, Lease: time.Second})
	h := r.submit(q, "hang", jobs.SubmitOptions{})
	child := r.child(childTask{Do: "work", Lease: time.Second})
	r.eventually("it runs", func() bool { return r.status(h).State == jobs.StateRunning })
	child.kill()
	r.work(q, jobs.WorkerOptions{}, fails)
	r.wantError(h, jobs.StateDead)
	r.wantDead(1)
}

// Oldest is the age of the job that has waited longest, whatever came after it,
// and nothing where none waits.
func TestQueuesTellTheAgeOfTheOldest(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	r.eventually("there is the queue", func() bool {
		ctx, cancel := r.soon()
		defer cancel()
		all, err := r.store.Queues(ctx)
		return err == nil && len(all) == 1
	})
	if c := r.counts(); c != (jobs.QueueStatus{Queue: "q"}) {
		t.Errorf("Queues = %+v; want an empty queue without an age", c)
	}
	start := time.Now()
	r.submit(q, "a", jobs.SubmitOptions{})
	submitted := time.Now()
	r.pass(50 * time.Millisecond)
	r.submit(q, "b", jobs.SubmitOptions{})
	r.wantWaiting(2)
	// What is known here of the server's clock is as old as an answer took to come, so
	// an age may be too little, for once, and never too much.
	r.eventually("the age is that of the first", func() bool {
		if err := r.store.Ping(t.Context()); err != nil {
			t.Fatalf("Ping = %v; want nil", err)
		}
		before := time.Now()
		c := r.counts()
		if most := time.Since(start) + 5*time.Millisecond; c.Oldest > most {
			t.Fatalf("Queues = %+v; want the oldest for %v at most", c, most)
		}
		return c.Oldest >= before.Sub(submitted)-30*time.Millisecond
	})
	blocked := make(chan struct{})
	t.Cleanup(func() { close(blocked) })
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		select {
		case <-blocked:
		case <-ctx.Done():
		}
		return "", nil
	})
	r.eventually("both are taken", func() bool { c := r.counts(); return c.Taken == 2 && c.Waiting == 0 && c.Oldest == 0 })
}
