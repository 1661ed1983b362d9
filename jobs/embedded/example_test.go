package embedded_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// The program keeps its jobs in a folder. It submits a job, runs it, and waits for
// the result.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "jobs-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "jobs"), MinFree: -1})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(ctx)
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
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
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)

	job, err := reports.Submit(ctx, "November", jobs.SubmitOptions{Key: "2026-11"})
	if err != nil {
		log.Fatal(err)
	}
	report, err := job.Wait(ctx)
	fmt.Println(report, err, store.Durability())
	// Output: the report of November <nil> disk
}
