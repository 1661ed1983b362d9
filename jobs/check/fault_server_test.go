package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// submitUntil submits a job with a key again and again, until the job is known to be
// stored.
func submitUntil(ctx context.Context, q *faultQueue, key string) (*faultHandle, error) {
	for {
		h, err := q.Submit(ctx, key, jobs.SubmitOptions{Key: key})
		if !errors.Is(err, jobs.ErrUnavailable) {
			return h, err
		}
	}
}

func TestFaultServerKilledAgainAndAgain(t *testing.T) {
	for _, level := range []jobs.Durability{jobs.DurabilityProcess, jobs.DurabilityDisk} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, natstest.Options{Sync: level == jobs.DurabilityDisk})
			o := jobs.StoreOptions{Timeout: time.Second, Durability: level}
			// This test is not about how often an attempt can be lost.
			queue := jobs.QueueOptions{Lease: time.Second, MaxAttempts: 100}
			submits := faultNewQueue(t, faultStore(t, server.Connect(), o), queue)
			works := faultNewQueue(t, faultStore(t, server.Connect(), o), queue)
			faultWork(t, works, jobs.WorkerOptions{}, func(ctx context.Context, j *faultJob) (string, error) {
				select { // so that some attempts run when the server is killed
				case <-ctx.Done():
					return "", context.Cause(ctx)
				case <-time.After(20 * time.Millisecond):
				}
				return fmt.Sprintf("of %s", j.Input), nil
			})

			const submitters, each = 6, 40
			ctx, cancel := context.WithTimeout(t.Context(), 4*faultPatience)
			defer cancel()
			var all sync.WaitGroup
			for i := range submitters {
				all.Go(func() {
					for n := range each {
						key := fmt.Sprintf("%d-%d", i, n)
						h, err := submitUntil(ctx, submits, key)
						if err != nil {
							t.Errorf("Submit(%s) = %v; want a job", key, err)
							return
						}
						// Wait must succeed whatever happens to the server.
						if got, err := h.Wait(ctx); got != "of "+key || err != nil {
							t.Errorf("Wait(%s) = %q, %v; want %q, nil", key, got, err, "of "+key)
						}
					}
				})
			}
			ended := make(chan struct{})
			go func() { all.Wait(); close(ended) }()
			kills := 0
			for over := false; !over; {
				select {
				case <-ended:
					over = true
				case <-time.After(300 * time.Millisecond):
					if kills < 4 {
						kills++
						server.Restart()
					}
				}
			}
			if kills == 0 {
				t.Error("all jobs were over before the server was killed; want it killed earlier")
			}
			faultWantIdle(t, faultStore(t, server.Connect(), o))
		})
	}
}

