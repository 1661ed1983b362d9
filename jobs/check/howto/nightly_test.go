package howto_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/periodic"
)

// The program of docs/howto/run-a-nightly-job.md.

// A Night is the input of a report.
type Night struct{ Date string }

// nightly starts the schedules of the program.
func nightly(ctx context.Context, store *jobs.Store, spec string) (*periodic.Scheduler, error) {
	reports, err := jobs.NewQueue[Night, string](ctx, store, "reports", jobs.QueueOptions{})
	if err != nil {
		return nil, err
	}
	return periodic.New(store, []periodic.Schedule{{
		Name: "nightly-report",
		Spec: spec, // "30 2 * * *"
		Zone: "Europe/Berlin",
		Job: periodic.Submit(reports, func(tick time.Time) (Night, error) {
			return Night{tick.AddDate(0, 0, -1).Format(time.DateOnly)}, nil
		}, jobs.SubmitOptions{}),
	}}, periodic.Options{})
}

func TestNightlyJob(t *testing.T) {
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close(context.Background())
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(t.Context(), conn, jobs.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())

	var schedulers []*periodic.Scheduler
	for range 2 { // two instances
		s, err := nightly(t.Context(), store, "@every 10s")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		schedulers = append(schedulers, s)
	}
	reports, err := jobs.NewQueue[Night, string](t.Context(), store, "reports", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan string, 100)
	w, err := reports.Work(func(_ context.Context, job *jobs.Job[Night]) (string, error) {
		ran <- fmt.Sprint(job.Key, " ", job.Input.Date)
		return "", nil
	}, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())

	seen := map[string]bool{}
	for range 2 { // two ticks
		job := <-ran
		if seen[job] {
			t.Errorf("%s ran twice", job)
		}
		seen[job] = true
	}
	if st := schedulers[0].Stats(); len(st) != 1 || st[0].Name != "nightly-report" {
		t.Errorf("Stats = %+v; want the schedule", st)
	}
}
