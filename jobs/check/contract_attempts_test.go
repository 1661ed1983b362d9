package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// J1: Accepted means durable at a named level: process, disk, majority. The handle
// says which, and an accepted job is still there after a restart of the server.
func TestJ1AnAcceptedJobIsDurableAtANamedLevel(t *testing.T) {
	for _, level := range []jobs.Durability{jobs.DurabilityProcess, jobs.DurabilityDisk} {
		t.Run(level.String(), func(t *testing.T) {
			r := contractOf(t, level)
			q := r.queue(jobs.QueueOptions{})
			h := r.submit(q, "a", jobs.SubmitOptions{})
			if got := h.Durability(); got != level {
				t.Errorf("Durability of the handle = %v; want %v", got, level)
			}
			if got := r.status(h).Durability; got != level {
				t.Errorf("Status.Durability = %v; want %v", got, level)
			}
			if got := r.store.Durability(); got != level {
				t.Errorf("Durability of the store = %v; want %v", got, level)
			}
			r.restart()
			var log contractLog
			r.work(q, jobs.WorkerOptions{}, log.echo)
			r.wantResult(h, "a")
		})
	}
}

// J2: Execution is at least once. Each attempt has a number, from 1, and a fence that
// is higher than that of the one before.
func TestJ2AttemptsHaveNumbersAndFences(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Attempt < 4 {
			return "", errors.New("not yet")
		}
		return "at last", nil
	})
	h := r.submit(q, "a", jobs.SubmitOptions{Owner: "o", Key: "k"})
	r.wantResult(h, "at last")

	seen := log.all()
	if len(seen) != 4 {
		t.Fatalf("%d attempts; want 4", len(seen))
	}
	for i, j := range seen {
		if j.Attempt != i+1 || j.ID != h.ID() || j.Owner != "o" || j.Key != "k" || j.Queue != "q" || j.Input != "a" {
			t.Errorf("attempt %d is %+v; want number %d of job %s with what was submitted", i+1, j, i+1, h.ID())
		}
		if j.Fence == 0 || i > 0 && j.Fence <= seen[i-1].Fence {
			t.Errorf("attempt %d has fence %d, after fence %d; want a higher one", i+1, j.Fence, seen[max(i-1, 0)].Fence)
		}
	}
	if s := r.status(h); s.Attempt != 4 || s.Fence != seen[3].Fence {
		t.Errorf("Status has attempt %d, fence %d; want 4, %d", s.Attempt, s.Fence, seen[3].Fence)
	}
}

// J3: Only the current fence writes the result, so there is exactly one. Here a
// worker is stopped for longer than its lease, another worker produces the result,
// and then the first returns with its own.
func TestJ3OnlyTheCurrentFenceWritesTheResult(t *testing.T) {
	r := contract(t)
	o := jobs.QueueOptions{Lease: 500 * time.Millisecond, RetryInitial: 10 * time.Millisecond}
	q := r.queue(o)
	paused := r.child(childTask{Do: "work", Lease: o.Lease})
	paused.line("working")
	h := r.submit(q, "a", jobs.SubmitOptions{})
	first := childFence(t, paused.line("attempt 1"))
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	var second contractLog
	r.work(q, jobs.WorkerOptions{}, second.echo)
	r.wantResult(h, "a")
	if j := second.all()[0]; j.Fence <= first || j.Attempt != 2 {
		t.Errorf("the second attempt is number %d with fence %d, after fence %d; want 2 and a higher fence", j.Attempt, j.Fence, first)
	}

	if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(paused.in, "go on")
	paused.line("event dropped")
	r.wantResult(h, "a")
	if s := r.status(h); s.Attempt != 2 || s.State != jobs.StateDone {
		t.Errorf("Status = %+v; want done by attempt 2", s)
	}
}

