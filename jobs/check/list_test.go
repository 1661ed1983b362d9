package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// A list with a limit, which reads only the latest messages, is the beginning of the list
// without one. Jobs that run for long are in it at the place of their last change, although
// their heartbeats are the latest messages.
func TestListIsTheBeginningOfTheWholeList(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	slow, err := jobs.NewQueue[string, string](t.Context(), r.store, "slow", jobs.QueueOptions{Lease: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	let := make(chan struct{})
	w, err := slow.Work(func(_ context.Context, j *stringJob) (string, error) {
		if j.Input == "runs" {
			<-let
		}
		return "", nil
	}, jobs.WorkerOptions{Concurrency: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	defer close(let)
	many := func(q *stringQueue, n int, in string) (all []*stringHandle) {
		t.Helper()
		what := make([]jobs.Submission[string], n)
		for i := range what {
			what[i].Input = in
		}
		all, err := q.SubmitMany(t.Context(), what)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	old := many(q, 30, "canceled")
	running := many(slow, 6, "runs")
	done := many(slow, 40, "ends")
	for _, h := range done {
		r.wantResult(h, "")
	}
	dropped := many(q, 10, "dropped")
	many(q, 3000, "waits") // more than two windows
	for _, h := range append(old, dropped...) {
		if err := r.store.Cancel(t.Context(), "q", h.ID()); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range dropped {
		if err := r.store.Drop(t.Context(), "q", h.ID()); err != nil {
			t.Fatal(err)
		}
		if err := r.store.Retry(t.Context(), "q", old[i].ID()); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range running {
		r.eventually("it runs", func() bool { return r.status(h).State == jobs.StateRunning })
	}
	r.pass(1500 * time.Millisecond) // a heartbeat

	names := func(f jobs.Filter) (all []string) {
		t.Helper()
		list, err := r.store.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			all = append(all, fmt.Sprint(s.ID, " ", s.State, " ", s.Revision))
		}
		return all
	}
	for states, n := range map[jobs.State]int{0: 3076, jobs.StateQueued: 3010, jobs.StateRunning: 6, jobs.StateDone: 40, jobs.StateCanceled: 20, jobs.StateDead: 0} {
		f := jobs.Filter{Limit: 1_000_000}
		if states != 0 {
			f.States = []jobs.State{states}
		}
		whole := names(f)
		if len(whole) != n {
			t.Errorf("%d jobs are %v; want %d", len(whole), states, n)
		}
		for _, limit := range []int{1, 3, 10, 30, 300, 2000} {
			f.Limit = limit
			if got, want := names(f), whole[:min(limit, len(whole))]; !slices.Equal(got, want) {
				t.Errorf("List of %d that are %v = %d jobs, %q…; want %d, %q…", limit, states, len(got), got[:min(3, len(got))], len(want), want[:min(3, len(want))])
			}
		}
	}
	f := jobs.Filter{Queue: "slow", Limit: 1_000_000}
	whole := names(f)
	if f.Limit = 7; len(whole) != 46 || !slices.Equal(names(f), whole[:7]) {
		t.Errorf("List of slow = %q; want the first 7 of %d", names(f), len(whole))
	}
}

// BenchmarkList lists 100 of 100,000 jobs: the latest, and those in a state that none has.
func BenchmarkList(b *testing.B) {
	const n = 100_000
	s := benchStore(b)
	q, err := jobs.NewQueue[string, string](b.Context(), s, "q", jobs.QueueOptions{MaxQueued: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	what := make([]jobs.Submission[string], jobs.MaxSubmissions)
	for i := range what {
		what[i].Input = fmt.Sprintf("%0500d", i)
	}
	for range n / len(what) {
		if _, err := q.SubmitMany(b.Context(), what); err != nil {
			b.Fatal(err)
		}
	}
	for name, f := range map[string]jobs.Filter{"latest": {}, "dead": {States: []jobs.State{jobs.StateDead}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				all, err := s.List(b.Context(), f)
				if err != nil || len(all) != map[string]int{"latest": jobs.DefaultListLimit}[name] {
					b.Fatalf("List = %d jobs, %v", len(all), err)
				}
			}
		})
	}
}

// benchStore returns a store on a server in this process.
func benchStore(b *testing.B) *jobs.Store {
	b.Helper()
	server, err := embedded.Start(embedded.Options{Dir: b.TempDir(), Durability: jobs.DurabilityProcess, MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close(context.Background()) })
	nc, err := server.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	s, err := jobs.Open(b.Context(), nc, jobs.StoreOptions{MaxBytes: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}
