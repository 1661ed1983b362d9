package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
	"github.com/weir-go/weir/jobs/embedded"
)

// faultInput is so large that a few dozen inputs fill a store.
var faultInput = strings.Repeat("x", 32<<10)

// faultFill submits until the queue rejects a job, and returns the accepted jobs.
func faultFill(t *testing.T, q *faultQueue) (accepted []*faultHandle, refusal error) {
	t.Helper()
	for range 1000 {
		h, err := q.Submit(t.Context(), faultInput, jobs.SubmitOptions{})
		if err != nil {
			return accepted, err
		}
		accepted = append(accepted, h)
	}
	t.Fatal("1000 inputs of 32 KiB were accepted; want a rejection")
	return nil, nil
}

func TestFaultStoreFull(t *testing.T) {
	for _, level := range []jobs.Durability{jobs.DurabilityProcess, jobs.DurabilityDisk} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, natstest.Options{Sync: level == jobs.DurabilityDisk})
			s := faultStore(t, server.Connect(), jobs.StoreOptions{MaxBytes: 2 << 20, Durability: level})
			q := faultNewQueue(t, s, jobs.QueueOptions{})

			// One job is running while the store becomes full.
			running, end := make(chan struct{}), make(chan struct{})
			w := faultWork(t, q, jobs.WorkerOptions{Concurrency: 1}, func(ctx context.Context, j *faultJob) (string, error) {
				if j.Input == "first" {
					close(running)
					<-end
				}
				return "of " + j.Input[:5], nil
			})
			first := faultSubmit(t, q, "first", jobs.SubmitOptions{})
			<-running
			accepted, refusal := faultFill(t, q)
			faultWantFull(t, refusal)
			if n := len(accepted); n < 45 || n > 57 {
				t.Errorf("%d inputs of 32 KiB were accepted into nine tenths of 2 MiB; want 45 to 57", n)
			}
			faultWantJobs(t, s, len(accepted)+1)
			if got := q.Stats(); got.Refused != 1 || got.Submitted != uint64(len(accepted)+1) {
				t.Errorf("Stats = %+v; want 1 rejected, %d submitted", got, len(accepted)+1)
			}

			// Results still fit, and their jobs make room.
			close(end)
			faultWantResult(t, first, "of first")
			for _, h := range accepted {
				faultWantResult(t, h, "of xxxxx")
			}
			faultEventually(t, "a job is accepted again", func() bool {
				_, err := q.Submit(t.Context(), faultInput, jobs.SubmitOptions{})
				return err == nil
			})
			if got := w.Stats(); got.Trouble != 0 {
				t.Errorf("Stats = %+v; want no Trouble", got)
			}
		})
	}
}

// Other data on the server reaches the server's own limit, so that there is no room
// for results either.
func TestFaultServerFull(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{MaxStore: 8 << 20})
	nc := server.Connect()
	s := faultStore(t, nc, jobs.StoreOptions{MaxBytes: 4 << 20})
	q := faultNewQueue(t, s, jobs.QueueOptions{Lease: 3 * time.Second})
	running, end := make(chan struct{}), make(chan struct{})
	w := faultWork(t, q, jobs.WorkerOptions{}, func(ctx context.Context, j *faultJob) (string, error) {
		if j.Input == "first" {
			close(running)
			select {
			case <-end:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		return "of " + j.Input, nil
	})
	first := faultSubmit(t, q, "first", jobs.SubmitOptions{})
	<-running
	hog := faultHog(t, nc)

	_, err := q.Submit(t.Context(), "second", jobs.SubmitOptions{Key: "k"})
	faultWantFull(t, err)
	faultWantJobs(t, s, 1)
	close(end)
	faultEventually(t, "the result is rejected", func() bool { return w.Stats().Trouble > 0 })
	// Wait for longer than the lease: the attempt keeps its job.
	<-time.After(q.Lease() * 3 / 2)
	if err := hog.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	faultWantResult(t, first, "of first")
	if st := faultStatus(t, first); st.Attempt != 1 {
		t.Errorf("Attempt = %d; want 1: the result waited for room", st.Attempt)
	}
	second := faultSubmit(t, q, "second", jobs.SubmitOptions{Key: "k"})
	if second.Joined() {
		t.Error("Joined = true; want false: nothing was stored of the rejected job")
	}
	faultWantResult(t, second, "of second")
}

// faultHog fills the server.
func faultHog(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	hog, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "HOG", Subjects: []string{"hog"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err = js.Publish(t.Context(), "hog", make([]byte, 64<<10)); err != nil {
			return hog
		}
	}
	t.Fatal("200 messages of 64 KiB were accepted; want a full server")
	return nil
}

// A server that keeps part of its disk free also rejects jobs.
func TestFaultDiskFullOfAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(minFree int64) (*embedded.Server, *faultQueue, *jobs.Store) {
		server, err := embedded.Start(embedded.Options{Dir: dir, MinFree: minFree})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close(context.Background()) })
		nc, err := server.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		s := faultStore(t, nc, jobs.StoreOptions{Durability: server.Durability()})
		return server, faultNewQueue(t, s, jobs.QueueOptions{}), s
	}
	server, q, s := start(-1)
	first := faultSubmit(t, q, "first", jobs.SubmitOptions{})
	s.Close(context.Background())
	server.Close(context.Background())

	server, q, s = start(math.MaxInt64 / 2) // no disk is this large
	_, err := q.Submit(t.Context(), "second", jobs.SubmitOptions{Key: "k"})
	faultWantFull(t, err)
	faultWantJobs(t, s, 1)
	s.Close(context.Background())
	server.Close(context.Background())

	_, q, _ = start(-1)
	faultWork(t, q, jobs.WorkerOptions{}, faultEcho)
	second := faultSubmit(t, q, "second", jobs.SubmitOptions{Key: "k"})
	if second.Joined() {
		t.Error("Joined = true; want false: nothing was stored of the rejected job")
	}
	faultWantResult(t, q.Job(first.ID()), "of first")
	faultWantResult(t, second, "of second")
}

