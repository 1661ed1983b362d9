package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
)

func TestQ1_ACommittedRowIsOneJobARolledBackRowNone(t *testing.T) {
	r := newRig(t)
	var book ledger
	q := r.target("q", jobs.QueueOptions{})
	r.work(q, book.handle)

	var want []string
	for range 20 {
		want = append(want, r.enqueue(r.jobs, "kept", outbox.EnqueueOptions{}))
		tx, err := r.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.jobs.Enqueue(t.Context(), outbox.SQL(tx), "rolled back", outbox.EnqueueOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	relay := r.relay(outbox.RelayOptions{})
	r.empty()
	slices.Sort(want)
	if got := r.ids("q"); !slices.Equal(got, want) {
		t.Errorf("jobs %v; want one for each committed row, %v", got, want)
	}
	for _, id := range want {
		out, err := q.Job(q.KeyID(id)).Wait(t.Context())
		if out != "kept" || err != nil || book.of(id) != 1 {
			t.Errorf("Wait(%s) = %q, %v with %d jobs; want kept, nil and one", id, out, err, book.of(id))
		}
	}
	if s := relay.Stats(); s.Submitted != 20 || s.Known+s.Parked+s.Trouble != 0 {
		t.Errorf("Stats = %+v; want 20 submitted", s)
	}
}

func TestQ1_TheIDIsTheCallers(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	for range 3 {
		if id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{ID: "order 7", Owner: "ann"}); id != "order 7" {
			t.Errorf("Enqueue = %q; want the caller's ID", id)
		}
	}
	r.relay(outbox.RelayOptions{})
	r.empty()
	if got := r.ids("q"); !slices.Equal(got, []string{"order 7"}) {
		t.Errorf("jobs %v; want one", got)
	}
	if s, err := r.store.Status(t.Context(), "q", q.KeyID("order 7")); s.Owner != "ann" || err != nil {
		t.Errorf("Status = %+v, %v; want the owner ann", s, err)
	}
}

// A row whose job is known in any state is deleted, and nothing runs again.
func TestQ2_AKnownJobIsNotSubmittedAgain(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{MaxAttempts: 1})
	var book ledger
	over := make(chan struct{})
	r.work(q, func(ctx context.Context, j *jobs.Job[string]) (string, error) {
		book.handle(ctx, j)
		switch j.Input {
		case "failed":
			return "", jobs.Permanent(errors.New("no"))
		case "dead":
			return "", errors.New("no")
		case "running":
			<-over
		}
		return "", nil
	})
	t.Cleanup(func() { close(over) }) // before the worker is closed
	o := jobs.SubmitOptions{Once: true}
	states := map[string]jobs.State{"done": jobs.StateDone, "failed": jobs.StateFailed, "dead": jobs.StateDead,
		"running": jobs.StateRunning, "canceled": jobs.StateCanceled, "queued": jobs.StateQueued}
	state := func(name string) jobs.State {
		s, err := r.store.Status(t.Context(), "q", q.KeyID(name))
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	}
	for name, want := range states {
		o.Key, o.Delay = name, 0
		if name == "canceled" || name == "queued" {
			o.Delay = time.Hour
		}
		if _, err := q.Submit(t.Context(), name, o); err != nil {
			t.Fatal(err)
		}
		if name == "canceled" {
			if err := r.store.Cancel(t.Context(), "q", q.KeyID(name)); err != nil {
				t.Fatal(err)
			}
		}
		r.eventually(name, func() bool { return state(name) == want })
	}
	for name := range states {
		r.enqueue(r.jobs, name, outbox.EnqueueOptions{ID: name})
	}
	relay := r.relay(outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": {MaxAttempts: 1}}})
	r.empty()
	if s := relay.Stats(); s.Known != 6 || s.Submitted != 0 {
		t.Errorf("Stats = %+v; want 6 known and none submitted", s)
	}
	for name, want := range states {
		if got := state(name); got != want {
			t.Errorf("the %s job is %v; want it unchanged", name, got)
		}
		if book.of(name) > 1 {
			t.Errorf("the %s job ran as %d jobs", name, book.of(name))
		}
	}
}

// Transactions commit in another order than they take numbers: a relay that only looked
// beyond the last number would miss the rows of the slower one.
func TestQ4_RowsThatCommitLateAreFound(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	relay := r.relay(outbox.RelayOptions{Poll: 20 * time.Millisecond})
	slow, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(context.Background())
	late, err := r.jobs.Enqueue(t.Context(), outbox.Pgx(slow), "late", outbox.EnqueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.enqueue(r.jobs, "early", outbox.EnqueueOptions{})
	}
	r.eventually("five jobs", func() bool { return relay.Stats().Submitted == 5 })
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.empty()
	if !slices.Contains(r.ids("q"), late) {
		t.Errorf("jobs %v; want the late row %s too", r.ids("q"), late)
	}
}

// Relays that share a table submit each row once, and none waits for another's rows.
func TestQ4_SeveralRelaysShareATable(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	const rows = 600
	for i := range rows {
		r.enqueue(r.jobs, strings.Repeat("x", i), outbox.EnqueueOptions{})
	}
	var relays []*outbox.Relay
	for range 3 {
		relays = append(relays, r.relay(outbox.RelayOptions{Batch: 20, Poll: 10 * time.Millisecond}))
	}
	r.empty()
	if n := len(r.ids("q")); n != rows {
		t.Errorf("%d jobs; want %d", n, rows)
	}
	var claimed, submitted, known uint64
	for _, relay := range relays {
		s := relay.Stats()
		claimed, submitted, known = claimed+s.Claimed, submitted+s.Submitted, known+s.Known
	}
	if claimed != rows || submitted != rows || known != 0 {
		t.Errorf("%d rows claimed, %d submitted, %d known; want each claimed and submitted once", claimed, submitted, known)
	}
}

// While one relay holds row locks in an open claim, another takes other rows.
func TestQ4_ALockedRowIsSkipped(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	locked := r.enqueue(r.jobs, "locked", outbox.EnqueueOptions{})
	free := r.enqueue(r.jobs, "free", outbox.EnqueueOptions{})
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM weir_outbox WHERE id = $1 FOR UPDATE", locked); err != nil {
		t.Fatal(err)
	}
	relay := r.relay(outbox.RelayOptions{})
	r.eventually("the free row's job", func() bool { return relay.Stats().Submitted == 1 })
	if got := r.ids("q"); !slices.Equal(got, []string{free}) {
		t.Errorf("jobs %v; want that of the free row, %s", got, free)
	}
	tx.Rollback(t.Context())
	r.empty()
}

// Delay and Deadline count from Enqueue, not from the submission.
func TestQ8_DelayAndDeadlineCountFromEnqueue(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{Delay: time.Hour, Deadline: 2 * time.Hour})
	r.exec("UPDATE weir_outbox SET not_before = not_before - interval '30 minutes'")
	r.relay(outbox.RelayOptions{})
	r.empty()
	s, err := r.store.Status(t.Context(), "q", q.KeyID(id))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(s.NotBefore); left < 25*time.Minute || left > 31*time.Minute {
		t.Errorf("the job starts in %v; want half an hour, which is left of its delay", left)
	}
}

func TestQ8_LargeBatchesAreCut(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	for range 10 {
		r.enqueue(r.jobs, strings.Repeat("x", 1000), outbox.EnqueueOptions{})
	}
	relay := r.relay(outbox.RelayOptions{MaxBatchBytes: 2500, Observer: nil})
	r.empty()
	if s := relay.Stats(); s.Submitted != 10 || s.Claimed != 10 {
		t.Errorf("Stats = %+v; want 10 rows claimed and submitted", s)
	}
	for range 3 {
		r.enqueue(r.jobs, strings.Repeat("x", 5000), outbox.EnqueueOptions{}) // each is larger than a batch
	}
	r.empty()
}
