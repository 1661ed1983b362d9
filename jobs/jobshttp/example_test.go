package jobshttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// A route whose clients can send Prefer: respond-async. The request becomes a job,
// and its status is under service.Path.
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

	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the report") })
	service, err := jobshttp.New(store, jobshttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	report, err := service.Route(ctx, "report", slow, jobshttp.RouteOptions{})
	if err != nil {
		log.Fatal(err)
	}
	workers, err := report.Work(jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer workers.Close(ctx)
	http.Handle("/report", report)
	http.Handle(service.Path(), service)
	log.Print(http.ListenAndServe("127.0.0.1:8080", nil))
}
