package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// faultAlone returns a queue on a separate server.
func faultAlone(t *testing.T, o jobs.QueueOptions) *faultQueue {
	t.Helper()
	t.Parallel()
	return faultNewQueue(t, faultStore(t, natstest.Start(t, natstest.Options{}).Connect(), jobs.StoreOptions{}), o)
}

func TestFaultHandlerPanics(t *testing.T) {
	q := faultAlone(t, jobs.QueueOptions{MaxAttempts: 3})
	w := faultWork(t, q, jobs.WorkerOptions{Concurrency: 1}, func(_ context.Context, j *faultJob) (string, error) {
		switch j.Input {
		case "panic":
			panic("out of luck")
		case "index":
			return "of " + [1]string{}[len(j.Input)], nil
		case "nil":
			panic(error(nil))
		}
		return "of " + j.Input, nil
	})
	for in, why := range map[string]string{"panic": "out of luck", "index": "out of range", "nil": "panicked"} {
		h := faultSubmit(t, q, in, jobs.SubmitOptions{})
		st := faultWantDead(t, h, 3, why)
		if len(st.History) != 3 || strings.Contains(st.Error, "goroutine") {
			t.Errorf("Status(%s) = %+v; want three failed attempts, and no stack: clients see the error", in, st)
		}
	}
	faultWantResult(t, faultSubmit(t, q, "good", jobs.SubmitOptions{}), "of good")
	want := jobs.WorkerStats{Started: 10, Retried: 6, Ended: 3, Dead: 3, Succeeded: 1}
	faultEventually(t, "10 attempts started, 6 were retried, 3 ended their jobs, 1 succeeded", func() bool { return w.Stats() == want })
}

func TestFaultHandlerNeverReturns(t *testing.T) {
	q := faultAlone(t, jobs.QueueOptions{MaxAttempts: 2, AttemptTimeout: 200 * time.Millisecond})
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	causes := make(chan error, 10)
	faultWork(t, q, jobs.WorkerOptions{Concurrency: 2}, func(ctx context.Context, j *faultJob) (string, error) {
		if j.Input == "hang" {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			<-hang // ignores the end of its context
		}
		return "of " + j.Input, nil
	})
	stuck := faultSubmit(t, q, "hang", jobs.SubmitOptions{})
	for range 5 {
		faultWantResult(t, faultSubmit(t, q, "good", jobs.SubmitOptions{}), "of good")
	}
	st := faultWantDead(t, stuck, 2, "timed out")
	if !strings.Contains(st.Error, "has not returned") || len(st.History) != 2 {
		t.Errorf("Status = %+v; want two attempts that have not returned", st)
	}
	for range 2 {
		if cause := <-causes; !errors.Is(cause, jobs.ErrTimeout) {
			t.Errorf("cause of the context = %v; want %v", cause, jobs.ErrTimeout)
		}
	}
}

// As many handlers hang as there are slots, and other jobs still run.
func TestFaultHandlersThatHangLeaveTheirSlots(t *testing.T) {
	q := faultAlone(t, jobs.QueueOptions{MaxAttempts: 1, AttemptTimeout: 100 * time.Millisecond})
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	faultWork(t, q, jobs.WorkerOptions{Concurrency: 2}, func(_ context.Context, j *faultJob) (string, error) {
		if j.Input == "hang" {
			<-hang
		}
		return "of " + j.Input, nil
	})
	var stuck []*faultHandle
	for range 4 {
		stuck = append(stuck, faultSubmit(t, q, "hang", jobs.SubmitOptions{}))
	}
	faultWantResult(t, faultSubmit(t, q, "good", jobs.SubmitOptions{}), "of good")
	for _, h := range stuck {
		faultWantDead(t, h, 1, "timed out")
	}
}

func TestFaultCodecPanics(t *testing.T) {
	q := faultAlone(t, jobs.QueueOptions{MaxAttempts: 1})
	q = q.WithCodecs(jobs.Codec[string]{
		Encode: func(s string) ([]byte, error) { return []byte(s), nil },
		Decode: func(data []byte, _ int) (string, error) {
			if string(data) == "bad" {
				panic("cannot read it")
			}
			return string(data), nil
		},
	}, jobs.JSON[string]())
	faultWork(t, q, jobs.WorkerOptions{}, faultEcho)
	faultWantDead(t, faultSubmit(t, q, "bad", jobs.SubmitOptions{}), 1, "cannot read it")
	faultWantResult(t, faultSubmit(t, q, "good", jobs.SubmitOptions{}), "of good")
}

// What is stored of a job goes into a message header of bounded size. The second
// character takes six bytes there, so not all errors have room.
func TestFaultErrorsAreLong(t *testing.T) {
	q := faultAlone(t, jobs.QueueOptions{MaxAttempts: jobs.MaxHistory + 2, RetryInitial: time.Millisecond, RetryMax: time.Millisecond})
	w := faultWork(t, q, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
		j.Progress(jobs.Progress{Note: j.Input})
		return "", errors.New(j.Input + j.Input)
	})
	for char, least := range map[string]int{"<": jobs.MaxHistory, "\x01": 3} {
		long := strings.Repeat(char, jobs.MaxKey)
		h := faultSubmit(t, q, long, jobs.SubmitOptions{Key: long, Owner: long, Serial: long})
		st := faultWantDead(t, h, jobs.MaxHistory+2, long)
		n := len(st.History)
		if n < least || st.History[n-1].Attempt != jobs.MaxHistory+2 || st.Key != long || st.Owner != long {
			t.Errorf("Status has %d failed attempts, a key of %d bytes and an owner of %d bytes; want at least the last %d, then %d and %d",
				n, len(st.Key), len(st.Owner), least, len(long), len(long))
		}
	}
	if n := w.Stats().Trouble; n != 0 {
		t.Errorf("Trouble = %d; want 0", n)
	}
}
