package jobs_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
)

// A Worker whose slots became free one by one has one request at the server again
// soon after, not one for each slot.
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
	r.eventually("all slots are in one request", func() bool { return requests() == 1 })
}
