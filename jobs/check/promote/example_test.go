package promote_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/promote"
)

// A report takes longer than its caller is willing to wait. The call becomes a job,
// and the load already in progress serves both.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "jobs")})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close(context.Background())
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(context.Background())

	enough := make(chan bool)
	makeReport := func(ctx context.Context, month string) (string, error) {
		fmt.Println("making", month)
		<-enough
		return "the report of " + month, nil
	}
	reports, err := weir.New(makeReport, weir.Options{TTL: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	defer reports.Close(ctx)
	queue, err := jobs.NewQueue[string, string](ctx, store, "reports", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	later, err := promote.New(reports, queue, promote.Options[string]{Budget: 50 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer later.Close(context.Background())
	worker, err := later.Work(jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)

	report, job, err := later.Get(ctx, "October")
	fmt.Printf("%q, a job: %t, %v\n", report, job != nil, err)

	close(enough)
	report, err = job.Wait(ctx)
	fmt.Printf("%q, %v\n", report, err)

	report, job, err = later.Get(ctx, "October")
	fmt.Printf("%q, a job: %t, %v\n", report, job != nil, err)
	// Output:
	// making October
	// "", a job: true, <nil>
	// "the report of October", <nil>
	// "the report of October", a job: false, <nil>
}
