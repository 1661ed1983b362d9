package jobs_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

// J4: While a job is queued, running or kept as done, Submits with its key get the
// same job and result.
func TestJ4TheSameKeyIsTheSameJob(t *testing.T) {
	r := contract(t)
	q, other := r.queue(jobs.QueueOptions{}), r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{})
	o := jobs.SubmitOptions{Key: "k"}
	h := r.submit(q, "a", o)
	if h.Joined() || len(h.ID()) != 32 {
		t.Errorf("the first Submit: ID %q, joined %v; want 32 digits, false", h.ID(), h.Joined())
	}
	joins := func(state string, q *stringQueue) {
		t.Helper()
		again := r.submit(q, "a", o)
		if !again.Joined() || again.ID() != h.ID() {
			t.Errorf("Submit of the same key, %s: ID %s, joined %v; want %s, true", state, again.ID(), again.Joined(), h.ID())
		}
	}
	joins("queued", q)
	joins("queued, by another program", other)

	var runs atomic.Int32
	begun, goOn := make(chan bool), make(chan bool)
	r.work(q, jobs.WorkerOptions{}, func(context.Context, *stringJob) (string, error) {
		runs.Add(1)
		begun <- true
		<-goOn
		return "one", nil
	})
	<-begun
	joins("running", other)
	close(goOn)
	r.wantResult(h, "one")
	joins("done", other)
	r.wantResult(r.submit(other, "a", o), "one")
	if n := runs.Load(); n != 1 {
		t.Errorf("%d attempts; want 1", n)
	}
	if s := q.Stats(); s.Submitted != 1 || s.Joined != 1 {
		t.Errorf("Stats = %+v; want 1 submitted, 1 joined", s)
	}
}

func TestJ4ManyAtOnceAreOneJob(t *testing.T) {
	r := contract(t)
	var log contractLog
	var queues []*stringQueue
	for range 4 {
		q := r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{})
		r.work(q, jobs.WorkerOptions{}, log.echo)
		queues = append(queues, q)
	}
	var began atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			ctx, cancel := r.soon()
			defer cancel()
			h, err := queues[i%4].Submit(ctx, "a", jobs.SubmitOptions{Key: "k"})
			if err != nil {
				t.Errorf("Submit = %v; want nil", err)
				return
			}
			if !h.Joined() {
				began.Add(1)
			}
			if got, err := h.Wait(ctx); got != "a" || err != nil {
				t.Errorf("Wait = %q, %v; want the result", got, err)
			}
		})
	}
	all.Wait()
	if n := began.Load(); n != 1 {
		t.Errorf("%d of 64 Submits began a job; want 1", n)
	}
	if n := log.count("a"); n != 1 {
		t.Errorf("%d attempts; want 1", n)
	}
}

// The key of a job that failed, died or was canceled is free again, and so is a key
// whose result is no longer kept.
func TestJ4AKeyIsFreeAgain(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	var log contractLog
	var failure atomic.Pointer[error]
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		log.add(j)
		if e := failure.Load(); e != nil {
			return "", *e
		}
		return j.Input, nil
	})
	again := func(what string, h *stringHandle, o jobs.SubmitOptions) {
		t.Helper()
		failure.Store(nil)
		before := r.status(h)
		next := r.submit(q, "another input", o)
		if next.Joined() || next.ID() != h.ID() {
			t.Errorf("Submit after a job that %s: ID %s, joined %v; want %s, false", what, next.ID(), next.Joined(), h.ID())
		}
		r.wantResult(next, "another input")
		if s := r.status(next); s.Attempt != 1 || s.Fence <= before.Fence {
			t.Errorf("the new life has attempt %d, fence %d, after fence %d; want 1 and a higher fence", s.Attempt, s.Fence, before.Fence)
		}
	}
	fail := func(err error, want jobs.State, key string) *stringHandle {
		failure.Store(&err)
		h := r.submit(q, "a", jobs.SubmitOptions{Key: key})
		r.wantError(h, want)
		return h
	}
	again("failed", fail(jobs.Permanent(errors.New("no")), jobs.StateFailed, "failed"), jobs.SubmitOptions{Key: "failed"})
	again("died", fail(errors.New("no"), jobs.StateDead, "dead"), jobs.SubmitOptions{Key: "dead"})
	o := jobs.SubmitOptions{Key: "canceled", Delay: time.Hour}
	h := r.submit(q, "a", o)
	if err := r.cancel(h); err != nil {
		t.Fatalf("Cancel = %v; want nil", err)
	}
	again("was canceled", h, jobs.SubmitOptions{Key: "canceled"})
}

