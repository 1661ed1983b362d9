package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobstest"
)

type stringJob = jobs.Job[string]

var errNo = errors.New("no")

func submit(t *testing.T, h jobs.Handler[string, string], o jobstest.Options, so jobs.SubmitOptions) *jobstest.Job[string] {
	t.Helper()
	j, err := jobstest.New(h, o).Submit("in", so)
	if err != nil {
		t.Fatalf("Submit = %v; want a job", err)
	}
	return j
}

// J26: the handler gets the job as a Worker passes it, and its result is that of Wait.
func TestJ26_TheHandlerGetsItsJob(t *testing.T) {
	type in struct {
		A      int
		hidden int
	}
	type out struct{ B, hidden int }
	h := func(_ context.Context, j *jobs.Job[in]) (out, error) {
		if j.Input.hidden != 0 {
			t.Error("an unexported field of the input has reached the handler; want only what the codec keeps")
		}
		if j.Queue != "sums" || j.Key != "k" || j.Owner != "o" || j.Headers["h"] != "v" || j.Attempt != 1 || j.Fence == 0 || len(j.ID) != 32 {
			t.Errorf("job = %+v; want the fields of its submission", j)
		}
		j.Progress(jobs.Progress{Done: 1, Total: 2, Note: strings.Repeat("n", 2*jobs.MaxNote)})
		j.Progress(jobs.Progress{Done: 2, Total: 2})
		return out{j.Input.A + 1, 1}, nil
	}
	j, err := jobstest.New(h, jobstest.Options{Queue: "sums"}).Submit(in{1, 1}, jobs.SubmitOptions{Key: "k", Owner: "o", Headers: map[string]string{"h": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	a := j.Attempt(t.Context())
	if a.Kind != jobs.EventSucceeded || a.State != jobs.StateDone || a.Result != (out{B: 2}) || a.Err != nil {
		t.Errorf("Attempt = %+v; want the result", a)
	}
	if len(a.Progress) != 2 || len(a.Progress[0].Note) != jobs.MaxNote || a.Progress[1].Done != 2 {
		t.Errorf("Progress = %+v; want both reports, with the bound of their notes", a.Progress)
	}
	if s := j.Status(); s.State != jobs.StateDone || s.Progress == nil || s.Progress.Done != 2 || s.Finished.IsZero() {
		t.Errorf("Status = %+v; want a done job with its progress", s)
	}
}

// J26: what an error means for the job is decided as by a Worker.
func TestJ26_ErrorsAreDecidedAsByAWorker(t *testing.T) {
	for _, row := range []struct {
		name    string
		err     error
		o       jobs.QueueOptions
		kind    jobs.EventKind
		state   jobs.State
		retryIn time.Duration // the shortest
	}{
		{"error", errNo, jobs.QueueOptions{}, jobs.EventRetried, jobs.StateRetrying, 800 * time.Millisecond},
		{"last attempt", errNo, jobs.QueueOptions{MaxAttempts: 1}, jobs.EventEnded, jobs.StateDead, 0},
		{"RetryIn", jobs.RetryIn(errNo, time.Hour), jobs.QueueOptions{}, jobs.EventRetried, jobs.StateRetrying, time.Hour},
		{"Permanent", jobs.Permanent(errNo), jobs.QueueOptions{}, jobs.EventEnded, jobs.StateFailed, 0},
		{"Snooze", jobs.Snooze(time.Minute), jobs.QueueOptions{MaxAttempts: 1}, jobs.EventSnoozed, jobs.StateRetrying, time.Minute},
		{"Snooze without snoozes", jobs.Snooze(time.Minute), jobs.QueueOptions{MaxSnoozes: -1}, jobs.EventRetried, jobs.StateRetrying, time.Minute},
		{"NotBegun", jobs.NotBegun(errNo), jobs.QueueOptions{MaxAttempts: 1}, jobs.EventHandedBack, jobs.StateRetrying, 800 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			j := submit(t, func(context.Context, *stringJob) (string, error) { return "", row.err }, jobstest.Options{QueueOptions: row.o}, jobs.SubmitOptions{})
			a := j.Attempt(t.Context())
			if a.Kind != row.kind || a.State != row.state || !errors.Is(a.Err, row.err) || a.RetryIn < row.retryIn || row.retryIn == 0 && a.RetryIn != 0 {
				t.Errorf("Attempt = %+v; want %v, %v, %v, a wait of %v", a, row.kind, row.state, row.err, row.retryIn)
			}
		})
	}
}

// J26: a panic and runtime.Goexit are errors of the attempt.
func TestJ26_PanicsAreErrors(t *testing.T) {
	for name, f := range map[string]func(){"panic": func() { panic("oh") }, "Goexit": runtime.Goexit} {
		j := submit(t, func(context.Context, *stringJob) (string, error) { f(); return "", nil }, jobstest.Options{}, jobs.SubmitOptions{})
		if a := j.Attempt(t.Context()); a.Kind != jobs.EventRetried || a.Err == nil || name == "panic" && !strings.Contains(a.Err.Error(), "oh") {
			t.Errorf("Attempt after %s = %+v; want an error that is retried", name, a)
		}
	}
}

// J26: a panic is not the error that it panicked with, and the status of its job, which
// clients see, has no stack.
func TestJ26_APanicIsNotTheErrorItPanickedWith(t *testing.T) {
	for name, value := range map[string]error{
		"permanent": jobs.Permanent(errNo), "snooze": jobs.Snooze(time.Hour), "not begun": jobs.NotBegun(errNo),
		"a stack": fmt.Errorf("no\n\n%s", debug.Stack()),
	} {
		j := submit(t, func(context.Context, *stringJob) (string, error) { panic(value) }, jobstest.Options{}, jobs.SubmitOptions{})
		a := j.Attempt(t.Context())
		var p *jobs.PanicError
		if a.Kind != jobs.EventRetried || !errors.As(a.Err, &p) || p.Value != value || len(p.Stack) == 0 || errors.Is(a.Err, errNo) {
			t.Errorf("%s: Attempt = %+v; want a panic that is retried", name, a)
		}
		if text := fmt.Sprintf("%+v %v", j.Status(), a.Err); strings.Contains(text, "goroutine ") || strings.Contains(text, ".go:") {
			t.Errorf("%s: the status has a stack: %s", name, text)
		}
	}
}

// J26: attempts follow each other as on a queue, without waiting, and the job's clock
// includes the waits.
func TestJ26_FinishRunsAllAttempts(t *testing.T) {
	var waited []time.Duration
	h := func(_ context.Context, j *stringJob) (string, error) {
		if j.Attempt < 4 {
			return "", fmt.Errorf("attempt %d", j.Attempt)
		}
		return "done", nil
	}
	j := submit(t, h, jobstest.Options{}, jobs.SubmitOptions{Delay: time.Hour})
	if s := j.Status(); s.State != jobs.StateQueued || s.NotBefore.Sub(s.Submitted) != time.Hour {
		t.Errorf("Status = %+v; want a queued job that waits for an hour", s)
	}
	all := j.Finish(t.Context())
	if len(all) != 4 || all[3].Result != "done" {
		t.Fatalf("Finish = %+v; want four attempts, the last with a result", all)
	}
	for n, a := range all[:3] {
		waited = append(waited, a.RetryIn)
		if most := time.Second << n; a.RetryIn > most || a.RetryIn < most*4/5 {
			t.Errorf("wait after attempt %d = %v; want up to a fifth less than %v", n+1, a.RetryIn, most)
		}
	}
	s := j.Status()
	if s.State != jobs.StateDone || s.Attempt != 4 || len(s.History) != 3 || s.History[0].Error != "attempt 1" {
		t.Errorf("Status = %+v; want a done job with three failures", s)
	}
	if d := s.Started.Sub(s.Submitted); d < time.Hour+waited[0]+waited[1]+waited[2] {
		t.Errorf("the last attempt started %v after the submission; want the delay and the waits %v", d, waited)
	}
}

// J26: the end of an attempt's context has the meaning of its cause.
func TestJ26_CausesEndAttempts(t *testing.T) {
	for _, row := range []struct {
		cause error
		kind  jobs.EventKind
		state jobs.State
	}{
		{jobs.ErrCanceled, jobs.EventDropped, jobs.StateCanceled},
		{jobs.ErrLeaseLost, jobs.EventDropped, jobs.StateRetrying},
		{jobs.ErrStopping, jobs.EventHandedBack, jobs.StateRetrying},
	} {
		h := func(ctx context.Context, _ *stringJob) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		j := submit(t, h, jobstest.Options{}, jobs.SubmitOptions{})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(row.cause)
		if a := j.Attempt(ctx); a.Kind != row.kind || a.State != row.state || !errors.Is(a.Err, row.cause) {
			t.Errorf("Attempt with %v = %+v; want %v, %v", row.cause, a, row.kind, row.state)
		}
	}
}

// J26: an attempt is bounded by AttemptTimeout, and a handler that does not return is
// left behind.
func TestJ26_AttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := func(context.Context, *stringJob) (string, error) {
			time.Sleep(3 * time.Hour)
			return "late", nil
		}
		j := submit(t, h, jobstest.Options{QueueOptions: jobs.QueueOptions{MaxAttempts: 1}}, jobs.SubmitOptions{})
		began := time.Now()
		a := j.Attempt(t.Context())
		if d := time.Since(began); a.State != jobs.StateDead || d != time.Hour+time.Second {
			t.Errorf("Attempt = %+v after %v; want a dead job after an hour and a second", a, d)
		}
		if s := j.Status(); !strings.HasPrefix(s.Error, jobs.ErrTimeout.Error()) {
			t.Errorf("Status = %+v; want %v", s, jobs.ErrTimeout)
		}
		time.Sleep(3 * time.Hour) // the handler ends
	})
}

