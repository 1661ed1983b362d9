package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// wantDead waits until the queue counts this many dead jobs, and checks that the dead
// list has as many.
func (r *contractRig) wantDead(want int) {
	r.Helper()
	r.eventually("the queue counts its dead jobs", func() bool { return r.counts().Dead == want })
	ctx, cancel := r.soon()
	defer cancel()
	list, err := r.store.List(ctx, jobs.Filter{States: []jobs.State{jobs.StateDead}})
	if err != nil || len(list) != want {
		r.Errorf("the dead list has %d, %v; want %d, the counted number", len(list), err, want)
	}
}

// fails is a handler that fails as its input requests.
func fails(_ context.Context, j *stringJob) (string, error) {
	switch j.Input {
	case "dead":
		return "", errors.New("out of luck")
	case "failed":
		return "", jobs.Permanent(errors.New("never"))
	}
	return j.Input, nil
}

// A dead job is counted from its death until it is retried, dropped, submitted again,
// or expires. Other jobs are not counted.
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

	second := r.work(q, jobs.WorkerOptions{}, fails) // the two jobs that were queued again die once more
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

// A job that dies because its worker is lost is counted, too.
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

// Oldest is the age of the job that has waited longest, whatever came after it. It is
// 0 if no job waits.
func TestQueuesTellTheAgeOfTheOldest(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	r.eventually("the queue exists", func() bool {
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
	// The server's time is only known as of its last response. So an age may be too
	// small for a moment, but never too large.
	r.eventually("the age is that of the first job", func() bool {
		if err := r.store.Ping(t.Context()); err != nil {
			t.Fatalf("Ping = %v; want nil", err)
		}
		before := time.Now()
		c := r.counts()
		if most := time.Since(start) + 5*time.Millisecond; c.Oldest > most {
			t.Fatalf("Queues = %+v; want an Oldest of at most %v", c, most)
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
	r.eventually("both jobs are taken", func() bool { c := r.counts(); return c.Taken == 2 && c.Waiting == 0 && c.Oldest == 0 })
}
