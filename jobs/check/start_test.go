package jobs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
)

// A Worker writes the running markers of all jobs of a request at once. In this test
// Workers lose their connections at random times: between a job's delivery and its
// marker, between the marker and the attempt, and between the attempt and its outcome.
// Some jobs are canceled meanwhile.
func TestJ2_WorkersLostBetweenClaimAndOutcome(t *testing.T) {
	r := contract(t)
	const n, each, workers = 600, 150, 4
	lease := 2 * time.Second
	o := jobs.QueueOptions{Lease: lease, MaxAttempts: 100, MaxCrashes: 100}
	q := r.queue(o)
	h := &claimHistory{starts: make(map[string][]claimStart), canceled: make(map[string]bool)}

	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range 3 {
				lose := h.workOn(r, o)
				<-time.After(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
				lose()
			}
		})
	}
	handles := make([]*stringHandle, 0, n)
	for from := 0; from < n; from += each {
		some := make([]jobs.Submission[string], each)
		for i := range some {
			some[i].Input = fmt.Sprint(from + i)
		}
		got, err := q.SubmitMany(t.Context(), some)
		if err != nil {
			t.Fatalf("SubmitMany = %v; want nil", err)
		}
		handles = append(handles, got...)
		for _, one := range got[:each/10] {
			all.Go(func() {
				<-time.After(time.Duration(rand.Int64N(int64(20 * time.Millisecond))))
				if r.cancel(one) == nil {
					h.cancel(one.ID())
				}
			})
		}
	}
	all.Wait()
	r.work(q, jobs.WorkerOptions{Concurrency: 64}, h.handle)
	for _, one := range handles {
		h.check(r, one)
	}
	if h.again+h.unseen == 0 {
		t.Error("no attempt was lost; the test shows nothing")
	}
	t.Logf("%d jobs started more than once, %d claims never reached a handler, %d jobs were canceled", h.again, h.unseen, len(h.canceled))
}

// A Worker's Limiter bounds the first attempts of jobs, too.
func TestAWorkersLimiterBoundsFirstAttempts(t *testing.T) {
	r := contract(t)
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 2, Queue: 100})
	if err != nil {
		t.Fatal(err)
	}
	q := r.queue(jobs.QueueOptions{Lease: patience})
	handles, err := q.SubmitMany(t.Context(), make([]jobs.Submission[string], 40))
	if err != nil {
		t.Fatalf("SubmitMany = %v; want nil", err)
	}
	var running, most atomic.Int64
	r.work(q, jobs.WorkerOptions{Concurrency: 16, Limiter: l}, func(context.Context, *stringJob) (string, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for {
			m := most.Load()
			if now <= m || most.CompareAndSwap(m, now) {
				break
			}
		}
		<-time.After(2 * time.Millisecond)
		return "", nil
	})
	for _, h := range handles {
		r.wantResult(h, "")
	}
	if most.Load() > 2 {
		t.Errorf("%d handlers ran at once; want at most 2", most.Load())
	}
}

// A claimStart is an attempt whose handler was called.
type claimStart struct {
	attempt int
	fence   uint64
}

type claimHistory struct {
	mu       sync.Mutex
	starts   map[string][]claimStart // guarded by mu; by job ID
	canceled map[string]bool         // guarded by mu

	again, unseen int // of check
}

func (h *claimHistory) handle(ctx context.Context, j *stringJob) (string, error) {
	h.mu.Lock()
	h.starts[j.ID] = append(h.starts[j.ID], claimStart{j.Attempt, j.Fence})
	h.mu.Unlock()
	if n := rand.IntN(3); n > 0 {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Duration(rand.Int64N(int64(5 * time.Millisecond)))):
		}
	}
	return fmt.Sprint(j.Fence), nil
}

func (h *claimHistory) cancel(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.canceled[id] = true
}

// workOn starts a Worker with a separate connection. lose closes the connection, so
// nothing of what the Worker has begun reaches the server any more.
func (h *claimHistory) workOn(r *contractRig, o jobs.QueueOptions) (lose func()) {
	nc, err := nats.Connect(r.addr, nats.NoReconnect())
	if err != nil {
		r.Errorf("Connect = %v; want nil", err)
		return func() {}
	}
	s, err := jobs.Open(r.Context(), nc, jobs.StoreOptions{Durability: r.o.Durability, Timeout: opTimeout})
	if err != nil {
		r.Errorf("Open = %v; want nil", err)
		return nc.Close
	}
	q, err := jobs.NewQueue[string, string](r.Context(), s, "q", o)
	if err != nil {
		r.Errorf("NewQueue = %v; want nil", err)
		return nc.Close
	}
	w, err := q.Work(h.handle, jobs.WorkerOptions{Concurrency: 64})
	if err != nil {
		r.Errorf("Work = %v; want nil", err)
		return nc.Close
	}
	r.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.Close(ctx)
		s.Close(context.Background())
	})
	return nc.Close
}

// check compares what the handlers of a job have seen with how it ended.
func (h *claimHistory) check(r *contractRig, one *stringHandle) {
	r.Helper()
	result, err := r.wait(one)
	st := r.status(one)
	h.mu.Lock()
	defer h.mu.Unlock()
	starts := h.starts[one.ID()]
	slices.SortFunc(starts, func(a, b claimStart) int { return a.attempt - b.attempt })
	for i, s := range starts[min(1, len(starts)):] {
		if last := starts[i]; s.attempt == last.attempt || s.fence <= last.fence {
			r.Errorf("job %s: attempt %d has fence %d, and attempt %d fence %d; want both to grow", one.ID(), last.attempt, last.fence, s.attempt, s.fence)
		}
	}
	if len(starts) > 1 {
		h.again++
	}
	if h.canceled[one.ID()] {
		if st.State != jobs.StateCanceled {
			r.Errorf("job %s is %v after its cancel was acknowledged; want %v", one.ID(), st.State, jobs.StateCanceled)
		}
		return
	}
	if err != nil || len(starts) == 0 {
		r.Errorf("job %s: Wait = %q, %v after %d attempts; want a result", one.ID(), result, err, len(starts))
		return
	}
	last := starts[len(starts)-1]
	if result != fmt.Sprint(last.fence) || st.Attempt != last.attempt || st.Fence != last.fence {
		r.Errorf("job %s: result %s of attempt %d with fence %d; want that of the last attempt that started, %+v", one.ID(), result, st.Attempt, st.Fence, last)
	}
	h.unseen += last.attempt - len(starts)
}
