package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// submitUntilFull submits until it is rejected. It pauses now and then, so that the
// bounds are checked. It returns how many jobs were accepted.
func (r *contractRig) submitUntilFull(q *stringQueue, in string, most int) (int, *jobs.FullError) {
	r.Helper()
	for n := range most {
		ctx, cancel := r.soon()
		_, err := q.Submit(ctx, in, jobs.SubmitOptions{})
		cancel()
		var full *jobs.FullError
		if errors.As(err, &full) {
			return n, full
		}
		if err != nil {
			r.Fatalf("Submit = %v; want nil or a *FullError", err)
		}
		r.pass(20 * time.Millisecond)
	}
	r.Fatalf("%d jobs were accepted; want a rejection", most)
	return 0, nil
}

func (r *contractRig) counts() jobs.QueueStatus {
	r.Helper()
	ctx, cancel := r.soon()
	defer cancel()
	all, err := r.store.Queues(ctx)
	if err != nil || len(all) != 1 {
		r.Fatalf("Queues = %+v, %v; want one queue", all, err)
	}
	return all[0]
}

// wantWaiting waits until the queue counts this many jobs that no worker has taken.
// The server counts a job a moment after it has accepted it.
func (r *contractRig) wantWaiting(want int) {
	r.Helper()
	var c jobs.QueueStatus
	r.eventually(fmt.Sprintf("%d jobs wait", want), func() bool { c = r.counts(); return c.Waiting >= want })
	if c.Waiting != want || c.Taken != 0 {
		r.Errorf("Queues = %+v; want %d waiting, none taken", c, want)
	}
}

func (r *contractRig) wantFull(e *jobs.FullError, reason jobs.FullReason) {
	r.Helper()
	if e.Reason != reason || e.Queue != "q" || !errors.Is(e, jobs.ErrFull) {
		r.Errorf("the rejection is %+v; want %q for q, matching %v", e, reason, jobs.ErrFull)
	}
	if e.RetryAfter < time.Second || e.RetryAfter > 10*time.Second {
		r.Errorf("RetryAfter = %v; want 1 s to 10 s", e.RetryAfter)
	}
}

// J17: Queue length and age, and the store, have limits. Beyond them Submit fails
// with a time to wait, and stores nothing of the job.
func TestJ17AFullQueueRefuses(t *testing.T) {
	r := contract(t)
	const most = 10
	q := r.queue(jobs.QueueOptions{MaxQueued: most})
	accepted, full := r.submitUntilFull(q, "a", 5*most)
	r.wantFull(full, jobs.FullLength)
	if accepted < most || accepted > 2*most {
		t.Errorf("%d jobs were accepted; want at least %d, and at most those of another 100 ms", accepted, most)
	}
	r.wantWaiting(accepted) // nothing is stored of rejected jobs
	if s := q.Stats(); s.Refused == 0 || s.Submitted != uint64(accepted) {
		t.Errorf("Stats = %+v; want %d submitted, and some rejected", s, accepted)
	}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.eventually("a job is accepted again", func() bool {
		ctx, cancel := r.soon()
		defer cancel()
		_, err := q.Submit(ctx, "b", jobs.SubmitOptions{})
		return err == nil
	})
	r.eventually("all jobs are done", func() bool { c := r.counts(); return c.Waiting+c.Taken == 0 })
	if n := log.count("a"); n != accepted {
		t.Errorf("%d jobs ran; want %d", n, accepted)
	}
}

func TestJ17AnOldQueueRefuses(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAge: 300 * time.Millisecond})
	_, full := r.submitUntilFull(q, "a", 200)
	r.wantFull(full, jobs.FullAge)
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.eventually("a job is accepted again", func() bool {
		ctx, cancel := r.soon()
		defer cancel()
		_, err := q.Submit(ctx, "b", jobs.SubmitOptions{})
		return err == nil
	})
}

func TestJ17AFullStoreRefuses(t *testing.T) {
	r := contract(t)
	store := r.open(jobs.StoreOptions{Namespace: "small", MaxBytes: 2 << 20})
	q := r.queueOn(store, jobs.QueueOptions{})
	accepted, full := r.submitUntilFull(q, strings.Repeat("x", 100<<10), 100)
	r.wantFull(full, jobs.FullStore)
	if accepted < 10 || accepted > 20 {
		t.Errorf("%d jobs of 100 KiB were accepted; want nine tenths of 2 MiB", accepted)
	}
	// Accepted jobs still get their results.
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		return "small", nil
	})
	r.eventually("all jobs are done", func() bool { return len(log.all()) >= accepted })
	ctx, cancel := r.soon()
	defer cancel()
	r.eventually("each job has its result", func() bool {
		done, err := store.List(ctx, jobs.Filter{States: []jobs.State{jobs.StateDone}})
		return err == nil && len(done) == accepted
	})
}

