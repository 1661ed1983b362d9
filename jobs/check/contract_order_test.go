package jobs_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// J14: There is no order between jobs. Jobs with the same Serial run one at a time,
// however many workers there are. Other jobs run concurrently; here the first ones
// wait for each other.
func TestJ14OneAtATimePerSerial(t *testing.T) {
	r := contract(t)
	var serial, free atomic.Int32
	beside, two := make(chan bool), sync.Once{}
	h := func(ctx context.Context, j *stringJob) (string, error) {
		if j.Input == "serial" {
			if now := serial.Add(1); now > 1 {
				t.Errorf("%d jobs of one Serial at a time; want 1", now)
			}
			defer serial.Add(-1)
			r.pass(30 * time.Millisecond)
			return j.Input, nil
		}
		if free.Add(1) == 2 {
			two.Do(func() { close(beside) })
		}
		defer free.Add(-1)
		select {
		case <-beside:
		case <-ctx.Done():
		}
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
			t.Fatalf("Wait = %v; want the result: jobs without a Serial must run concurrently", err)
		}
	}
}

// A job that waits for its retry does not hold up other jobs with its Serial, and
// each of them is done.
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
	if e := r.wantError(bad, jobs.StateDead); !strings.Contains(e.Message, "a handler that panics") {
		t.Errorf("the error is %q; want the panic's", e.Message)
	}
}

// J15: A delayed job does not start before its time.
func TestJ15ADelayedJobStartsAtItsTime(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var log contractLog
	r.work(q, jobs.WorkerOptions{Concurrency: 1}, log.echo)
	const delay, long = 700 * time.Millisecond, time.Hour
	from := time.Now()
	h := r.submit(q, "late", jobs.SubmitOptions{Delay: delay})
	before := time.Now()
	later := r.submit(q, "later", jobs.SubmitOptions{Delay: long})
	until := time.Now()
	for range 3 { // delayed jobs do not hold up others
		r.wantResult(r.submit(q, "soon", jobs.SubmitOptions{}), "soon")
	}
	s := r.status(later)
	if s.State != jobs.StateQueued || s.NotBefore.Before(before.Add(long-time.Millisecond)) || s.NotBefore.After(until.Add(long+time.Millisecond)) {
		t.Errorf("a delayed job is %v until %v; want queued until %v", s.State, s.NotBefore, before.Add(long))
	}
	r.wantResult(h, "late")
	for i, j := range log.all() {
		// The server's clock may be slightly behind ours.
		if took := log.at[i].Sub(from); j.Input == "late" && took < delay-5*time.Millisecond {
			t.Errorf("it started %v after the Submit; want %v", took, delay)
		}
	}
	if n := r.status(h).Attempt; n != 1 {
		t.Errorf("done by attempt %d; want 1: waiting does not count as an attempt", n)
	}
	if n := log.count("later"); n != 0 {
		t.Errorf("a job delayed by an hour had %d attempts; want 0", n)
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

// J16: After its deadline, a job is not started. (A retry may be later; see
// TestFaultClockJumpsAheadOfADeadlineInTheFirstAttempt.)
func TestJ16AfterItsDeadlineAJobIsNotStarted(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	const deadline = 200 * time.Millisecond
	late := r.submit(q, "late", jobs.SubmitOptions{Deadline: deadline, Key: "k"})
	// The server's time is only known as of its last response.
	r.eventually("the deadline has long passed", func() bool { return r.counts().Oldest > 5*deadline })
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	if e := r.wantError(late, jobs.StateFailed); !strings.Contains(e.Message, jobs.ErrExpired.Error()) {
		t.Errorf("the error is %q; want %v", e.Message, jobs.ErrExpired)
	}
	if n := log.count("late"); n != 0 {
		t.Errorf("%d attempts after the deadline; want 0", n)
	}
	r.wantResult(r.submit(q, "in time", jobs.SubmitOptions{Deadline: time.Hour}), "in time")
}
