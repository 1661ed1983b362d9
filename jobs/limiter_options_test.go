package jobs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/limit"
)

// M4: a limiter that cannot work is an error of Work, and not of each attempt.
func TestM4_AWorkersLimiterIsChecked(t *testing.T) {
	t.Parallel()
	var q jobs.Queue[string, string]
	_, err := q.Work(func(context.Context, *jobs.Job[string]) (string, error) { return "", nil },
		jobs.WorkerOptions{Limiter: (*limit.Concurrency)(nil)})
	var fault *jobs.OptionError
	if !errors.As(err, &fault) || fault.Field != "WorkerOptions.Limiter" {
		t.Errorf("Work = %v; want a fault in WorkerOptions.Limiter", err)
	}
}
