package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// exampleStore opens a new Store for an example.
func exampleStore() (store *jobs.Store, end func()) {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		log.Fatal(err)
	}
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "jobs")})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := server.Connect()
	if err != nil {
		log.Fatal(err)
	}
	store, err = jobs.Open(context.Background(), conn, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		log.Fatal(err)
	}
	return store, func() {
		store.Close(context.Background())
		conn.Close()
		server.Close(context.Background())
		os.RemoveAll(dir)
	}
}

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

	shout, err := jobs.NewQueue[string, string](ctx, store, "shout", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	worker, err := shout.Work(func(ctx context.Context, job *jobs.Job[string]) (string, error) {
		return strings.ToUpper(job.Input), nil
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)

	job, err := shout.Submit(ctx, "hello", jobs.SubmitOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted, level", job.Durability())
	result, err := job.Wait(ctx)
	fmt.Println(result, err)
	// Output:
	// accepted, level disk
	// HELLO <nil>
}

// Two requests for the same report are one job, even after it is done. Another input
// with the same key is rejected.
func ExampleSubmitOptions_key() {
	ctx := context.Background()
	store, end := exampleStore()
	defer end()
	type request struct{ Month, Language string }
	reports, err := jobs.NewQueue[request, string](ctx, store, "reports", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	october := jobs.SubmitOptions{Key: "2026-10"}

	first, err := reports.Submit(ctx, request{"October", "en"}, october)
	if err != nil {
		log.Fatal(err)
	}
	second, err := reports.Submit(ctx, request{"October", "en"}, october)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("joined:", first.Joined(), second.Joined(), "- one job:", first.ID() == second.ID())

	_, err = reports.Submit(ctx, request{"October", "fr"}, october)
	fmt.Println("conflict:", errors.Is(err, jobs.ErrConflict))
	// Output:
	// joined: false true - one job: true
	// conflict: true
}

// A job whose every attempt fails ends on the dead list, with its errors. It is
// queued again once the cause is repaired.
func ExampleStore_Retry() {
	ctx := context.Background()
	store, end := exampleStore()
	defer end()
	invoices, err := jobs.NewQueue[int, string](ctx, store, "invoices", jobs.QueueOptions{
		MaxAttempts: 2, RetryInitial: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	printer := errors.New("out of paper")
	worker, err := invoices.Work(func(ctx context.Context, job *jobs.Job[int]) (string, error) {
		if printer != nil {
			return "", printer
		}
		return fmt.Sprint("invoice ", job.Input), nil
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)
	job, err := invoices.Submit(ctx, 7, jobs.SubmitOptions{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = job.Wait(ctx)
	var dead *jobs.JobError
	fmt.Println(errors.As(err, &dead), dead.State, dead.Message)

	list, err := store.List(ctx, jobs.Filter{Queue: "invoices", States: []jobs.State{jobs.StateDead}})
	if err != nil {
		log.Fatal(err)
	}
	printer = nil // repaired
	for _, d := range list {
		for _, f := range d.History {
			fmt.Println("attempt", f.Attempt, f.Error)
		}
		if err := store.Retry(ctx, d.Queue, d.ID); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(job.Wait(ctx))
	// Output:
	// true dead out of paper
	// attempt 1 out of paper
	// attempt 2 out of paper
	// invoice 7 <nil>
}

// The progress of a job can be watched from anywhere.
func ExampleHandle_Watch() {
	ctx := context.Background()
	store, end := exampleStore()
	defer end()
	films, err := jobs.NewQueue[string, int](ctx, store, "films", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	seen := make(chan bool)
	worker, err := films.Work(func(ctx context.Context, job *jobs.Job[string]) (int, error) {
		job.Progress(jobs.Progress{Done: 1, Total: 2, Note: "sound"})
		<-seen
		job.Progress(jobs.Progress{Done: 2, Total: 2, Note: "picture"})
		return 2, nil
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)
	job, err := films.Submit(ctx, "the birds", jobs.SubmitOptions{})
	if err != nil {
		log.Fatal(err)
	}

	for status, err := range films.Job(job.ID()).Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch p := status.Progress; {
		case status.State.Terminal():
			fmt.Println(status.State, p.Done, "of", p.Total, p.Note)
		case p != nil && p.Done == 1:
			fmt.Println(status.State, p.Done, "of", p.Total, p.Note)
			close(seen)
		}
	}
	// Output:
	// running 1 of 2 sound
	// done 2 of 2 picture
}

// The input has gained a field and a new name since version 0. New workers read both
// versions; old ones hand new inputs back.
func ExampleQueue_WithCodecs() {
	ctx := context.Background()
	store, end := exampleStore()
	defer end()
	type address struct{ Email, Language string }

	before, err := jobs.NewQueue[string, string](ctx, store, "welcome", jobs.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	old, err := before.Submit(ctx, "ada@example.com", jobs.SubmitOptions{})
	if err != nil {
		log.Fatal(err)
	}

	now, err := jobs.NewQueue[address, string](ctx, store, "welcome", jobs.QueueOptions{Version: 1})
	if err != nil {
		log.Fatal(err)
	}
	both := jobs.JSON[address]()
	both.Decode = func(data []byte, version int) (address, error) {
		if version > 0 {
			return jobs.JSON[address]().Decode(data, version)
		}
		email, err := jobs.JSON[string]().Decode(data, version)
		return address{Email: email, Language: "en"}, err
	}
	now = now.WithCodecs(both, jobs.JSON[string]())
	worker, err := now.Work(func(ctx context.Context, job *jobs.Job[address]) (string, error) {
		return job.Input.Language + ": " + job.Input.Email, nil
	}, jobs.WorkerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close(ctx)
	job, err := now.Submit(ctx, address{"bo@example.com", "da"}, jobs.SubmitOptions{})
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(old.Wait(ctx))
	fmt.Println(job.Wait(ctx))
	// Output:
	// en: ada@example.com <nil>
	// da: bo@example.com <nil>
}