func TestFaultServerPaused(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	o := jobs.StoreOptions{Timeout: time.Second}
	q := faultNewQueue(t, faultStore(t, server.Connect(), o), jobs.QueueOptions{Lease: time.Second})
	running := make(chan int, 10)
	causes := make(chan error, 10)
	go1 := make(chan struct{})
	faultWork(t, faultNewQueue(t, faultStore(t, server.Connect(), jobs.StoreOptions{}), jobs.QueueOptions{}), jobs.WorkerOptions{},
		func(ctx context.Context, j *faultJob) (string, error) {
			if j.Input != "long" {
				return "of " + j.Input, nil
			}
			running <- j.Attempt
			if j.Attempt == 1 {
				select {
				case <-ctx.Done():
					causes <- context.Cause(ctx)
				case <-go1:
					causes <- nil
				}
			}
			return fmt.Sprint("of attempt ", j.Attempt), nil
		})
	long := faultSubmit(t, q, "long", jobs.SubmitOptions{Key: "long"})
	<-running

	server.Pause()
	began := time.Now()
	_, err := q.Submit(t.Context(), "short", jobs.SubmitOptions{Key: "short"})
	if took := time.Since(began); !errors.Is(err, jobs.ErrUnavailable) || took > 10*time.Second {
		t.Errorf("Submit to a paused server = %v after %v; want %v after Timeout, %v", err, took, jobs.ErrUnavailable, o.Timeout)
	}
	if _, err := long.Status(t.Context()); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("Status at a paused server = %v; want %v", err, jobs.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := q.Submit(ctx, "short", jobs.SubmitOptions{Key: "short"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Submit with a deadline of its own = %v; want %v", err, context.DeadlineExceeded)
	}
	if _, err := long.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait at a paused server = %v; want %v", err, context.DeadlineExceeded)
	}
	// After the lease, it is unknown whether the attempt still has its job.
	if cause := <-causes; !errors.Is(cause, jobs.ErrLeaseLost) {
		t.Errorf("cause of the attempt's context = %v; want %v", cause, jobs.ErrLeaseLost)
	}
	server.Continue()

	faultWantResult(t, long, "of attempt 2")
	h, err := submitUntil(t.Context(), q, "short")
	if err != nil {
		t.Fatal(err)
	}
	faultWantResult(t, h, "of short")
	if n := len(running); n != 1 {
		t.Errorf("%d attempts after the first; want 1", n)
	}
}

func TestFaultConnectionCutForAMoment(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	proxy := newFaultProxy(t, server.URL())
	q := faultNewQueue(t, faultStore(t, proxy.connect(t), jobs.StoreOptions{}), jobs.QueueOptions{})
	running, end := make(chan struct{}, 10), make(chan struct{})
	faultWork(t, q, jobs.WorkerOptions{}, func(ctx context.Context, j *faultJob) (string, error) {
		running <- struct{}{}
		select {
		case <-end:
			return "of " + j.Input, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	h := faultSubmit(t, q, "a", jobs.SubmitOptions{})
	<-running
	proxy.Cut()
	proxy.Mend()
	proxy.Cut()
	close(end) // there is no server for the result
	<-time.After(200 * time.Millisecond)
	proxy.Mend()
	faultWantResult(t, h, "of a")
	if st := faultStatus(t, h); st.Attempt != 1 {
		t.Errorf("Attempt = %d; want 1", st.Attempt)
	}
	faultWantResult(t, faultSubmit(t, q, "b", jobs.SubmitOptions{}), "of b")
}

func TestFaultWorkerCutOffLosesItsLease(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{})
	proxy := newFaultProxy(t, server.URL())
	o := jobs.StoreOptions{Timeout: time.Second}
	cutOff := faultNewQueue(t, faultStore(t, proxy.connect(t), o), jobs.QueueOptions{Lease: 2 * time.Second})
	q := faultNewQueue(t, faultStore(t, server.Connect(), o), jobs.QueueOptions{})

	running := make(chan uint64, 10)
	causes := make(chan error, 10)
	late := make(chan struct{})
	lost := faultWork(t, cutOff, jobs.WorkerOptions{}, func(ctx context.Context, j *faultJob) (string, error) {
		running <- j.Fence
		<-ctx.Done()
		causes <- context.Cause(ctx)
		<-late // returns a result all the same
		return "of the one that was cut off", nil
	})
	h := faultSubmit(t, q, "a", jobs.SubmitOptions{Key: "a"})
	fence := <-running
	proxy.Cut()
	faultWork(t, q, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
		if j.Fence <= fence {
			t.Errorf("Fence of the second attempt = %d; want more than %d", j.Fence, fence)
		}
		return "of the other", nil
	})
	if cause := <-causes; !errors.Is(cause, jobs.ErrLeaseLost) {
		t.Errorf("cause of the context of the attempt that was cut off = %v; want %v", cause, jobs.ErrLeaseLost)
	}
	faultWantResult(t, h, "of the other")
	proxy.Mend()
	close(late)
	faultEventually(t, "the late result is dropped", func() bool { return lost.Stats().Dropped == 1 })
	faultWantResult(t, h, "of the other")
	if st := faultStatus(t, h); st.Attempt != 2 || st.Fence <= fence {
		t.Errorf("Attempt %d, Fence %d; want 2, more than %d", st.Attempt, st.Fence, fence)
	}
}
