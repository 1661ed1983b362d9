package jobs_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
)

// After its slots have become free one by one, a Worker soon has one request at the
// server again, not one per slot.
func TestWorkersGatherTheirRequests(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	r.work(q, jobs.WorkerOptions{Concurrency: 16}, func(_ context.Context, j *stringJob) (string, error) { return j.Input, nil })
	for range 16 {
		r.wantResult(r.submit(q, "a", jobs.SubmitOptions{}), "a")
	}
	nc, err := nats.Connect(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	requests := func() (n int) {
		for stream := range js.ListStreams(t.Context()).Info() {
			s, err := js.Stream(t.Context(), stream.Config.Name)
			if err != nil {
				t.Fatal(err)
			}
			for c := range s.ListConsumers(t.Context()).Info() {
				n += c.NumWaiting
			}
		}
		return n
	}
	r.eventually("one request covers all slots", func() bool { return requests() == 1 })
}
