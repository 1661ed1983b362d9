package outbox_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
)

// tried gives a row the marks of a relay that claimed it some time ago and was killed.
func (r *rig) tried(id string, ago time.Duration) {
	r.Helper()
	r.exec(`UPDATE weir_outbox SET claim = 'dead', claimed_until = clock_timestamp() - interval '1 second',
		tried_at = clock_timestamp() - $2::bigint * interval '1 microsecond' WHERE id = $1`, id, ago.Microseconds())
}

// The relay was killed between the submission and the deletion.
func TestQ3_ACrashAfterTheSubmissionIsNotASecondJob(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	r.tried(id, time.Minute)
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{Key: id, Once: true}); err != nil {
		t.Fatal(err)
	}
	var book ledger
	r.work(q, book.handle)
	if _, err := q.Job(q.KeyID(id)).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	relay := r.relay(outbox.RelayOptions{})
	r.empty()
	if s := relay.Stats(); s.Known != 1 || s.Submitted != 0 || book.of(id) != 1 {
		t.Errorf("Stats = %+v, %d jobs; want the row known, and one job", s, book.of(id))
	}
}

// The relay was killed between the claim and the submission.
func TestQ3_ACrashBeforeTheSubmissionLosesNoRow(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	r.exec(`UPDATE weir_outbox SET claim = 'dead', claimed_until = clock_timestamp() + interval '700 milliseconds', tried_at = clock_timestamp()`)
	began := time.Now()
	relay := r.relay(outbox.RelayOptions{})
	r.empty()
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the row was submitted after %v; want it left to its claim", took)
	}
	if s := relay.Stats(); s.Submitted != 1 || !slices.Equal(r.ids("q"), []string{id}) {
		t.Errorf("Stats = %+v, jobs %v; want one submitted", s, r.ids("q"))
	}
}

// A row that was claimed for longer than the queue remembers could have been a job that
// ran and was forgotten.
func TestQ3_ADoubtfulRowIsParked(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ago      time.Duration
		resubmit bool
		doubtful bool
		jobs     int
	}{
		{"within", 50 * time.Second, false, false, 1},
		{"beyond", 70 * time.Second, false, true, 0},
		{"within, less the lease", 58 * time.Second, false, true, 0},
		{"beyond, resubmit", 70 * time.Second, true, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			o := jobs.QueueOptions{ResultTTL: time.Minute}
			q := r.target("q", o)
			if q.Remembers() != time.Minute {
				t.Fatalf("Remembers = %v; want 1m", q.Remembers())
			}
			id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
			r.tried(id, tt.ago)
			watch := &recorder{}
			relay := r.relay(outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": o},
				Lease: 5 * time.Second, ResubmitDoubtful: tt.resubmit, Observer: watch})
			r.empty()
			if n := len(r.ids("q")); n != tt.jobs {
				t.Errorf("%d jobs; want %d", n, tt.jobs)
			}
			if !tt.doubtful {
				r.parked(0)
				return
			}
			if rows := r.parked(1); rows[0].Reason != outbox.ReasonDoubtful || rows[0].ID != id || rows[0].Detail == "" {
				t.Errorf("Parked = %+v; want the doubtful row", rows)
			}
			if s := relay.Stats(); s.Doubtful != 1 || s.Parked != 1 || len(watch.of(outbox.EventParked)) != 1 {
				t.Errorf("Stats = %+v, events %v; want one doubtful row", s, watch.of(outbox.EventParked))
			}
			// A retry is the operator's word that it did not run.
			if n, err := r.table.Retry(t.Context(), r.parked(1)[0].Seq); n != 1 || err != nil {
				t.Fatalf("Retry = %d, %v; want 1, nil", n, err)
			}
			r.empty()
			r.parked(0)
			if !slices.Equal(r.ids("q"), []string{id}) {
				t.Errorf("jobs %v after the retry; want %s", r.ids("q"), id)
			}
		})
	}
}

