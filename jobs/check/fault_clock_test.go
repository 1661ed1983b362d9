package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// A faultClocks is a queue whose server reports another time than that of its
// records, as if its clock had been set after they were written. The clock of this
// machine does not matter, because only durations are taken from it.
type faultClocks struct {
	t     *testing.T
	proxy *faultProxy
	store *jobs.Store
	queue *faultQueue
}

func newFaultClocks(t *testing.T, o jobs.QueueOptions) *faultClocks {
	t.Helper()
	t.Parallel()
	p := newFaultProxy(t, natstest.Start(t, natstest.Options{}).URL())
	s := faultStore(t, p.connect(t), jobs.StoreOptions{})
	return &faultClocks{t: t, proxy: p, store: s, queue: faultNewQueue(t, s, o)}
}

// jump moves the server's clock by this many years, and lets the Store notice it.
func (c *faultClocks) jump(years int64) {
	c.t.Helper()
	c.proxy.years.Store(years)
	if err := c.store.Ping(c.t.Context()); err != nil {
		c.t.Fatalf("Ping = %v; want nil", err)
	}
}

var faultJumps = map[string]int64{"back": -1, "ahead": 1}

func TestFaultClockJumpsUnderARunningAttempt(t *testing.T) {
	for name, years := range faultJumps {
		t.Run(name, func(t *testing.T) {
			c := newFaultClocks(t, jobs.QueueOptions{Lease: 2 * time.Second})
			running, end := make(chan struct{}, 10), make(chan struct{})
			faultWork(t, c.queue, jobs.WorkerOptions{}, func(ctx context.Context, j *faultJob) (string, error) {
				running <- struct{}{}
				select {
				case <-end:
					return "of " + j.Input, nil
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			})
			h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{})
			<-running
			c.jump(years)
			<-time.After(2 * c.queue.Lease())
			close(end)
			faultWantResult(t, h, "of a")
			if n := len(running); n != 0 {
				t.Errorf("%d more attempts; want 0: the first attempt is alive", n)
			}
		})
	}
}

func TestFaultClockJumpsBeforeARetry(t *testing.T) {
	for name, years := range faultJumps {
		t.Run(name, func(t *testing.T) {
			const wait = 300 * time.Millisecond
			c := newFaultClocks(t, jobs.QueueOptions{RetryInitial: wait})
			var failed atomic.Int64 // when it failed, as a duration since began
			began := time.Now()
			faultWork(t, c.queue, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
				if j.Attempt == 1 {
					c.proxy.years.Store(years)
					if err := c.store.Ping(context.Background()); err != nil {
						t.Errorf("Ping = %v; want nil", err)
					}
					failed.Store(int64(time.Since(began)))
					return "", errors.New("first")
				}
				return time.Since(began).String(), nil
			})
			h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{})
			got, err := faultWait(t, h)
			if err != nil {
				t.Fatalf("Wait = %v; want a result", err)
			}
			second, err := time.ParseDuration(got)
			if err != nil {
				t.Fatal(err)
			}
			if waited := second - time.Duration(failed.Load()); waited < wait*4/5 || waited > faultPatience {
				t.Errorf("the retry waited %v; want about %v", waited, wait)
			}
		})
	}
}

func TestFaultClockJumpsBeforeADelayedStart(t *testing.T) {
	const delay = time.Second
	for name, years := range faultJumps {
		t.Run(name, func(t *testing.T) {
			c := newFaultClocks(t, jobs.QueueOptions{})
			began := time.Now()
			h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{Delay: delay})
			c.jump(years)
			faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
			faultWantResult(t, h, "of a")
			// With the clock moved ahead, the server's time is past the delay.
			if took := time.Since(began); years < 0 && took < delay {
				t.Errorf("started after %v; want %v", took, delay)
			}
		})
	}
}

