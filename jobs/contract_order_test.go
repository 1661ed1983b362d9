package jobs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// J14: There is no order between jobs. Those of one Serial run one at a time, on however
// many workers.
func TestJ14OneAtATimePerSerial(t *testing.T) {
	r := contract(t)
	var serial, free, most atomic.Int32
	h := func(_ context.Context, j *stringJob) (string, error) {
		n := &free
		if j.Input == "serial" {
			n = &serial
		}
		now := n.Add(1)
		defer n.Add(-1)
		if j.Input == "serial" && now > 1 {
			t.Errorf("%d jobs of one Serial at a time; want 1", now)
		}
		if j.Input != "serial" {
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
		}
		r.pass(30 * time.Millisecond)
		return j.Input, nil
	}
	q := r.queue(jobs.QueueOptions{})
	var handles []*stringHandle
	for i := range 8 {
		handles = append(handles, r.submit(q, "serial", jobs.SubmitOptions{Serial: "s"}), r.submit(q, "free", jobs.SubmitOptions{}))
		if i == 0 {
			handles = append(handles, r.submit(q, "other", jobs.SubmitOptions{Serial: "t"}))
		}
	}
	for range 2 {
		r.work(r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{}), jobs.WorkerOptions{Concurrency: 4}, h)
	}
	for _, h := range handles {
		if _, err := r.wait(h); err != nil {
			t.Errorf("Wait = %v; want the result", err)
		}
	}
	if most.Load() < 2 {
		t.Error("jobs without a Serial ran one at a time, too")
	}
}

// One of a Serial that is to be retried does not hold up the others, and each is done.
func TestJ14AFailureDoesNotBlockItsSerial(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{RetryInitial: 200 * time.Millisecond, MaxAttempts: 3})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Input == "bad" {
			panic("a handler that panics")
		}
		return j.Input, nil
	})
	o := jobs.SubmitOptions{Serial: "s"}
	bad, good := r.submit(q, "bad", o), r.submit(q, "good", o)
	r.wantResult(good, "good")
	if e := r.wantError(bad, jobs.Dead); !strings.Contains(e.Message, "a handler that panics") {
		t.Errorf("the error is %q; want the panic's", e.Message)
	}
}

// J15: A delayed job does not start before its time.
func TestJ15ADelayedJobStartsAtItsTime(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var log contractLog
	r.work(q, jobs.WorkerOptions{Concurrency: 1}, log.echo)
	const delay = 700 * time.Millisecond
	from := time.Now()
	h := r.submit(q, "late", jobs.SubmitOptions{Delay: delay})
	until := time.Now()
	for range 3 {
		r.wantResult(r.submit(q, "soon", jobs.SubmitOptions{}), "soon")
	}
	s := r.status(h)
	if s.State != jobs.Queued || s.NotBefore.Before(from.Add(delay-time.Millisecond)) || s.NotBefore.After(until.Add(delay+time.Millisecond)) {
		t.Errorf("a delayed job is %v until %v; want queued until %v", s.State, s.NotBefore, from.Add(delay))
	}
	r.wantResult(h, "late")
	seen := log.all()
	if last := seen[len(seen)-1]; last.Input != "late" {
		t.Errorf("the last attempt was of %q; want the delayed one", last.Input)
	}
	// The server's clock may be a hair before ours.
	if took := log.at[len(seen)-1].Sub(from); took < delay-5*time.Millisecond || took > delay+5*time.Second {
		t.Errorf("it started %v after the Submit; want %v", took, delay)
	}
	if n := r.status(h).Attempt; n != 1 {
		t.Errorf("it is done by attempt %d; want 1: waiting counts for nothing", n)
	}
}

func TestJ15ADelayOutlivesARestart(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	from := time.Now()
	h := r.submit(q, "late", jobs.SubmitOptions{Delay: time.Second})
	r.restart()
	r.wantResult(h, "late")
	if took := log.at[0].Sub(from); took < 995*time.Millisecond {
		t.Errorf("it started %v after the Submit; want 1s", took)
	}
}

// J16: After its deadline a job is not started.
func TestJ16AfterItsDeadlineAJobIsNotStarted(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	const deadline = 200 * time.Millisecond
	late := r.submit(q, "late", jobs.SubmitOptions{Deadline: deadline, Key: "k"})
	r.pass(deadline + 50*time.Millisecond)
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Input == "in time" && j.Attempt == 1 {
			return "", jobs.RetryIn(context.DeadlineExceeded, 2*deadline)
		}
		return j.Input, nil
	})
	if e := r.wantError(late, jobs.Failed); !strings.Contains(e.Message, jobs.ErrExpired.Error()) {
		t.Errorf("the error is %q; want %v", e.Message, jobs.ErrExpired)
	}
	if n := log.count("late"); n != 0 {
		t.Errorf("%d attempts after the deadline; want 0", n)
	}
	// It is the first attempt's: a retry may be later.
	r.wantResult(r.submit(q, "in time", jobs.SubmitOptions{Deadline: 2 * deadline}), "in time")
}