// With Once the key stays taken, however the job ended, and nothing runs again.
func TestJ4_OnceKeepsTheKeyOfAFinishedJob(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	var log contractLog
	failures := map[string]error{"failed": jobs.Permanent(errors.New("no")), "dead": errors.New("no")}
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		return j.Input, failures[j.Input]
	})
	submit := func(key string, restart bool) *stringHandle {
		o := jobs.SubmitOptions{Key: key, Once: true, Restart: restart}
		if key == "canceled" {
			o.Delay = time.Hour
		}
		return r.submit(q, key, o)
	}
	for key, state := range map[string]jobs.State{"done": jobs.StateDone, "failed": jobs.StateFailed, "dead": jobs.StateDead, "canceled": jobs.StateCanceled} {
		h := submit(key, false)
		if key == "canceled" {
			if err := r.cancel(h); err != nil {
				t.Fatalf("Cancel = %v; want nil", err)
			}
		}
		r.eventually(key+" is over", func() bool { return r.status(h).State == state })
		for _, restart := range []bool{false, true} {
			if again := submit(key, restart); !again.Joined() || again.ID() != h.ID() {
				t.Errorf("Submit after job %s, restart %v: ID %s, joined %v; want %s, true", key, restart, again.ID(), again.Joined(), h.ID())
			}
		}
		if s := r.status(h); s.State != state {
			t.Errorf("after another Submit the job is %s; want %s", s.State, state)
		}
		if _, err := q.Submit(t.Context(), "another input", jobs.SubmitOptions{Key: key, Once: true}); !errors.Is(err, jobs.ErrConflict) {
			t.Errorf("Submit of another input after job %s = %v; want %v", key, err, jobs.ErrConflict)
		}
		if n := log.count(key); n > 1 {
			t.Errorf("job %s ran %d times; want once", key, n)
		}
	}
}

func TestJ4AKeyIsFreeAgainOnceItsResultIsForgotten(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{ResultTTL: time.Second, Lease: 500 * time.Millisecond})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	o := jobs.SubmitOptions{Key: "short"}
	r.wantResult(r.submit(q, "short", o), "short")
	r.eventually("the result is forgotten and its key free", func() bool { return !r.submit(q, "short", o).Joined() })
}

// Restart begins a finished job again, and joins one that is not over.
func TestJ4RestartBeginsAnew(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	o := jobs.SubmitOptions{Key: "k", Restart: true}
	h := r.submit(q, "a", o)
	if h.Joined() {
		t.Error("Submit with Restart joined a missing job")
	}
	if again := r.submit(q, "a", o); !again.Joined() {
		t.Error("Submit with Restart began a queued job again; want it to join")
	}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.wantResult(h, "a")
	if again := r.submit(q, "a", o); again.Joined() || again.ID() != h.ID() {
		t.Errorf("Submit with Restart after a job that is done: joined %v, ID %s; want false, %s", again.Joined(), again.ID(), h.ID())
	}
	r.eventually("the job has run twice", func() bool { return log.count("a") == 2 })
	seen := log.all()
	if seen[1].Attempt != 1 || seen[1].Fence <= seen[0].Fence {
		t.Errorf("after Restart: attempt %d with fence %d, after fence %d; want 1 and a higher fence", seen[1].Attempt, seen[1].Fence, seen[0].Fence)
	}
}

// J5: After an acknowledged cancel, no attempt starts and no result is stored. The
// context of a running attempt is canceled.
func TestJ5ACanceledJobDoesNotStart(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{RetryInitial: 50 * time.Millisecond})
	waiting := r.submit(q, "waiting", jobs.SubmitOptions{})
	delayed := r.submit(q, "delayed", jobs.SubmitOptions{Delay: 300 * time.Millisecond})
	var log contractLog
	for _, h := range []*stringHandle{waiting, delayed, waiting} { // the first one is canceled twice
		if err := r.cancel(h); err != nil {
			t.Fatalf("Cancel = %v; want nil", err)
		}
	}
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		log.add(j)
		return "", errors.New("again and again")
	})
	retried := r.submit(q, "retried", jobs.SubmitOptions{})
	r.eventually("an attempt has failed", func() bool { return log.count("retried") > 0 })
	if err := r.cancel(retried); err != nil {
		t.Fatalf("Cancel between attempts = %v; want nil", err)
	}
	// An attempt starts with its marker, whose revision is its fence. Its handler may
	// run only after a later cancel.
	canceled := r.status(retried).Revision
	r.pass(500 * time.Millisecond)
	for _, j := range log.all() {
		if j.Input == "retried" && j.Fence > canceled {
			t.Errorf("attempt %d has fence %d; want none after the cancel at revision %d", j.Attempt, j.Fence, canceled)
		}
	}
	for _, h := range []*stringHandle{waiting, delayed, retried} {
		if _, err := r.wait(h); !errors.Is(err, jobs.ErrCanceled) {
			t.Errorf("Wait = %v; want %v", err, jobs.ErrCanceled)
		}
		if s := r.status(h); s.State != jobs.StateCanceled {
			t.Errorf("the State is %v; want canceled", s.State)
		}
	}
	if n := log.count("waiting") + log.count("delayed"); n != 0 {
		t.Errorf("%d attempts of canceled jobs; want none", n)
	}
}