// A doubtful row whose job is known is deleted.
func TestQ3_ADoubtfulRowWithAKnownJobIsDeleted(t *testing.T) {
	r := newRig(t)
	o := jobs.QueueOptions{ResultTTL: time.Minute}
	q := r.target("q", o)
	id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{Key: id, Once: true}); err != nil {
		t.Fatal(err)
	}
	r.tried(id, time.Hour)
	r.relay(outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": o}})
	r.empty()
	r.parked(0)
}

// A relay that was paused until its claim expired deletes nothing that another relay has
// claimed since.
func TestQ3_AnExpiredClaimChangesNothing(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	held := make(chan struct{})
	release := make(chan struct{})
	id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	relay := r.relay(outbox.RelayOptions{Lease: 200 * time.Millisecond, Observer: blocking{held: held, release: release}})
	<-held // the row is submitted, and not deleted yet
	r.exec("UPDATE weir_outbox SET claim = 'other', claimed_until = clock_timestamp() + interval '1 hour'")
	close(release)
	r.eventually("two looks without a row", func() bool { return relay.Stats().Polled >= 2 })
	if n := r.count("SELECT count(*) FROM weir_outbox WHERE claim = 'other'"); n != 1 {
		t.Errorf("%d rows of the other claim; want the row untouched", n)
	}
	if _, err := q.Job(q.KeyID(id)).Status(t.Context()); err != nil {
		t.Errorf("Status = %v; want the job", err)
	}
}

// blocking blocks the first Event until release is closed.
type blocking struct {
	outbox.NopObserver
	held, release chan struct{}
}

func (b blocking) Event(context.Context, outbox.Event) {
	select {
	case <-b.release:
	default:
		close(b.held)
		<-b.release
	}
}

// The database was restored to a point before the deletion of rows: their jobs are known.
func TestQ11_RestoredRowsOfKnownJobsAreDeleted(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	var book ledger
	r.work(q, book.handle)
	for range 30 {
		r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	}
	r.exec("CREATE TABLE before AS SELECT * FROM weir_outbox")
	first := r.relay(outbox.RelayOptions{})
	r.empty()
	first.Close(t.Context())
	keys := r.ids("q")
	for _, key := range keys {
		if _, err := q.Job(q.KeyID(key)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.exec("INSERT INTO weir_outbox OVERRIDING SYSTEM VALUE SELECT * FROM before")
	second := r.relay(outbox.RelayOptions{})
	r.empty()
	if s := second.Stats(); s.Known != 30 || s.Submitted != 0 {
		t.Errorf("Stats = %+v; want 30 known", s)
	}
	for _, key := range keys {
		if book.of(key) != 1 {
			t.Errorf("row %s was %d jobs; want 1", key, book.of(key))
		}
	}
}

// After a restore to a point so far back that jobs are forgotten, Restored makes the
// relay park the rows that may have been jobs.
func TestQ11_RowsFromLongBeforeARestoreAreDoubtful(t *testing.T) {
	r := newRig(t)
	o := jobs.QueueOptions{ResultTTL: time.Minute}
	r.target("q", o)
	old := r.enqueue(r.jobs, "old", outbox.EnqueueOptions{})
	r.exec("UPDATE weir_outbox SET enqueued_at = enqueued_at - interval '1 hour'")
	young := r.enqueue(r.jobs, "young", outbox.EnqueueOptions{})
	if n, err := r.table.Restored(t.Context()); n != 2 || err != nil {
		t.Fatalf("Restored = %d, %v; want 2, nil", n, err)
	}
	r.relay(outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": o}})
	r.empty()
	if rows := r.parked(1); rows[0].ID != old || rows[0].Reason != outbox.ReasonDoubtful {
		t.Errorf("Parked = %+v; want the old row, doubtful", rows)
	}
	if !slices.Equal(r.ids("q"), []string{young}) {
		t.Errorf("jobs %v; want that of the young row, %s", r.ids("q"), young)
	}
}