// J26: Middleware runs, and options and inputs that a queue refuses are refused.
func TestJ26_OptionsAreThoseOfAQueue(t *testing.T) {
	calls := 0
	h := func(_ context.Context, j *stringJob) (string, error) { return strings.Repeat(j.Input, 100), nil }
	m := func(ctx context.Context, _ jobs.JobInfo, next func(context.Context) error) error {
		calls++
		return next(ctx)
	}
	o := jobstest.Options{QueueOptions: jobs.QueueOptions{MaxInput: 10, MaxResult: 100}, Middleware: []jobs.Middleware{m}}
	kit := jobstest.New(h, o)
	if _, err := kit.Submit("more than 10 bytes", jobs.SubmitOptions{}); !errors.Is(err, jobs.ErrTooLarge) {
		t.Errorf("Submit = %v; want %v", err, jobs.ErrTooLarge)
	}
	if _, err := kit.Submit("in", jobs.SubmitOptions{Delay: -1}); !errors.As(err, new(*jobs.OptionError)) {
		t.Errorf("Submit = %v; want an *OptionError", err)
	}
	if _, err := jobstest.New(h, jobstest.Options{Queue: "a b"}).Submit("in", jobs.SubmitOptions{}); !errors.As(err, new(*jobs.OptionError)) {
		t.Errorf("Submit to a queue with a wrong name = %v; want an *OptionError", err)
	}
	j, err := kit.Submit("in", jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a := j.Attempt(t.Context()); calls != 1 || a.State != jobs.StateFailed || !errors.Is(a.Err, jobs.ErrTooLarge) {
		t.Errorf("Attempt = %+v after %d calls of the Middleware; want %v after one", a, calls, jobs.ErrTooLarge)
	}
	bad := jobs.Codec[string]{Encode: func(string) ([]byte, error) { return nil, nil }, Decode: func([]byte, int) (string, error) { return "", errNo }}
	j, err = kit.WithCodecs(bad, jobs.JSON[string]()).Submit("in", jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a := j.Attempt(t.Context()); a.State != jobs.StateDead || !errors.Is(a.Err, errNo) {
		t.Errorf("Attempt = %+v; want a dead job, because its input does not decode", a)
	}
}

// J26: a handler that is always handed back does not hang a test.
func TestJ26_FinishIsBounded(t *testing.T) {
	j := submit(t, func(context.Context, *stringJob) (string, error) { return "", jobs.NotBegun(errNo) }, jobstest.Options{}, jobs.SubmitOptions{})
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "the last 1000 attempts were handed back: no") {
			t.Errorf("Finish panicked with %v; want the reason", p)
		}
	}()
	j.Finish(t.Context())
}
