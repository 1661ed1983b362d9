package jobs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/jobs"
)

// J18, for jobs that must not be repeated: an attempt that began may have had
// effects. So a Worker that has no time left does not hand the job back.
func TestStopDoesNotHandBackWhatRunsOnce(t *testing.T) {
	q := queue[int, int](t, open(t, jobs.StoreOptions{}), "once", jobs.QueueOptions{MaxAttempts: 1})
	began := make(chan struct{})
	w := work(t, q, func(ctx context.Context, _ *jobs.Job[int]) (int, error) {
		close(began)
		<-ctx.Done()
		return 0, ctx.Err()
	}, jobs.WorkerOptions{})
	h, err := q.Submit(t.Context(), 1, jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-began
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	w.Close(hurry)
	_, err = h.Wait(t.Context())
	var failed *jobs.JobError
	if !errors.As(err, &failed) || failed.State != jobs.StateDead || failed.Attempt != 1 {
		t.Errorf("Wait = %v; want a dead job after one attempt", err)
	}
}