// After a failed write, a server sends no more acknowledgements. What it acknowledged
// is still there after its restart; what it did not acknowledge is there completely
// or not at all.
func TestFaultWriteOfTheServerFails(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{Sync: true})
	s := faultStore(t, server.Connect(), jobs.StoreOptions{Timeout: time.Second, Durability: jobs.DurabilityDisk})
	q := faultNewQueue(t, s, jobs.QueueOptions{})
	server.LimitFiles(512 << 10)
	type try struct {
		key string
		err error
	}
	const submitters = 4
	tries := make(chan try)
	for i := range submitters {
		go func() { // ends when a Submit fails
			for n := 0; ; n++ {
				key := fmt.Sprintf("%d-%d", i, n)
				_, err := q.Submit(t.Context(), key+faultInput, jobs.SubmitOptions{Key: key})
				tries <- try{key, err}
				if err != nil {
					return
				}
			}
		}()
	}
	var accepted, refused []string
	for len(refused) < submitters {
		switch got := <-tries; {
		case got.err == nil:
			accepted = append(accepted, got.key)
		case errors.Is(got.err, jobs.ErrUnavailable):
			refused = append(refused, got.key)
		default:
			t.Fatalf("Submit(%s) = %v; want %v", got.key, got.err, jobs.ErrUnavailable)
		}
	}
	if len(accepted) == 0 {
		t.Error("nothing was accepted before the write failed; want some")
	}
	server.Restart()

	faultEventually(t, "the server responds again", func() bool { return s.Ping(t.Context()) == nil })
	faultWork(t, q, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
		return j.Key + fmt.Sprint(len(j.Input)-len(j.Key)), nil
	})
	for _, key := range accepted {
		h := faultSubmit(t, q, key+faultInput, jobs.SubmitOptions{Key: key})
		if !h.Joined() {
			t.Errorf("job %s was acknowledged but is gone", key)
		}
		faultWantResult(t, h, key+fmt.Sprint(len(faultInput)))
	}
	for _, key := range refused {
		faultWantResult(t, faultSubmit(t, q, key+faultInput, jobs.SubmitOptions{Key: key}), key+fmt.Sprint(len(faultInput)))
	}
}

// JetStream has its own bound for a message. The largest allowed input and result are
// within it.
func TestFaultLargestInputAndResult(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(context.Background()) })
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := faultStore(t, nc, jobs.StoreOptions{MaxBytes: 1 << 30, Timeout: 30 * time.Second})
	raw := jobs.Codec[string]{
		Encode: func(s string) ([]byte, error) { return []byte(s), nil },
		Decode: func(data []byte, _ int) (string, error) { return string(data), nil },
	}
	q := faultNewQueue(t, s, jobs.QueueOptions{Lease: faultPatience, MaxInput: jobs.MaxPayload, MaxResult: jobs.MaxPayload})
	q = q.WithCodecs(raw, raw)
	faultWork(t, q, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) { return j.Input, nil })
	long := strings.Repeat("<", jobs.MaxKey)
	in := strings.Repeat("x", jobs.MaxPayload)
	h := faultSubmit(t, q, in, jobs.SubmitOptions{Key: long, Owner: long})
	ctx, cancel := context.WithTimeout(t.Context(), 4*faultPatience)
	defer cancel()
	if got, err := h.Wait(ctx); got != in || err != nil {
		t.Errorf("Wait = %d bytes, %v; want %d, nil", len(got), err, len(in))
	}
}
