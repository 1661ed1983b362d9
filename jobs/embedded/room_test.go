package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// openQueue opens a queue over a connection.
func openQueue(t *testing.T, nc *nats.Conn) (*jobs.Store, *jobs.Queue[string, string]) {
	t.Helper()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	q, err := jobs.NewQueue[string, string](t.Context(), store, "q", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return store, q
}

// The bound on the disk that accepting can reach leaves room for what was accepted.
func TestJ17_AcceptedJobsEndOnADiskThatRefusesNewOnes(t *testing.T) {
	var free atomic.Int64
	free.Store(100 << 20)
	t.Cleanup(embedded.SetFree(&free))
	s := start(t, embedded.Options{Dir: t.TempDir(), MinFree: 64 << 20, Listen: "127.0.0.1:0"})
	here, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(here.Close)
	for _, from := range []struct {
		name string
		nc   *nats.Conn
	}{{"this process", here}, {"another program", connectTo(t, s.Addr())}} {
		t.Run(from.name, func(t *testing.T) {
			free.Store(100 << 20)
			eventually(t, "new jobs are accepted", func() bool { return s.Err() == nil })
			free.Store(65 << 20)
			store, q := openQueue(t, from.nc)
			var accepted []*jobs.Handle[string]
			for i := range 20 {
				h, err := q.Submit(t.Context(), fmt.Sprint(i), jobs.SubmitOptions{})
				if err != nil {
					t.Fatal(err)
				}
				accepted = append(accepted, h)
			}

			// A disk can be filled in less time than there is between two looks.
			big := strings.Repeat("x", 100<<10)
			h, err := q.Submit(t.Context(), big, jobs.SubmitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			accepted = append(accepted, h)
			free.Store(64<<20 - 1)
			_, err = q.Submit(t.Context(), big, jobs.SubmitOptions{})
			if full, ok := errors.AsType[*jobs.FullError](err); !ok || full.Reason != jobs.FullStore {
				t.Errorf("Submit to a full disk = %v; want a FullError", err)
			}
			eventually(t, "the server reports it", func() bool { return s.Err() != nil })
			if s.Err() == nil || s.Down() != nil {
				t.Errorf("Err, Down = %v, %v; want that the disk is full, and that the server runs", s.Err(), s.Down())
			}
			if err := store.Cancel(t.Context(), "q", accepted[0].ID()); err != nil {
				t.Errorf("Cancel on a full store = %v; want nil", err)
			}
			if err := store.Drop(t.Context(), "q", accepted[0].ID()); err != nil {
				t.Errorf("Drop on a full store = %v; want nil", err)
			}
			w, err := q.Work(func(_ context.Context, j *jobs.Job[string]) (string, error) { return j.Input, nil }, jobs.WorkerOptions{Concurrency: 4})
			if err != nil {
				t.Fatal(err)
			}
			for i, h := range accepted[1:] {
				want := fmt.Sprint(i + 1)
				if i+1 == 20 {
					want = big
				}
				if got, err := h.Wait(t.Context()); err != nil || got != want {
					t.Errorf("job %d = %q, %v; want its result", i+1, got, err)
				}
			}
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
			free.Store(100 << 20)
			eventually(t, "Submit is accepted again", func() bool {
				_, err := q.Submit(t.Context(), "later", jobs.SubmitOptions{})
				return err == nil
			})
		})
	}
}
