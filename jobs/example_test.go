package jobs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
)

// A program submits a job to a NATS server with JetStream, runs it, and waits for the
// result. Package jobs/embedded has a runnable example with a server inside the
// program.
func Example() {
	ctx := context.Background()
	conn, err := nats.Connect("nats://127.0.0.1:4222")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	reports, err := jobs.NewQueue[string, string](ctx, store, "reports", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	worker, err := reports.Work(func(ctx context.Context, job *jobs.Job[string]) (string, error) {
		return "the report of " + job.Input, nil
	}, jobs.WorkerOptions{Concurrency: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)

	job, err := reports.Submit(ctx, "November", jobs.SubmitOptions{Key: "2026-11"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Wait(ctx))
}

// A handler says that no retry will help.
func ExamplePermanent() {
	err := jobs.Permanent(fmt.Errorf("no such month"))
	fmt.Println(err)
	// Output: no such month
}
