package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// faultLong is the text of an error that fills its share of a record.
var faultLong = strings.Repeat("why it failed ", jobs.MaxNote)

// faultLarge is a queue with one worker that fails every long input, and its server.
type faultLarge struct {
	t     *testing.T
	nc    *nats.Conn
	store *jobs.Store
	queue *faultQueue
}

func newFaultLarge(t *testing.T) *faultLarge {
	t.Helper()
	t.Parallel()
	nc := natstest.Start(t, natstest.Options{}).Connect()
	s := faultStore(t, nc, jobs.StoreOptions{})
	return &faultLarge{t, nc, s, faultNewQueue(t, s, jobs.QueueOptions{MaxInput: 4 << 20, MaxAttempts: 3, RetryInitial: time.Millisecond, RetryMax: time.Millisecond})}
}

func (f *faultLarge) work() {
	f.t.Helper()
	faultWork(f.t, f.queue, jobs.WorkerOptions{Concurrency: 1}, func(_ context.Context, j *faultJob) (string, error) {
		if len(j.Input) > 100 {
			return "", errors.New(faultLong)
		}
		return "of " + j.Input, nil
	})
}

// accept sets the size of the messages that the server accepts from now on.
func (f *faultLarge) accept(size int32) {
	f.t.Helper()
	js, err := jetstream.New(f.nc)
	if err != nil {
		f.t.Fatal(err)
	}
	stream, err := js.Stream(f.t.Context(), "WEIR_JOBS_1_default")
	if err != nil {
		f.t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	c.MaxMsgSize = size
	if _, err := js.UpdateStream(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

// largest returns the job of the largest input that the queue accepts.
func (f *faultLarge) largest() *faultHandle {
	f.t.Helper()
	for size := 1 << 20; size > 0; size -= 128 {
		h, err := f.queue.Submit(f.t.Context(), strings.Repeat("x", size), jobs.SubmitOptions{Key: "large"})
		if err == nil {
			if size < 900<<10 {
				f.t.Errorf("the largest accepted input has %d bytes; want nearly the server's 1 MiB", size)
			}
			return h
		}
		if !errors.Is(err, jobs.ErrTooLarge) {
			f.t.Fatalf("Submit of %d bytes = %v; want nil or %v", size, err, jobs.ErrTooLarge)
		}
	}
	f.t.Fatal("no input was accepted")
	return nil
}

// A job that fails for good is written with its input and with a history that it did
// not have when it was accepted. So the largest accepted input leaves room for that:
// otherwise the job would never end, and hold its worker's slot.
func TestFaultLargestInputThatFails(t *testing.T) {
	f := newFaultLarge(t)
	h := f.largest()
	f.work()
	if st := faultWantDead(t, h, 3, "why it failed"); len(st.History) != 3 {
		t.Errorf("the history has %d attempts; want 3", len(st.History))
	}
	faultWantResult(t, faultSubmit(t, f.queue, "a", jobs.SubmitOptions{}), "of a")
	if err := f.store.Retry(t.Context(), "fault", h.ID()); err != nil {
		t.Errorf("Retry = %v; want nil: the input is kept", err)
	}
}

// A server can accept less than it did when a job was submitted. The job ends all the
// same: without its history if that is enough, and otherwise without its input, which
// then cannot be retried.
func TestFaultServerAcceptsLessThanBefore(t *testing.T) {
	const input = 100_000
	for name, c := range map[string]struct {
		size  int32
		retry error
	}{
		"than the history": {input + 2500, nil},
		"than the input":   {input / 2, jobs.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultLarge(t)
			in := strings.Repeat("x", input)
			dead := faultSubmit(t, f.queue, in, jobs.SubmitOptions{})
			late := faultSubmit(t, f.queue, in, jobs.SubmitOptions{Deadline: time.Millisecond})
			canceled := faultSubmit(t, f.queue, in, jobs.SubmitOptions{Delay: time.Hour})
			f.accept(c.size)
			if err := canceled.Cancel(t.Context()); err != nil {
				t.Errorf("Cancel = %v; want nil", err)
			}
			f.work()
			if st := faultWantDead(t, dead, 3, "why it failed"); len(st.History) != 0 {
				t.Errorf("the history has %d attempts; want none, there is no room", len(st.History))
			}
			if _, err := faultWait(t, late); !strings.Contains(err.Error(), jobs.ErrExpired.Error()) {
				t.Errorf("Wait = %v; want %v", err, jobs.ErrExpired)
			}
			faultWantResult(t, faultSubmit(t, f.queue, "a", jobs.SubmitOptions{}), "of a")
			for _, h := range []*faultHandle{dead, late, canceled} {
				if err := f.store.Retry(t.Context(), "fault", h.ID()); !errors.Is(err, c.retry) {
					t.Errorf("Retry = %v; want %v", err, c.retry)
				}
			}
		})
	}
}