func childFence(t *testing.T, text string) uint64 {
	t.Helper()
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

// J7: The wait before the next attempt doubles, up to a bound, and a random part of
// up to a fifth is subtracted. A handler can set the wait. TestDelay checks the upper
// bound of each wait, because a busy machine makes the waits here longer.
func TestJ7RetriesWaitLongerEachTimeUpToABound(t *testing.T) {
	r := contract(t)
	const initial, most = 100 * time.Millisecond, 300 * time.Millisecond
	q := r.queue(jobs.QueueOptions{RetryInitial: initial, RetryMax: most, MaxAttempts: 5})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		return "", errors.New("no")
	})
	ctx, cancel := r.soon()
	defer cancel()
	wants := map[int]time.Duration{1: initial, 2: 2 * initial, 3: most, 4: most} // by the number of the previous attempt
	seen := 0
	for s, err := range r.submit(q, "a", jobs.SubmitOptions{}).Watch(ctx) {
		if err != nil {
			t.Fatalf("Watch yields %v; want none", err)
		}
		if n := len(s.History); s.State == jobs.StateRetrying {
			seen++
			if d := s.NotBefore.Sub(s.History[n-1].Ended); d < wants[n]*4/5-10*time.Millisecond {
				t.Errorf("planned wait after attempt %d = %v; want %v to %v", n, d, wants[n]*4/5, wants[n])
			}
		}
	}
	if seen == 0 {
		t.Error("Watch did not show the job waiting for an attempt")
	}
	if len(log.at) != 5 {
		t.Fatalf("%d attempts; want 5", len(log.at))
	}
	for n, want := range wants {
		if d := log.at[n].Sub(log.at[n-1]); d < want*4/5 {
			t.Errorf("wait after attempt %d = %v; want at least %v", n, d, want*4/5)
		}
	}
}

func TestJ7AHandlerCanSetTheWait(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{RetryInitial: time.Hour, RetryMax: time.Hour})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Attempt == 1 {
			return "", jobs.RetryIn(errors.New("busy"), 300*time.Millisecond)
		}
		return "done", nil
	})
	r.wantResult(r.submit(q, "a", jobs.SubmitOptions{}), "done")
	if d := log.at[1].Sub(log.at[0]); d < 295*time.Millisecond {
		t.Errorf("the second attempt began %v after the first; want at least 300ms", d)
	}
}

// J8: Permanent errors are not retried.
func TestJ8PermanentErrorsAreNotRetried(t *testing.T) {
	broken, absent := errors.New("broken"), errors.New("absent")
	for name, failure := range map[string]error{
		"by Permanent": jobs.Permanent(errors.New("wrong")), "by its class": broken, "by the class not found": absent,
		"wrapped": fmt.Errorf("outside: %w", jobs.Permanent(errors.New("inside"))),
	} {
		t.Run(name, func(t *testing.T) {
			r := contract(t)
			q := r.queue(jobs.QueueOptions{Classify: func(err error) weir.Class {
				switch {
				case errors.Is(err, broken):
					return weir.ClassPermanent
				case errors.Is(err, absent):
					return weir.ClassNotFound
				}
				return weir.ClassTransient
			}})
			var log contractLog
			r.work(q, jobs.WorkerOptions{Name: "w"}, func(_ context.Context, j *stringJob) (string, error) { log.add(j); return "", failure })
			h := r.submit(q, "a", jobs.SubmitOptions{})
			if e := r.wantError(h, jobs.StateFailed); e.Attempt != 1 || !strings.Contains(e.Message, failure.Error()) {
				t.Errorf("the error is %+v; want attempt 1 and %q", e, failure)
			}
			if n := log.count("a"); n != 1 {
				t.Errorf("%d attempts; want 1", n)
			}
		})
	}
}

// J10: The job of a dead worker starts again within the lease.
func TestJ10ADeadWorkersJobStartsAgainWithinTheLease(t *testing.T) {
	r := contract(t)
	o := jobs.QueueOptions{Lease: 2 * time.Second, RetryInitial: 10 * time.Millisecond}
	q := r.queue(o)
	victim := r.child(childTask{Do: "work", Lease: o.Lease})
	victim.line("working")
	h := r.submit(q, "a", jobs.SubmitOptions{})
	first := childFence(t, victim.line("attempt 1"))
	r.pass(o.Lease * 3 / 2) // so that only its heartbeat keeps it alive
	victim.kill()
	died := time.Now()

	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.wantResult(h, "a")
	j := log.all()[0]
	if j.Attempt != 2 || j.Fence <= first {
		t.Errorf("the next attempt is number %d with fence %d, after fence %d; want 2 and a higher fence", j.Attempt, j.Fence, first)
	}
	// The job waits for the lease to expire; the rest is the time that a busy machine
	// may take to start it.
	if took := log.at[0].Sub(died); took > o.Lease+patience/3 {
		t.Errorf("it started %v after the death; want within the lease of %v and a moment", took, o.Lease)
	}
	if s := r.status(h); len(s.History) != 1 {
		t.Errorf("the History is %+v; want the attempt that died", s.History)
	}
}

// J11: However long a job runs, it is not started again while its worker is alive.
func TestJ11ALongJobRunsOnce(t *testing.T) {
	r := contract(t)
	o := jobs.QueueOptions{Lease: 3 * time.Second}
	var log contractLog
	long := func(ctx context.Context, j *stringJob) (string, error) {
		log.add(j)
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(o.Lease * 5 / 2):
			return "done", nil
		}
	}
	q := r.queue(o)
	for range 2 {
		r.work(r.queueOn(r.open(jobs.StoreOptions{}), o), jobs.WorkerOptions{}, long)
	}
	h := r.submit(q, "a", jobs.SubmitOptions{})
	r.wantResult(h, "done")
	if n := log.count("a"); n != 1 {
		t.Errorf("%d attempts of a job that took two leases and a half; want 1", n)
	}
}