func TestFaultClockJumpsWhileAWorkerIsDead(t *testing.T) {
	for name, years := range faultJumps {
		t.Run(name, func(t *testing.T) {
			c := newFaultClocks(t, jobs.QueueOptions{Lease: time.Second})
			// A worker that is cut off counts as dead.
			dead := newFaultProxy(t, c.proxy.server)
			q := faultNewQueue(t, faultStore(t, dead.connect(t), jobs.StoreOptions{}), jobs.QueueOptions{})
			running := make(chan struct{})
			faultWork(t, q, jobs.WorkerOptions{}, func(ctx context.Context, j *faultJob) (string, error) {
				close(running)
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{})
			<-running
			dead.Cut()
			c.jump(years)
			began := time.Now()
			faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
			faultWantResult(t, h, "of a")
			if took := time.Since(began); took > 12*time.Second {
				t.Errorf("started again after %v; want within 12 s", took)
			}
		})
	}
}

// J27: the state of a LimitKey has times of the server's clock. If that is set back, the
// jobs of the key go on at their rate, and do not wait for a year.
func TestFaultClockJumpsBackAndARateGoesOn(t *testing.T) {
	const burst, perSecond = 3, 5
	c := newFaultClocks(t, jobs.QueueOptions{KeyLimit: jobs.KeyLimit{PerSecond: perSecond, Burst: burst}})
	w := faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
	limited := func(in string) *faultHandle {
		return faultSubmit(t, c.queue, in, jobs.SubmitOptions{LimitKey: "tenant"})
	}
	var all []*faultHandle
	for range burst {
		all = append(all, limited("a"))
	}
	for _, h := range all {
		faultWantResult(t, h, "of a")
	}
	c.jump(-1)
	began := time.Now()
	const more = 8
	all = all[:0]
	for range more {
		all = append(all, limited("b"))
	}
	for _, h := range all {
		faultWantResult(t, h, "of b")
	}
	if took, least := time.Since(began), (more-2)*time.Second/perSecond; took < least {
		t.Errorf("%d jobs started within %v; want at least %v, for the rate is %d per second: %+v", more, took, least, perSecond, w.Stats())
	}
}

// J27: a worker that took the last place of a LimitKey and died before it marked the job
// as running holds the place for a lease, also if the clock is set back.
func TestFaultClockJumpsBackAndADeadWorkersPlaceIsFree(t *testing.T) {
	c := newFaultClocks(t, jobs.QueueOptions{Lease: time.Second, KeyLimit: jobs.KeyLimit{Concurrency: 1}})
	dead := faultSubmit(t, c.queue, "dead", jobs.SubmitOptions{LimitKey: "tenant", Delay: time.Hour})
	m := nats.NewMsg("weir.jobs.1.default.fault." + c.queue.KeyID("limit\x00tenant") + ".k")
	m.Header.Set("Weir-Job", "{}")
	m.Data = fmt.Appendf(nil, `{"v":1,"holders":[{"job":%q,"attempt":1,"after":%d,"at":%q}]}`,
		dead.ID(), faultStatus(t, dead).Revision, time.Now().UTC().Format(time.RFC3339Nano))
	if _, err := c.proxy.connect(t).RequestMsg(m, faultPatience); err != nil {
		t.Fatal(err)
	}
	c.jump(-1)
	faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
	faultWantResult(t, faultSubmit(t, c.queue, "a", jobs.SubmitOptions{LimitKey: "tenant"}), "of a")
}

func TestFaultClockJumpsAndADeadlineIsSaidToHavePassed(t *testing.T) {
	c := newFaultClocks(t, jobs.QueueOptions{})
	h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{Deadline: time.Hour})
	c.jump(1)
	faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
	_, err := faultWait(t, h)
	var job *jobs.JobError
	if !errors.As(err, &job) || job.State != jobs.StateFailed || job.Message != jobs.ErrExpired.Error() {
		t.Errorf("Wait = %v; want a *JobError that has failed: %v", err, jobs.ErrExpired)
	}
}

func TestFaultClockJumpsBackAndADeadlineHasNotPassed(t *testing.T) {
	c := newFaultClocks(t, jobs.QueueOptions{})
	h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{Deadline: time.Hour})
	c.jump(-1)
	faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
	faultWantResult(t, h, "of a")
}

// The deadline applies to the first attempt only: a retry may start later.
func TestFaultClockJumpsAheadOfADeadlineInTheFirstAttempt(t *testing.T) {
	c := newFaultClocks(t, jobs.QueueOptions{})
	faultWork(t, c.queue, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
		if j.Attempt > 1 {
			return "of " + j.Input, nil
		}
		c.proxy.years.Store(1)
		return "", errors.Join(errors.New("first"), c.store.Ping(context.Background()))
	})
	faultWantResult(t, faultSubmit(t, c.queue, "a", jobs.SubmitOptions{Deadline: time.Hour}), "of a")
}

// The start of an attempt is only as accurate as the server's clock, which is read
// late or was set back. It must never be earlier than the submission of the job.
func TestFaultClockJumpsBackBeforeTheStart(t *testing.T) {
	c := newFaultClocks(t, jobs.QueueOptions{})
	h := faultSubmit(t, c.queue, "a", jobs.SubmitOptions{})
	c.jump(-1)
	faultWork(t, c.queue, jobs.WorkerOptions{}, faultEcho)
	faultWantResult(t, h, "of a")
	if st := faultStatus(t, h); st.Started.Before(st.Submitted) || st.Finished.Before(st.Started) {
		t.Errorf("submitted at %v, started at %v, finished at %v; want these times in this order", st.Submitted, st.Started, st.Finished)
	}
}
