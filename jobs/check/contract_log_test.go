package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs"
)

// texts returns the log of a job, with the attempts.
func texts(s jobs.Status) (all []string) {
	for _, l := range s.Log {
		all = append(all, fmt.Sprintf("%d %s", l.Attempt, l.Text))
	}
	return all
}

// J29: Status has the lines that the handler has written, while the attempt runs and after
// it, of all attempts. They follow a retry by the Worker, but not one by an operator, and a
// cancellation keeps them. List leaves them out.
func TestJ29_AHandlersLinesAreInTheStatus(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 2})
	goOn := make(chan struct{})
	var late *stringJob
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		j.Log("one\n\n  two\x1b[31m \r\n")
		if j.Attempt == 1 {
			return "", errors.New("no")
		}
		j.Log("three")
		late = j
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		j.Log("last")
		return "", errors.New("never")
	})
	h := r.submit(q, "in", jobs.SubmitOptions{})
	want := []string{"1 one", "1   two [31m", "2 one", "2   two [31m", "2 three"}
	r.eventually("the lines of a running attempt", func() bool { return slices.Equal(texts(r.status(h)), want) })
	if s := r.status(h); s.State != jobs.StateRunning || s.Logged != 5 || s.Log[4].At.Before(s.Submitted) {
		t.Errorf("Status = %+v; want a running job with five lines and their times", s)
	}
	close(goOn)
	r.eventually("the end", func() bool { return r.status(h).State == jobs.StateDead })
	want = append(want, "2 last")
	late.Log("too late")
	if s := r.status(h); !slices.Equal(texts(s), want) || s.Logged != 6 {
		t.Errorf("log %q, %d lines; want %q", texts(s), s.Logged, want)
	}
	all, err := r.store.List(t.Context(), jobs.Filter{})
	if err != nil || len(all) != 1 || all[0].Log != nil || all[0].Logged != 6 {
		t.Errorf("List = %+v, %v; want the job without its lines", all, err)
	}

	goOn = make(chan struct{}) // nothing runs now
	if err := r.store.Retry(t.Context(), "q", h.ID()); err != nil {
		t.Fatal(err)
	}
	want = []string{"1 one", "1   two [31m", "2 one", "2   two [31m", "2 three"}
	r.eventually("the lines of the new run", func() bool { return slices.Equal(texts(r.status(h)), want) })
	if err := r.store.Cancel(t.Context(), "q", h.ID()); err != nil {
		t.Fatal(err)
	}
	if s := r.status(h); s.State != jobs.StateCanceled || !slices.Equal(texts(s), want) {
		t.Errorf("Status = %+v; want a canceled job with %q", s, want)
	}
}

// J29: a log has bounds for lines, their length and their sum. The last lines are kept,
// and all are counted.
func TestJ29_LogsAreBounded(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		for n := range 500 {
			j.Log(fmt.Sprint("line ", n))
		}
		if j.Input == "long" {
			j.Log(strings.Repeat(strings.Repeat("ü", jobs.MaxLogLine)+"\n", 500))
		}
		return "", nil
	})
	h := r.submit(q, "short", jobs.SubmitOptions{})
	r.wantResult(h, "")
	if s := r.status(h); s.Logged != 500 || len(s.Log) != jobs.MaxLogLines || s.Log[0].Text != fmt.Sprint("line ", 500-jobs.MaxLogLines) || s.Log[len(s.Log)-1].Text != "line 499" {
		t.Errorf("%d lines of %d, %q; want the last %d of 500", len(s.Log), s.Logged, texts(s), jobs.MaxLogLines)
	}
	h = r.submit(q, "long", jobs.SubmitOptions{})
	r.wantResult(h, "")
	s, sum := r.status(h), 0
	for _, l := range s.Log {
		sum += len(l.Text)
		if l.Text != strings.Repeat("ü", jobs.MaxLogLine/2) {
			t.Errorf("a line has %d bytes; want %d", len(l.Text), jobs.MaxLogLine)
		}
	}
	if s.Logged != 1000 || sum != jobs.MaxLogBytes {
		t.Errorf("%d lines, %d bytes; want 1000 and the bound, %d", s.Logged, sum, jobs.MaxLogBytes)
	}
}
