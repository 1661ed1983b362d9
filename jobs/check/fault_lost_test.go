package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// J2, J3, J4: a write whose acknowledgement is lost is sent again, and recognized as the
// writer's own: the submission is not treated as another client's, the attempt is not one
// of a dead worker, and the result is not late.
func TestFaultAcknowledgementIsLost(t *testing.T) {
	t.Parallel()
	proxy := newFaultProxy(t, natstest.Start(t, natstest.Options{}).URL())
	lose := func() { proxy.lose.Store(1) }
	wantLost := func(what string) {
		t.Helper()
		if n := proxy.lose.Load(); n != 0 {
			t.Errorf("the acknowledgement of %s was not lost", what)
		}
	}
	o := jobs.StoreOptions{Timeout: 3 * time.Second} // a write is sent again after a third of it
	q := faultNewQueue(t, faultStore(t, proxy.connect(t), o), jobs.QueueOptions{Lease: time.Minute})
	lose()
	h := faultSubmit(t, q, "a", jobs.SubmitOptions{Key: "a"})
	wantLost("Submit")
	if h.Joined() {
		t.Error("Submit joined its own job")
	}
	lose()
	attempts := make(chan int, 10)
	w := faultWork(t, q, jobs.WorkerOptions{}, func(_ context.Context, j *faultJob) (string, error) {
		wantLost("the running marker")
		attempts <- j.Attempt
		lose()
		return "of " + j.Input, nil
	})
	faultWantResult(t, h, "of a") // long before the lease ends
	faultEventually(t, "the acknowledgement of the result is lost", func() bool { return proxy.lose.Load() == 0 })
	if n := <-attempts; n != 1 || len(attempts) != 0 {
		t.Errorf("attempt %d, and %d after it; want 1, and none", n, len(attempts))
	}
	faultEventually(t, "the worker knows that its result is stored", func() bool { return w.Stats().Succeeded == 1 })
	if s := w.Stats(); s.Dropped != 0 {
		t.Errorf("Stats = %+v; want none dropped", s)
	}
}
