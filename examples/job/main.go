// Command job generates reports that take too long for a request. POST /reports
// accepts an order and returns the URL of its report. A worker in the same program
// generates the report, and GET on the URL returns its progress and finally the
// report. An accepted order survives if the program is killed: the job continues when
// you start it again.
//
//	go run ./job
//
// The jobs are kept in the folder "jobs", or on a NATS server with JetStream if
// NATS_URL names one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// An Order says which Report to generate.
type (
	Order  struct{ Month string }
	Report struct {
		Month string `json:"month"`
		Lines int    `json:"lines"`
	}
)

// makeReport is the slow part. It reports its progress, and stops when ctx ends.
func makeReport(ctx context.Context, job *jobs.Job[Order]) (Report, error) {
	const days = 30
	for day := range int64(days) {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return Report{}, context.Cause(ctx)
		}
		job.Progress(jobs.Progress{Done: day + 1, Total: days})
	}
	return Report{Month: job.Input.Month, Lines: days}, nil
}

// An api is the HTTP side of the queue.
type api struct {
	reports *jobs.Queue[Order, Report]
}

func (a api) order(w http.ResponseWriter, r *http.Request) {
	month := r.FormValue("month")
	if _, err := time.Parse("2006-01", month); err != nil {
		http.Error(w, "month must be YYYY-MM", http.StatusBadRequest)
		return
	}
	// With the key, all orders for a month share one job, as long as its report is kept.
	job, err := a.reports.Submit(r.Context(), Order{month}, jobs.SubmitOptions{Key: month})
	var full *jobs.FullError
	switch {
	case errors.As(err, &full):
		w.Header().Set("Retry-After", fmt.Sprint(int(full.RetryAfter.Seconds())+1))
		http.Error(w, "too many reports are queued", http.StatusServiceUnavailable)
	case err != nil:
		log.Printf("order of %s: %v", month, err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Location", "/reports/"+job.ID())
		w.WriteHeader(http.StatusAccepted)
	}
}

func (a api) report(w http.ResponseWriter, r *http.Request) {
	job := a.reports.Job(r.PathValue("id"))
	status, err := job.Status(r.Context())
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case !status.State.Terminal():
		w.Header().Set("Retry-After", "1")
		write(w, http.StatusAccepted, map[string]any{"state": status.State, "progress": status.Progress})
	default:
		report, err := job.Wait(r.Context()) // returns at once: the job has ended
		if err != nil {
			http.Error(w, "the report could not be made", http.StatusInternalServerError)
			return
		}
		write(w, http.StatusOK, report)
	}
}

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}

func (a api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reports", a.order)
	mux.HandleFunc("GET /reports/{id}", a.report)
	return mux
}

// open opens the job store, and returns a function that closes it.
func open(ctx context.Context, url, dir string) (store *jobs.Store, closeAll func(context.Context) error, err error) {
	if url != "" {
		conn, err := nats.Connect(url)
		if err != nil {
			return nil, nil, err
		}
		store, err := jobs.Open(ctx, conn, jobs.StoreOptions{})
		if err != nil {
			conn.Close()
			return nil, nil, err
		}
		return store, func(ctx context.Context) error {
			defer conn.Close()
			return store.Close(ctx)
		}, nil
	}
	server, err := embedded.Start(embedded.Options{Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	conn, err := server.Connect()
	if err == nil {
		store, err = jobs.Open(ctx, conn, jobs.StoreOptions{Durability: server.Durability()})
	}
	if err != nil {
		return nil, nil, errors.Join(err, server.Close(ctx))
	}
	return store, func(ctx context.Context) error {
		err := store.Close(ctx)
		conn.Close()
		return errors.Join(err, server.Close(ctx))
	}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, closeStore, err := open(ctx, os.Getenv("NATS_URL"), "jobs")
	if err != nil {
		return err
	}
	reports, err := jobs.NewQueue[Order, Report](ctx, store, "reports", jobs.QueueOptions{ResultTTL: time.Hour})
	if err != nil {
		return err
	}
	worker, err := reports.Work(makeReport, jobs.WorkerOptions{Concurrency: 2})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: api{reports}.handler()}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	log.Print("try curl -i -d month=2026-10 http://127.0.0.1:8080/reports; stop with ^C")
	<-ctx.Done()

	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Shut the server down first, so that no further orders are submitted. The worker
	// finishes its reports or returns them to the queue for the next start.
	return errors.Join(server.Shutdown(end), worker.Close(end), closeStore(end))
}
