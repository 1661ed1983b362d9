package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

func (r *contractRig) list(f jobs.Filter) []jobs.Status {
	r.Helper()
	ctx, cancel := r.soon()
	defer cancel()
	all, err := r.store.List(ctx, f)
	if err != nil {
		r.Fatalf("List(%+v) = %v; want nil", f, err)
	}
	return all
}

// J9: A poison job goes to the dead list with its history, and blocks no other job.
// From there it can be retried or dropped.
func TestJ9APoisonJobGoesToTheDeadList(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 3})
	var mended sync.Map
	var log contractLog
	r.work(q, jobs.WorkerOptions{Concurrency: 1, Name: "w"}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if _, ok := mended.Load(j.Input); j.Input == "poison" && !ok {
			return "", fmt.Errorf("fails at %d", j.Attempt)
		}
		return j.Input, nil
	})
	poison := r.submit(q, "poison", jobs.SubmitOptions{Key: "k"})
	var others []*stringHandle
	for range 10 {
		others = append(others, r.submit(q, "good", jobs.SubmitOptions{}))
	}
	if e := r.wantError(poison, jobs.StateDead); e.Attempt != 3 || !strings.Contains(e.Message, "fails at 3") {
		t.Errorf("the error is %+v; want attempt 3 and its message", e)
	}
	for _, h := range others {
		r.wantResult(h, "good")
	}
	if n := log.count("poison"); n != 3 {
		t.Errorf("%d attempts; want 3", n)
	}

	dead := r.list(jobs.Filter{Queue: "q", States: []jobs.State{jobs.StateDead}})
	if len(dead) != 1 || dead[0].ID != poison.ID() || dead[0].Key != "k" || len(dead[0].History) != 3 {
		t.Fatalf("the dead list is %+v; want the poison job with 3 attempts", dead)
	}
	for i, a := range dead[0].History {
		if want := fmt.Sprintf("fails at %d", i+1); a.Attempt != i+1 || !strings.Contains(a.Error, want) || a.Worker != "w" || a.Ended.IsZero() || a.Class != "transient" {
			t.Errorf("History[%d] = %+v; want attempt %d by w with %q, transient", i, a, i+1, want)
		}
	}
	mended.Store("poison", true)
	ctx, cancel := r.soon()
	defer cancel()
	if err := r.store.Retry(ctx, "q", poison.ID()); err != nil {
		t.Fatalf("Retry = %v; want nil", err)
	}
	r.wantResult(poison, "poison")
	if s := r.status(poison); s.Attempt != 1 {
		t.Errorf("after Retry it is done by attempt %d; want 1, because the count starts again", s.Attempt)
	}
}

func TestJ9TheDeadCanBeDropped(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	ctx, cancel := r.soon()
	defer cancel()
	h := r.submit(q, "a", jobs.SubmitOptions{})
	for name, f := range map[string]func(context.Context, string, string) error{"Drop": r.store.Drop, "Retry": r.store.Retry} {
		if err := f(ctx, "q", h.ID()); !errors.Is(err, jobs.ErrConflict) {
			t.Errorf("%s of a job that is queued = %v; want %v", name, err, jobs.ErrConflict)
		}
	}
	r.work(q, jobs.WorkerOptions{}, func(context.Context, *stringJob) (string, error) { return "", errors.New("no") })
	r.wantError(h, jobs.StateDead)
	if err := r.store.Drop(ctx, "q", h.ID()); err != nil {
		t.Fatalf("Drop = %v; want nil", err)
	}
	for name, err := range map[string]error{
		"Drop": r.store.Drop(ctx, "q", h.ID()), "Retry": r.store.Retry(ctx, "q", h.ID()), "Cancel": r.cancel(h),
	} {
		if !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("%s of a job that was dropped = %v; want %v", name, err, jobs.ErrNotFound)
		}
	}
	if all := r.list(jobs.Filter{}); len(all) != 0 {
		t.Errorf("List = %+v; want nothing", all)
	}
}

// An input that cannot be decoded kills its job at once.
func TestJ9AnInputThatDoesNotDecodeIsDead(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	numbers, err := jobs.NewQueue[int, int](t.Context(), r.store, "q", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ran contractLog
	w, err := numbers.Work(func(_ context.Context, j *jobs.Job[int]) (int, error) {
		ran.add(&stringJob{})
		return j.Input, nil
	}, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	h := r.submit(q, "not a number", jobs.SubmitOptions{})
	if e := r.wantError(h, jobs.StateDead); !strings.Contains(e.Message, "decode") && !strings.Contains(e.Message, "unmarshal") {
		t.Errorf("the error is %q; want it to report that the input does not decode", e.Message)
	}
	if n := len(ran.all()); n != 0 {
		t.Errorf("the handler ran %d times; want 0", n)
	}
}

// J12: Result, error and progress are kept for a configured time.
func TestJ12ResultErrorAndProgressAreKept(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	goOn := make(chan bool)
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		if j.Input != "good" {
			return "", errors.New(strings.Repeat("long ", jobs.MaxNote))
		}
		j.Progress(jobs.Progress{Done: 1, Total: 3, Note: "early"})
		j.Progress(jobs.Progress{Done: 2, Total: 3, Note: strings.Repeat("n", 2*jobs.MaxNote)})
		<-goOn
		j.Progress(jobs.Progress{Done: 3, Total: 3, Note: "last"})
		return "result", nil
	})
	h := r.submit(q, "good", jobs.SubmitOptions{})
	r.eventually("the progress is visible", func() bool { p := r.status(h).Progress; return p != nil && p.Done == 2 })
	if p := r.status(h).Progress; p.Total != 3 || len(p.Note) != jobs.MaxNote {
		t.Errorf("the progress is %d of %d with a note of %d bytes; want 2 of 3, %d", p.Done, p.Total, len(p.Note), jobs.MaxNote)
	}
	close(goOn)
	r.wantResult(h, "result")
	r.wantResult(h, "result") // Wait succeeds again
	s := r.status(h)
	if s.Progress == nil || s.Progress.Done != 3 || s.Finished.IsZero() || s.Started.Before(s.Submitted) || s.Finished.Before(s.Started) {
		t.Errorf("Status = %+v; want the last progress, and times in order", s)
	}
	dead := r.submit(q, "bad", jobs.SubmitOptions{})
	r.wantError(dead, jobs.StateDead)
	if s := r.status(dead); len(s.Error) > jobs.MaxNote+100 || !strings.HasPrefix(s.Error, "long long") {
		t.Errorf("the kept error has %d bytes, %.20q; want about %d", len(s.Error), s.Error, jobs.MaxNote)
	}
}

