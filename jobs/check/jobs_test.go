package jobs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// open returns a Store on a new server.
func open(t testing.TB, o jobs.StoreOptions) *jobs.Store {
	t.Helper()
	srv, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityDisk})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	o.Durability = srv.Durability()
	s, err := jobs.Open(t.Context(), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close(context.Background())
		nc.Close()
		srv.Close(context.Background())
	})
	return s
}

func queue[In, Out any](t testing.TB, s *jobs.Store, name string, o jobs.QueueOptions) *jobs.Queue[In, Out] {
	t.Helper()
	q, err := jobs.NewQueue[In, Out](t.Context(), s, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func work[In, Out any](t testing.TB, q *jobs.Queue[In, Out], h jobs.Handler[In, Out], o jobs.WorkerOptions) *jobs.Worker {
	t.Helper()
	w, err := q.Work(h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		w.Close(ctx)
	})
	return w
}

func TestSubmitAndWait(t *testing.T) {
	q := queue[int, int](t, open(t, jobs.StoreOptions{}), "double", jobs.QueueOptions{})
	work(t, q, func(_ context.Context, job *jobs.Job[int]) (int, error) {
		if job.Attempt != 1 || job.Fence == 0 {
			t.Errorf("attempt %d with fence %d; want attempt 1, a fence above 0", job.Attempt, job.Fence)
		}
		return 2 * job.Input, nil
	}, jobs.WorkerOptions{})
	h, err := q.Submit(t.Context(), 21, jobs.SubmitOptions{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Wait(t.Context()); got != 42 || err != nil {
		t.Errorf("Wait = %v, %v; want 42", got, err)
	}
	again, err := q.Submit(t.Context(), 21, jobs.SubmitOptions{Key: "k"})
	if err != nil || !again.Joined() || again.ID() != h.ID() {
		t.Errorf("second Submit = %v, %v; want the same job", again, err)
	}
	if _, err := q.Submit(t.Context(), 22, jobs.SubmitOptions{Key: "k"}); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("Submit of another input = %v; want ErrConflict", err)
	}
}

func TestRetryThenDead(t *testing.T) {
	s := open(t, jobs.StoreOptions{})
	q := queue[int, int](t, s, "fails", jobs.QueueOptions{MaxAttempts: 3, RetryInitial: time.Millisecond})
	var calls atomic.Int32
	work(t, q, func(context.Context, *jobs.Job[int]) (int, error) {
		if calls.Add(1) == 2 {
			panic("second")
		}
		return 0, errors.New("no luck")
	}, jobs.WorkerOptions{})
	h, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Wait(t.Context())
	var failed *jobs.JobError
	if !errors.As(err, &failed) || failed.State != jobs.StateDead || failed.Attempt != 3 {
		t.Fatalf("Wait = %v; want a dead job after 3 attempts", err)
	}
	dead, err := s.List(t.Context(), jobs.Filter{States: []jobs.State{jobs.StateDead}})
	if err != nil || len(dead) != 1 || len(dead[0].History) != 3 {
		t.Fatalf("List = %+v, %v; want one job with three attempts", dead, err)
	}
	if err := s.Retry(t.Context(), "fails", h.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Wait(t.Context()); !errors.As(err, &failed) || calls.Load() != 6 {
		t.Errorf("after Retry: Wait = %v after %d calls; want a dead job after 6", err, calls.Load())
	}
}

func TestCancelRunning(t *testing.T) {
	s := open(t, jobs.StoreOptions{})
	q := queue[int, int](t, s, "long", jobs.QueueOptions{})
	cause := make(chan error, 1)
	work(t, q, func(ctx context.Context, job *jobs.Job[int]) (int, error) {
		job.Progress(jobs.Progress{Done: 1, Total: 2})
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return 1, nil
	}, jobs.WorkerOptions{})
	h, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for st, err := range h.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if st.Progress != nil {
			break
		}
	}
	if err := h.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-cause; got != jobs.ErrCanceled {
		t.Errorf("cause = %v; want ErrCanceled", got)
	}
	if _, err := h.Wait(t.Context()); err != jobs.ErrCanceled {
		t.Errorf("Wait = %v; want ErrCanceled", err)
	}
}