// J18: A graceful stop waits for running attempts, or hands their jobs back without
// counting the attempt.
func TestJ18AStopWaitsForWhatRuns(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	begun, goOn := make(chan bool), make(chan bool)
	w := r.work(q, jobs.WorkerOptions{Concurrency: 1}, func(ctx context.Context, j *stringJob) (string, error) {
		begun <- true
		select {
		case <-goOn:
			return "finished", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	<-begun
	later := r.submit(q, "b", jobs.SubmitOptions{})
	stopped := make(chan error)
	go func() { ctx, cancel := r.soon(); defer cancel(); stopped <- w.Close(ctx) }()
	select {
	case err := <-stopped:
		t.Fatalf("Stop = %v while an attempt was running; want it to wait", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(goOn)
	if err := <-stopped; err != nil {
		t.Errorf("Stop = %v; want nil", err)
	}
	r.wantResult(h, "finished")
	if s := r.status(later); s.State != jobs.StateQueued || s.Attempt != 0 {
		t.Errorf("a job that was not started is %v, attempt %d; want queued, 0", s.State, s.Attempt)
	}
	if err := w.Close(context.Background()); err != nil {
		t.Errorf("Stop again = %v; want nil", err)
	}
}

func TestJ18AStopWithoutTimeHandsBack(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{Lease: time.Minute, MaxAttempts: 2})
	begun, cause := make(chan uint64, 1), make(chan error, 1)
	w := r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		begun <- j.Fence
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	first := <-begun
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v; want the context's error", err)
	}
	if err := <-cause; !errors.Is(err, jobs.ErrStopping) {
		t.Errorf("the attempt's cause is %v; want %v", err, jobs.ErrStopping)
	}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Attempt == 2 {
			return "", errors.New("not yet")
		}
		return j.Input, nil
	})
	// The job runs again at once: the lease is longer than this test waits. And
	// although MaxAttempts is two, three attempts are possible, because one does not
	// count.
	r.wantResult(h, "a")
	if j := log.all()[0]; j.Attempt != 2 || j.Fence <= first {
		t.Errorf("after the hand-back: attempt %d with fence %d, after fence %d; want 2 and a higher fence", j.Attempt, j.Fence, first)
	}
}

// A handler that has not begun hands its job back, even if only one attempt is
// allowed.
func TestJ18AHandlerThatHasNotBegunHandsBack(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1, RetryInitial: 10 * time.Millisecond})
	var calls atomic.Int32
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		if calls.Add(1) < 3 {
			return "", jobs.NotBegun(errors.New("no room"))
		}
		return j.Input, nil
	})
	r.wantResult(r.submit(q, "a", jobs.SubmitOptions{}), "a")
}

// A handler that ignores its context loses its job.
func TestJ18AStopHandsBackWhatDoesNotEnd(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{Lease: time.Minute, MaxAttempts: 2})
	begun, release := make(chan bool, 1), make(chan bool)
	defer close(release)
	w := r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		begun <- true
		<-release
		return "too late", nil
	})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v; want the context's error", err)
	}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.wantResult(h, "a")
	if j := log.all()[0]; j.Attempt != 2 {
		t.Errorf("after the hand-back: attempt %d; want 2", j.Attempt)
	}
}

// Majority: a cluster stores each job on most of its servers, and continues without
// one of them.
func TestJ1AMajorityOutlivesAServer(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	// An election can take nine seconds, which is longer than the default Timeout.
	store, err := jobs.Open(ctx, cluster.Connect(), jobs.StoreOptions{Replicas: 3, MaxBytes: 64 << 20, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(context.Background()) })
	r := &contractRig{T: t, store: store}
	q := r.queue(jobs.QueueOptions{})
	var handles []*stringHandle
	for range 20 {
		handles = append(handles, r.submit(q, "a", jobs.SubmitOptions{}))
	}
	if got := handles[0].Durability(); got != jobs.DurabilityMajority {
		t.Errorf("Durability of the handle = %v; want majority", got)
	}
	goOn := make(chan bool)
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		select {
		case <-goOn:
			return j.Input, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	cluster.Server(0).Kill()
	close(goOn)
	for _, h := range handles {
		if got, err := h.Wait(ctx); got != "a" || err != nil {
			t.Fatalf("Wait without one of three servers = %q, %v; want the result", got, err)
		}
	}
}
