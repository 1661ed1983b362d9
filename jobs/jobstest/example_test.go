package jobstest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobstest"
)

func Example() {
	calls := 0
	handler := func(ctx context.Context, job *jobs.Job[string]) (int, error) {
		if calls++; calls < 3 {
			return 0, errors.New("the service does not respond")
		}
		return len(job.Input), nil
	}
	kit := jobstest.New(handler, jobstest.Options{QueueOptions: jobs.QueueOptions{MaxAttempts: 5}})
	job, err := kit.Submit("picture.jpg", jobs.SubmitOptions{})
	if err != nil {
		panic(err)
	}

	first := job.Attempt(context.Background())
	fmt.Println(first.State, first.Err)

	rest := job.Finish(context.Background()) // does not wait between the attempts
	fmt.Println(len(rest), "more attempts:", rest[len(rest)-1].State, rest[len(rest)-1].Result)
	// Output:
	// retrying the service does not respond
	// 2 more attempts: done 11
}

func ExampleJob_Attempt() {
	handler := func(ctx context.Context, job *jobs.Job[string]) (string, error) {
		<-ctx.Done() // long work, which ends with the context
		return "", context.Cause(ctx)
	}
	job, err := jobstest.New(handler, jobstest.Options{}).Submit("film.mp4", jobs.SubmitOptions{})
	if err != nil {
		panic(err)
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(jobs.ErrCanceled)
	attempt := job.Attempt(ctx)
	fmt.Println(attempt.State)
	// Output: canceled
}
