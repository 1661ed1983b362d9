package promote_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/promote"
)

// The report takes longer than its caller can wait. After 50 ms the call becomes a
// job, and the running load serves both.
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

	makeReport := func(ctx context.Context, month string) (string, error) { return "the report of " + month, nil }
	reports := weir.Must(weir.New(makeReport, weir.Options{TTL: time.Hour}))
	defer reports.Close(ctx)
	queue, err := jobs.NewQueue[string, string](ctx, store, "reports", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	later, err := promote.New(reports, queue, promote.Options[string]{Budget: 50 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer later.Close(ctx)
	report, job, err := later.Get(ctx, "November")
	if job != nil {
		report, err = job.Wait(ctx)
	}
	fmt.Println(report, err)
}