func TestJ12ResultAndErrorAreKeptForATime(t *testing.T) {
	r := contract(t)
	const ttl = 2 * time.Second
	q := r.queue(jobs.QueueOptions{ResultTTL: ttl, DeadTTL: ttl, MaxAttempts: 1, Lease: 300 * time.Millisecond})
	r.work(q, jobs.WorkerOptions{}, fails)
	began := time.Now()
	all := make(map[string]*stringHandle)
	for _, in := range []string{"good", "dead", "failed"} {
		all[in] = r.submit(q, in, jobs.SubmitOptions{})
	}
	for in, h := range all {
		r.eventually("the job is forgotten", func() bool {
			ctx, cancel := r.soon()
			defer cancel()
			_, err := h.Status(ctx)
			return errors.Is(err, jobs.ErrNotFound)
		})
		// The server's clock may be slightly ahead of ours.
		if took := time.Since(began); took < ttl-5*time.Millisecond {
			t.Errorf("%s was forgotten after %v; want it kept for %v", in, took, ttl)
		}
		if _, err := r.wait(h); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("Wait for a forgotten job = %v; want %v", err, jobs.ErrNotFound)
		}
	}
}

// J13: A result can be waited for, also from another process, and a wait survives a
// restart of the server.
func TestJ13AnotherProcessWaitsThroughARestart(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	other := r.child(childTask{Do: "wait", ID: h.ID()})
	other.line("waiting")
	here := make(chan error, 1)
	go func() {
		got, err := r.wait(h)
		if err == nil && got != "a" {
			err = fmt.Errorf("result %q", got)
		}
		here <- err
	}()
	r.restart()
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	if got := other.line("result"); got != `"a" <nil>` {
		t.Errorf("Wait in another process = %s; want %q, nil", got, "a")
	}
	if err := <-here; err != nil {
		t.Errorf("Wait in this process = %v; want the result", err)
	}
}

// A wait ends with its context, or with the store.
func TestJ13AWaitEnds(t *testing.T) {
	r := contract(t)
	store := r.open(jobs.StoreOptions{})
	q := r.queueOn(store, jobs.QueueOptions{})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v; want the context's error", err)
	}
	ended := make(chan error, 1)
	go func() { _, err := r.wait(h); ended <- err }()
	r.pass(50 * time.Millisecond)
	if err := store.Close(context.Background()); err != nil {
		t.Errorf("Close = %v; want nil", err)
	}
	if err := <-ended; !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("Wait = %v after Close; want %v", err, jobs.ErrClosed)
	}
}

// Watch follows the changes of a job to its end.
func TestJ13AWatchEndsWithTheJob(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	h := r.submit(q, "a", jobs.SubmitOptions{})
	ctx, cancel := r.soon()
	defer cancel()
	begun, goOn := make(chan bool, 1), make(chan bool)
	var states []string
	var revision uint64
	for s, err := range h.Watch(ctx) {
		if err != nil {
			t.Fatalf("Watch yields the error %v; want none", err)
		}
		if s.Revision <= revision && revision > 0 {
			t.Errorf("revision %d after %d; want a higher one", s.Revision, revision)
		}
		revision = s.Revision
		states = append(states, s.State.String())
		switch s.State {
		case jobs.StateQueued:
			r.work(q, jobs.WorkerOptions{}, func(context.Context, *stringJob) (string, error) { begun <- true; <-goOn; return "a", nil })
		case jobs.StateRunning:
			close(goOn)
		}
	}
	if got := strings.Join(states, " "); got != "queued running done" {
		t.Errorf("Watch yields %q; want queued running done", got)
	}
}

// J20: An event is a job without a result: nothing of it is left soon after it is
// done.
func TestJ20NothingIsLeftOfAnEvent(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{ResultTTL: jobs.None, Lease: 500 * time.Millisecond})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		log.add(j)
		if j.Attempt < 2 {
			return "", errors.New("not yet")
		}
		return "", nil
	})
	o := jobs.SubmitOptions{Key: "k"}
	h := r.submit(q, "a", o)
	r.eventually("the event is done and forgotten", func() bool {
		ctx, cancel := r.soon()
		defer cancel()
		_, err := h.Status(ctx)
		return log.count("a") >= 2 && errors.Is(err, jobs.ErrNotFound)
	})
	before := log.count("a")
	r.eventually("its key is free", func() bool { return !r.submit(q, "a", o).Joined() })
	r.eventually("the event is done again", func() bool { return log.count("a") >= before+2 })
}
