package jobs_test

import (
	"context"

	"github.com/weir-go/weir/jobs"
)

func Example_limitATenant() {
	queue := func(ctx context.Context, store *jobs.Store) (*jobs.Queue[string, string], error) {
		return jobs.NewQueue[string, string](ctx, store, "reports", jobs.QueueOptions{
			KeyLimit: jobs.KeyLimit{Concurrency: 4, PerSecond: 10},
			KeyLimits: map[string]jobs.KeyLimit{
				"acme": {Concurrency: 20, PerSecond: 100},
			},
		})
	}
	submit := func(ctx context.Context, reports *jobs.Queue[string, string], tenant string) error {
		_, err := reports.Submit(ctx, "November", jobs.SubmitOptions{LimitKey: tenant})
		return err
	}
	_, _ = queue, submit
}
