package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobstest"
)

// A handler whose file is still being uploaded has its job started again a minute
// later.
func ExampleSnooze() {
	uploaded := func(video string) bool { return video != "holiday.mp4" }
	handler := func(ctx context.Context, job *jobs.Job[string]) (string, error) {
		if !uploaded(job.Input) {
			return "", jobs.Snooze(time.Minute)
		}
		return job.Input + ".webm", nil
	}

	_, err := handler(context.Background(), &jobs.Job[string]{Input: "holiday.mp4"})
	fmt.Println(err)
	// Output: snoozed for 1m0s
}

// A request's tenant and trace travel with the job, apart from its input.
func Example_headers() {
	submit := func(ctx context.Context, reports *jobs.Queue[string, string], r *http.Request) error {
		_, err := reports.Submit(ctx, "November", jobs.SubmitOptions{Headers: map[string]string{
			"tenant":      r.Header.Get("X-Tenant"),
			"traceparent": r.Header.Get("Traceparent"),
		}})
		return err
	}
	handler := func(ctx context.Context, job *jobs.Job[string]) (string, error) {
		return "the report of " + job.Headers["tenant"] + " for " + job.Input, nil
	}
	_, _ = submit, handler
}

// A newsletter is one job for each reader.
func ExampleQueue_SubmitMany() {
	submit := func(ctx context.Context, mails *jobs.Queue[string, string], addresses []string) error {
		all := make([]jobs.Submission[string], len(addresses))
		for i, address := range addresses {
			all[i] = jobs.Submission[string]{Input: address, Options: jobs.SubmitOptions{Key: "issue 48 to " + address}}
		}
		_, err := mails.SubmitMany(ctx, all)
		var refused jobs.SubmitErrors
		if errors.As(err, &refused) {
			for i, err := range refused {
				slog.Error("not accepted", "address", addresses[i], "error", err)
			}
		}
		return err
	}
	_ = submit
}

// A report shows how far it is, and which pages it leaves out.
func ExampleJob_Log() {
	handler := func(ctx context.Context, job *jobs.Job[[]string]) (int, error) {
		for n, page := range job.Input {
			if page == "" {
				job.Log(fmt.Sprintf("page %d is empty and left out", n+1))
			}
			job.Progress(jobs.Progress{Done: int64(n + 1), Total: int64(len(job.Input))})
		}
		return len(job.Input), nil
	}

	tried, err := jobstest.New(handler, jobstest.Options{}).Submit([]string{"one", "", "three"}, jobs.SubmitOptions{})
	if err != nil {
		panic(err)
	}
	tried.Finish(context.Background())
	fmt.Println(tried.Status().Log[0].Text)
	// Output: page 2 is empty and left out
}

// Every attempt is logged with its tenant, and an error of another service's quota
// snoozes the job.
func ExampleMiddleware() {
	logged := func(ctx context.Context, job jobs.JobInfo, next func(context.Context) error) error {
		err := next(ctx)
		slog.InfoContext(ctx, "job", "queue", job.Queue, "tenant", job.Headers["tenant"], "attempt", job.Attempt, "err", err)
		return err
	}
	patient := func(ctx context.Context, job jobs.JobInfo, next func(context.Context) error) error {
		err := next(ctx)
		if errors.Is(err, errQuota) {
			return jobs.Snooze(time.Hour)
		}
		return err
	}
	options := jobs.WorkerOptions{Middleware: []jobs.Middleware{logged, patient}}
	fmt.Println(len(options.Middleware), "around each handler")
	// Output: 2 around each handler
}

var errQuota = errors.New("quota exceeded")
