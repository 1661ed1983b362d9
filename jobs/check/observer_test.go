package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/jobs"
)

// onEvent calls event for each Event.
type onEvent struct {
	jobs.NopObserver
	event func(jobs.Event)
}

func (o onEvent) Event(_ context.Context, e jobs.Event) { o.event(e) }

type attemptEnd struct {
	jobs.AttemptInfo
	jobs.AttemptEnd
}

// onEnd calls end for each AttemptEnd.
type onEnd struct {
	jobs.NopObserver
	end func(attemptEnd)
}

func (o onEnd) AttemptEnd(_ context.Context, a jobs.AttemptInfo, end jobs.AttemptEnd) {
	o.end(attemptEnd{a, end})
}

type linkKey struct{}

// A jobLink is one of several Observers, which all record their calls in one log.
type jobLink struct {
	name string
	log  *linkLog
	act  func() // may panic or exit
}

type linkLog struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l jobLink) note(ctx context.Context, what string) {
	own, _ := ctx.Value(linkKey{}).(string)
	l.log.mu.Lock()
	l.log.lines = append(l.log.lines, fmt.Sprint(what, " ", l.name, " ", own))
	l.log.mu.Unlock()
	if l.act != nil {
		l.act()
	}
}

func (l jobLink) AttemptStart(ctx context.Context, a jobs.AttemptInfo) context.Context {
	l.note(ctx, fmt.Sprint("start ", a.Attempt))
	return context.WithValue(ctx, linkKey{}, "of "+l.name)
}

func (l jobLink) AttemptEnd(ctx context.Context, a jobs.AttemptInfo, end jobs.AttemptEnd) {
	if ctx.Err() != nil || end.Start.IsZero() || a.ID == "" || a.Fence == 0 {
		l.note(ctx, "wrong")
	}
	l.note(ctx, fmt.Sprint("end ", a.Attempt, " ", end.Kind, " ", end.State))
}

func (l jobLink) Event(ctx context.Context, e jobs.Event) { l.note(ctx, e.Kind.String()) }

// O2: Observers are called in order at the start and in reverse order at the end,
// each with the context that it returned. The handler gets the context of the last
// one.
func TestO2ObserversOfAttempts(t *testing.T) {
	r := contract(t)
	var log linkLog
	ends := make(chan bool, 2)
	last := onEnd{end: func(attemptEnd) { ends <- true }}
	q := r.queue(jobs.QueueOptions{})
	r.work(q, jobs.WorkerOptions{Concurrency: 1, Observer: jobs.Observers(last, jobLink{"a", &log, nil}, nil, jobLink{"b", &log, nil})},
		func(ctx context.Context, j *stringJob) (string, error) {
			if j.Attempt == 1 {
				return "", jobs.RetryIn(errors.New("once more"), 0)
			}
			return ctx.Value(linkKey{}).(string), nil
		})
	r.wantResult(r.submit(q, "x", jobs.SubmitOptions{}), "of b")
	<-ends
	<-ends
	want := []string{
		"start 1 a ", "start 1 b of a", "end 1 retried b of b", "end 1 retried a of a",
		"start 2 a ", "start 2 b of a", "end 2 succeeded done b of b", "end 2 succeeded done a of a",
	}
	for i := range log.lines {
		log.lines[i] = strings.Join(strings.Fields(log.lines[i]), " ")
		want[i] = strings.TrimSpace(want[i])
	}
	if !slices.Equal(log.lines, want) {
		t.Errorf("calls = %q; want %q", log.lines, want)
	}
}

// O2: a panic or runtime.Goexit in an Observer neither prevents calls of the other
// Observers nor loses the job's result.
func TestO2ObserversOfAttemptsAreIsolated(t *testing.T) {
	for name, act := range map[string]func(){"panic": func() { panic("observer") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			r := contract(t)
			var log, alone linkLog
			ends := make(chan bool, 1)
			last := onEnd{end: func(attemptEnd) { ends <- true }}
			q := r.queue(jobs.QueueOptions{})
			w := r.work(q, jobs.WorkerOptions{Observer: jobs.Observers(last, jobLink{"bad", &log, act}, jobLink{"good", &log, nil})}, new(contractLog).echo)
			r.wantResult(r.submit(q, "x", jobs.SubmitOptions{}), "x")
			<-ends
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"start 1 bad", "start 1 good", "end 1 succeeded done good", "end 1 succeeded done bad"} {
				if !slices.ContainsFunc(log.lines, func(l string) bool { return strings.HasPrefix(l, call) }) {
					t.Errorf("calls = %q; want %q among them", log.lines, call)
				}
			}
			r.work(q, jobs.WorkerOptions{Observer: jobLink{"alone", &alone, act}}, new(contractLog).echo)
			r.wantResult(r.submit(q, "y", jobs.SubmitOptions{}), "y")
		})
	}
}
