package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/internal/journal"
)

// A heldFlusher replaces a server's flusher: it reports its waiters, and releases
// none before the test does.
type heldFlusher struct{ asked, let chan struct{} }

func (f heldFlusher) Flush(ctx context.Context, _ string) error {
	f.asked <- struct{}{}
	select {
	case <-f.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (heldFlusher) Begin(string) {}

// J1: with level disk, nothing is acknowledged before it was flushed: neither a
// Submit, nor a Submit that joins, nor a result, nor a cancel.
func TestJ1NothingIsToldBeforeItIsFlushed(t *testing.T) {
	srv, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityDisk})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	q := queue[int, int](t, s, "held", jobs.QueueOptions{})
	f := heldFlusher{make(chan struct{}), make(chan struct{})}
	defer journal.ServeLocally(nc.ConnectedServerId(), f)()

	var h *jobs.Handle[int]
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"Submit", func() (err error) { h, err = q.Submit(t.Context(), 1, jobs.SubmitOptions{Key: "k"}); return err }},
		{"Submit that joins", func() error { _, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{Key: "k"}); return err }},
		{"Cancel", func() error { return h.Cancel(t.Context()) }},
		{"Wait", func() error {
			if _, err := h.Wait(t.Context()); !errors.Is(err, jobs.ErrCanceled) {
				return err
			}
			return nil
		}},
	} {
		done := make(chan error, 1)
		go func() { done <- step.do() }()
		select {
		case err := <-done:
			t.Fatalf("%s = %v before a flush was requested", step.what, err)
		case <-f.asked:
		}
		select {
		case err := <-done:
			t.Fatalf("%s = %v before the flush had ended", step.what, err)
		default:
		}
		f.let <- struct{}{}
		if err := <-done; err != nil {
			t.Fatalf("%s = %v; want nil", step.what, err)
		}
	}
}
