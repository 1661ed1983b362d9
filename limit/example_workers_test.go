package limit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weir-go/weir/limit"
)

// A limit instead of a worker pool: each job has its goroutine, and at most three
// jobs run at once in the whole process.
func ExampleConcurrency_workers() {
	workers, err := limit.NewConcurrency(limit.ConcurrencyOptions{
		Name:          "jobs",
		Limit:         3,
		MaxWait:       -1, // the callers' deadlines decide
		OverloadAfter: -1, // a queue of jobs is meant to stand: first come, first served
	})
	if err != nil {
		panic(err)
	}
	do := func(ctx context.Context, job int) error {
		p, err := workers.Acquire(ctx)
		if err != nil {
			return err // refused at once if ctx ends before its turn would come
		}
		defer p.Release(limit.Ignored) // for a panic; does nothing after the Release below
		// the job
		p.Release(limit.Success)
		return nil
	}

	errs := make([]error, 10)
	var all sync.WaitGroup
	for job := range errs {
		all.Go(func() { errs[job] = do(context.Background(), job) })
	}
	all.Wait()
	s := workers.Stats()
	fmt.Println(s.Admitted, "jobs, at most", s.Limit, "concurrently,", errors.Join(errs...))
	// Output: 10 jobs, at most 3 concurrently, <nil>
}
