// Package periodic_test has the tests of schedules on a real server.
package periodic_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/internal/ledger"
	"github.com/weir-go/weir/jobs/periodic"
)

func open(t *testing.T) (*jobs.Store, *jobs.Queue[string, string]) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	store, err := jobs.Open(t.Context(), conn, jobs.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		store.Close(context.Background())
		conn.Close()
		server.Close(context.Background())
	})
	q, err := jobs.NewQueue[string, string](t.Context(), store, "q", jobs.QueueOptions{Lease: 100 * time.Millisecond, ResultTTL: jobs.None})
	if err != nil {
		t.Fatal(err)
	}
	return store, q
}

// P1: a claim becomes one job, even if a commit comes after the job's record has been
// forgotten, and a second claim of the key does not replace a job.
func TestP1_AClaimIsAcceptedOnce(t *testing.T) {
	store, q := open(t)
	l, o := ledger.Of(store), jobs.SubmitOptions{Key: "a@1"}
	c, ok, err := l.Claim(t.Context(), q, "in", o)
	if err != nil || !ok {
		t.Fatalf("Claim = %v, %t, %v; want a claim", c, ok, err)
	}
	if again, ok, err := l.Claim(t.Context(), q, "other", o); again != c || !ok || err != nil {
		t.Errorf("second Claim = %v, %t, %v; want the first, %v", again, ok, err, c)
	}
	if _, err := store.Status(t.Context(), "q", c.ID); err != jobs.ErrNotFound {
		t.Errorf("Status of a claim = %v; want ErrNotFound", err)
	}
	if first, err := l.Commit(t.Context(), c); !first || err != nil {
		t.Fatalf("Commit = %t, %v; want true", first, err)
	}
	if second, err := l.Commit(t.Context(), c); second || err != nil {
		t.Errorf("second Commit = %t, %v; want false", second, err)
	}
	if _, ok, err := l.Claim(t.Context(), q, "in", o); ok || err != nil {
		t.Errorf("Claim of a job's key = %t, %v; want false", ok, err)
	}
	ran := make(chan string, 10)
	w, err := q.Work(func(_ context.Context, j *jobs.Job[string]) (string, error) {
		ran <- j.Input
		return "", nil
	}, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	if in := <-ran; in != "in" {
		t.Errorf("the job's input is %q; want that of the claim", in)
	}
	late := time.After(30 * time.Second)
	for _, err = store.Status(t.Context(), "q", c.ID); err == nil; _, err = store.Status(t.Context(), "q", c.ID) {
		select {
		case <-late:
			t.Fatal("the record has not been forgotten")
		case <-time.After(50 * time.Millisecond):
		}
	}
	if third, err := l.Commit(t.Context(), c); third || err != nil || len(ran) > 0 {
		t.Errorf("Commit after the record = %t, %v; want false", third, err)
	}
}

// P1: three instances on one server submit each tick once.
func TestP1_AFleetSubmitsEachTickOnce(t *testing.T) {
	store, q := open(t)
	seen := make(chan time.Time, 100)
	w, err := q.Work(func(_ context.Context, j *jobs.Job[string]) (string, error) {
		tick, err := time.Parse(time.RFC3339, j.Input)
		seen <- tick
		return "", err
	}, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	for range 3 {
		s, err := periodic.New(store, []periodic.Schedule{{
			Name: "often", Spec: "@every 1s",
			Job: periodic.Submit(q, func(tick time.Time) (string, error) { return tick.Format(time.RFC3339), nil }, jobs.SubmitOptions{}),
		}}, periodic.Options{MinInterval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
	}
	ticks := map[time.Time]int{}
	first := <-seen
	ticks[first]++
	for range 3 {
		ticks[<-seen]++
	}
	for i := range 4 {
		if n := ticks[first.Add(time.Duration(i)*time.Second)]; n != 1 {
			t.Errorf("tick %d has %d jobs; want 1 (%v)", i, n, ticks)
		}
	}
}