// J19: A worker hands an input of a newer version back, for a newer worker. It
// decodes older inputs.
func TestJ19ANewerInputIsHandedBack(t *testing.T) {
	r := contract(t)
	old, next := r.queue(jobs.QueueOptions{Version: 1}), r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{Version: 2})
	var oldLog, nextLog contractLog
	handed := make(chan string, 1000)
	r.work(old, jobs.WorkerOptions{Observer: onEvent{event: func(e jobs.Event) {
		if e.Kind == jobs.EventHandedBack {
			handed <- e.ID
		}
	}}}, oldLog.echo)
	h := r.submit(next, "new", jobs.SubmitOptions{})
	select {
	case id := <-handed:
		if id != h.ID() {
			t.Errorf("job %s was handed back; want %s", id, h.ID())
		}
	case <-time.After(patience):
		t.Fatalf("after %v nothing was handed back", patience)
	}
	r.wantResult(r.submit(old, "old", jobs.SubmitOptions{}), "old") // the newer job does not block it
	if n := oldLog.count("new"); n != 0 {
		t.Errorf("the older worker's handler ran %d times for a newer input; want 0", n)
	}
	if s := r.status(h); s.Attempt != 0 || s.State != jobs.StateQueued {
		t.Errorf("the newer job is %v, attempt %d; want queued, 0: a hand-back does not count as an attempt", s.State, s.Attempt)
	}
	r.work(next, jobs.WorkerOptions{}, nextLog.echo)
	r.wantResult(h, "new")
	if s := r.status(h); s.Attempt != 1 {
		t.Errorf("the newer job is done by attempt %d; want 1", s.Attempt)
	}
}

func TestJ19AnOlderInputIsDecodedByItsVersion(t *testing.T) {
	r := contract(t)
	h := r.submit(r.queue(jobs.QueueOptions{Version: 1}), "a", jobs.SubmitOptions{})
	versions := make(chan int, 1)
	codec := jobs.JSON[string]()
	decode := codec.Decode
	codec.Decode = func(data []byte, version int) (string, error) {
		versions <- version
		return decode(data, version)
	}
	newer := r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{Version: 2})
	var log contractLog
	r.work(newer.WithCodecs(codec, jobs.JSON[string]()), jobs.WorkerOptions{}, log.echo)
	r.wantResult(h, "a")
	if v := <-versions; v != 1 {
		t.Errorf("Decode got version %d; want 1", v)
	}
}

// J21: A job's input, its result and the time of an attempt are bounded. A panic is
// an error.
func TestJ21TooLargeAnInputIsRefused(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxInput: 100})
	ctx, cancel := r.soon()
	defer cancel()
	if _, err := q.Submit(ctx, strings.Repeat("x", 99), jobs.SubmitOptions{}); !errors.Is(err, jobs.ErrTooLarge) {
		t.Errorf("Submit of 101 bytes = %v; want %v", err, jobs.ErrTooLarge)
	}
	r.submit(q, strings.Repeat("x", 98), jobs.SubmitOptions{})
	r.wantWaiting(1) // the job that is not too large
}

func TestJ21TooLargeAResultFailsTheJob(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxResult: 100})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		return strings.Repeat("x", 1000), nil
	})
	if e := r.wantError(r.submit(q, "a", jobs.SubmitOptions{}), jobs.StateFailed); !strings.Contains(e.Message, jobs.ErrTooLarge.Error()) {
		t.Errorf("the error is %q; want %v", e.Message, jobs.ErrTooLarge)
	}
	if n := log.count("a"); n != 1 {
		t.Errorf("%d attempts; want 1", n)
	}
}

func TestJ21AHandlerThatNeverReturnsHoldsUpNobody(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{AttemptTimeout: 200 * time.Millisecond, MaxAttempts: 2, Lease: time.Minute})
	cause, release := make(chan error, 10), make(chan bool)
	defer close(release)
	var log contractLog
	r.work(q, jobs.WorkerOptions{Concurrency: 3}, func(ctx context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Input == "good" {
			return "good", nil
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		<-release
		return "never", nil
	})
	h := r.submit(q, "bad", jobs.SubmitOptions{})
	if e := r.wantError(h, jobs.StateDead); !strings.Contains(e.Message, jobs.ErrTimeout.Error()) || e.Attempt != 2 {
		t.Errorf("the error is %+v; want %v after 2 attempts", e, jobs.ErrTimeout)
	}
	if err := <-cause; !errors.Is(err, jobs.ErrTimeout) {
		t.Errorf("the attempt's cause is %v; want %v", err, jobs.ErrTimeout)
	}
	r.wantResult(r.submit(q, "good", jobs.SubmitOptions{}), "good")
}