func TestJ5ARunningJobIsToldAndItsResultNotKept(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{Lease: time.Hour}) // its heartbeat does not report the cancel
	canceler := r.queueOn(r.open(jobs.StoreOptions{}), jobs.QueueOptions{})
	begun, cause := make(chan bool, 1), make(chan error, 1)
	dropped := make(chan attemptEnd, 10)
	r.work(q, jobs.WorkerOptions{Observer: onEnd{end: func(e attemptEnd) { dropped <- e }}}, func(ctx context.Context, j *stringJob) (string, error) {
		begun <- true
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "a result all the same", nil
	})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	<-begun
	if err := r.cancel(canceler.Job(h.ID())); err != nil {
		t.Fatalf("Cancel = %v; want nil", err)
	}
	select {
	case err := <-cause:
		if !errors.Is(err, jobs.ErrCanceled) {
			t.Errorf("the attempt's cause is %v; want %v", err, jobs.ErrCanceled)
		}
	case <-time.After(patience):
		t.Fatalf("the attempt was not canceled within %v", patience)
	}
	if e := <-dropped; e.Kind != jobs.EventDropped || e.ID != h.ID() {
		t.Errorf("the worker reports %v of %s; want dropped of %s", e.Kind, e.ID, h.ID())
	}
	if got, err := r.wait(h); !errors.Is(err, jobs.ErrCanceled) {
		t.Errorf("Wait = %q, %v; want %v", got, err, jobs.ErrCanceled)
	}
}

func TestJ5WhatCannotBeCanceled(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	h := r.submit(q, "a", jobs.SubmitOptions{})
	r.wantResult(h, "a")
	if err := r.cancel(h); !errors.Is(err, jobs.ErrFinished) {
		t.Errorf("Cancel of a job that is done = %v; want %v", err, jobs.ErrFinished)
	}
	r.wantResult(h, "a")
	if err := r.cancel(q.Job("00000000000000000000000000000000")); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("Cancel of a missing job = %v; want %v", err, jobs.ErrNotFound)
	}
}

// J6: The same key with another input is rejected, and changes nothing.
func TestJ6AnotherInputIsRefused(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	o := jobs.SubmitOptions{Key: "k"}
	h := r.submit(q, "a", o)
	refused := func(state string) {
		t.Helper()
		before := r.status(h)
		ctx, cancel := r.soon()
		defer cancel()
		if _, err := q.Submit(ctx, "b", o); !errors.Is(err, jobs.ErrConflict) {
			t.Errorf("Submit of another input, %s, = %v; want %v", state, err, jobs.ErrConflict)
		}
		if s := r.status(h); s.Revision != before.Revision {
			t.Errorf("the rejected Submit changed the job, %s: revision %d, was %d", state, s.Revision, before.Revision)
		}
	}
	refused("queued")
	begun, goOn := make(chan bool), make(chan bool)
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		begun <- true
		<-goOn
		return j.Input, nil
	})
	<-begun
	refused("running")
	close(goOn)
	r.wantResult(h, "a")
	refused("done")
}

// J6, J27: what is stored as JSON is UTF-8. Other bytes would be changed: a Fingerprint
// would be a conflict with itself, or equal to another, and a LimitKey would have no
// limit. A key with a zero byte could have the ID of a lock or of a gate, and hold up
// the jobs behind it.
func TestJ6_StringsThatCannotBeKeptAreRefused(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	for field, o := range map[string]jobs.SubmitOptions{
		"Key":         {Key: "k\xff"},
		"Serial":      {Serial: "s\xff"},
		"LimitKey":    {LimitKey: "t\xff"},
		"Fingerprint": {Key: "k", Fingerprint: "\xff"},
		"Owner":       {Owner: "\xff"},
	} {
		r.wantRefused(q, o, field)
	}
	for _, key := range []string{"limit\x00tenant", "serial\x00s", "suspects\x00", "\x00"} {
		r.wantRefused(q, jobs.SubmitOptions{Key: key}, "Key")
	}
	r.wantWaiting(0)
	ctx, cancel := r.soon()
	defer cancel()
	o := jobs.QueueOptions{KeyLimits: map[string]jobs.KeyLimit{"t\xff": {Concurrency: 1}}}
	if _, err := jobs.NewQueue[string, string](ctx, r.store, "q", o); !errors.As(err, new(*jobs.OptionError)) {
		t.Errorf("NewQueue with a limit for a key that no job can have = %v; want an *OptionError", err)
	}
}

// wantRefused fails the test unless each way to submit a job refuses the options for this
// field.
func (r *contractRig) wantRefused(q *stringQueue, o jobs.SubmitOptions, field string) {
	r.Helper()
	ctx, cancel := r.soon()
	defer cancel()
	_, submit := q.Submit(ctx, "in", o)
	_, join := q.Join(ctx, "in", o)
	_, many := q.SubmitMany(ctx, []jobs.Submission[string]{{Input: "in", Options: o}})
	for name, err := range map[string]error{"Submit": submit, "Join": join, "SubmitMany": many} {
		option := new(jobs.OptionError)
		if !errors.As(err, &option) || option.Field != "SubmitOptions."+field {
			r.Errorf("%s with %+v = %v; want an *OptionError of %s", name, o, err, field)
		}
	}
}
