package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
)

func TestQ5_AFullQueuePausesOnlyItself(t *testing.T) {
	r := newRig(t)
	full := r.target("full", jobs.QueueOptions{MaxQueued: 1})
	r.target("q", jobs.QueueOptions{})
	if _, err := full.Submit(t.Context(), "in", jobs.SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	waiting := r.enqueue(r.queue("full", outbox.QueueOptions{NotifyEvery: -1}), "in", outbox.EnqueueOptions{})
	watch := &recorder{}
	relay := r.relay(outbox.RelayOptions{Observer: watch,
		Queues: map[string]jobs.QueueOptions{"q": {}, "full": {MaxQueued: 1}}})
	r.eventually("a paused queue", func() bool { return relay.Stats().Paused >= 1 })
	for range 50 {
		r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	}
	r.eventually("the other queue's jobs", func() bool { return relay.Stats().Submitted == 50 })
	// The relay looks again after each pause, and holds the row for that moment.
	r.eventually("an unclaimed and untried row of the full queue", func() bool {
		return r.count("SELECT count(*) FROM weir_outbox WHERE queue = 'full' AND claim IS NULL AND tried_at IS NULL") == 1
	})
	if e := watch.of(outbox.EventPaused); len(e) == 0 || e[0].Queue != "full" || e[0].RetryAfter <= 0 || e[0].RetryAfter > time.Second || !errors.Is(e[0].Err, jobs.ErrFull) {
		t.Errorf("events %+v; want the full queue paused for Poll at most", e)
	}
	// Once there is room, the row becomes a job.
	worker, err := full.Work(func(context.Context, *jobs.Job[string]) (string, error) { return "", nil }, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close(context.Background())
	r.empty()
	if !slices.Contains(r.ids("full"), waiting) {
		t.Errorf("jobs %v; want %s", r.ids("full"), waiting)
	}
}

func TestQ6_WhatCannotBeSubmittedIsParked(t *testing.T) {
	r := newRig(t)
	o := jobs.QueueOptions{MaxInput: 100}
	q := r.target("q", o)
	if _, err := q.Submit(t.Context(), "first", jobs.SubmitOptions{Key: "conflict"}); err != nil {
		t.Fatal(err)
	}
	r.enqueue(r.jobs, "second", outbox.EnqueueOptions{ID: "conflict"})
	r.enqueue(r.jobs, strings.Repeat("x", 100), outbox.EnqueueOptions{ID: "too large"})
	r.enqueue(r.queue("nobodys", outbox.QueueOptions{}), "in", outbox.EnqueueOptions{ID: "unknown queue"})
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{ID: "expired", Deadline: time.Millisecond})
	r.exec(`INSERT INTO weir_outbox (queue, id, input, serial) VALUES ('q', 'invalid', '', repeat('x', 2000))`)
	good := r.enqueue(r.jobs, "good", outbox.EnqueueOptions{})
	<-time.After(2 * time.Millisecond) // the deadline
	watch := &recorder{}
	relay := r.relay(outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": o}, UnknownAfter: time.Second, Observer: watch})
	rows := r.parked(5)
	for _, row := range rows {
		if string(row.Reason) != row.ID || row.Detail == "" || row.Enqueued.IsZero() || row.Parked.Before(row.Enqueued) {
			t.Errorf("Parked has %+v; want the reason that is its ID, with a detail", row)
		}
	}
	r.empty()
	if !slices.Contains(r.ids("q"), good) {
		t.Errorf("jobs %v; want the good row's", r.ids("q"))
	}
	if s := relay.Stats(); s.Parked < 4 || len(watch.of(outbox.EventParked)) != 5 {
		t.Errorf("Stats = %+v, %d events; want 5 parked", s, len(watch.of(outbox.EventParked)))
	}
	if s, err := r.store.Status(t.Context(), "q", q.KeyID("conflict")); err != nil || s.State != jobs.StateQueued {
		t.Errorf("Status = %+v, %v; want the first job unchanged", s, err)
	}
	r.parkedVerbs(q, rows)
}

// Q6: a row can have any instant, because any program can insert rows. One that no
// duration can express holds up no other row: PostgreSQL cannot subtract an infinite
// instant, so the claim of the whole batch would fail, again and again.
func TestQ6_RowsWithInstantsOutOfBounds(t *testing.T) {
	for set, want := range map[string]outbox.Reason{
		"not_before = 'infinity'":     outbox.ReasonInvalid,
		"not_before = '-infinity'":    outbox.ReasonInvalid,
		"deadline = 'infinity'":       outbox.ReasonInvalid,
		"deadline = '-infinity'":      outbox.ReasonInvalid,
		"tried_at = 'infinity'":       outbox.ReasonInvalid,
		"tried_at = '-infinity'":      outbox.ReasonInvalid,
		"tried_at = '4713-01-01 BC'":  outbox.ReasonDoubtful,
		"deadline = '4713-01-01 BC'":  outbox.ReasonExpired,
		"deadline = '294276-01-01'":   "",
		"not_before = '294276-01-01'": "",
		"enqueued_at = 'infinity'":    "",
		"enqueued_at = '-infinity'":   "",
	} {
		t.Run(set, func(t *testing.T) {
			r := newRig(t)
			r.target("q", jobs.QueueOptions{})
			r.enqueue(r.jobs, "in", outbox.EnqueueOptions{ID: "out of bounds"})
			r.exec("UPDATE weir_outbox SET " + set)
			ids := []string{r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})}
			if want == "" {
				ids = append(ids, "out of bounds")
			}
			watch := &recorder{}
			r.relay(outbox.RelayOptions{Observer: watch})
			r.empty()
			slices.Sort(ids)
			if got := r.ids("q"); !slices.Equal(got, ids) {
				t.Errorf("jobs %v; want %v", got, ids)
			}
			if want != "" {
				if row := r.parked(1)[0]; row.Reason != want || row.Detail == "" {
					t.Errorf("Parked has %+v; want %q with a detail", row, want)
				}
			}
			if all := watch.of(outbox.EventTrouble); len(all) > 0 {
				t.Errorf("trouble: %v; want none", all[0].Err)
			}
		})
	}
}

// Q6: the job of a row that was submitted before is known, whatever has become of the
// row's instants.
func TestQ6_ARowWithAnInfiniteInstantIsLookedUpFirst(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{Key: "known"}); err != nil {
		t.Fatal(err)
	}
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{ID: "known"})
	r.exec("UPDATE weir_outbox SET tried_at = '-infinity'")
	relay := r.relay(outbox.RelayOptions{})
	r.empty()
	r.parked(0)
	if s := relay.Stats(); s.Known != 1 {
		t.Errorf("Stats = %+v; want the job known", s)
	}
}

// Q6: a row of an unknown queue is parked although its age is unknown.
func TestQ6_AnUnknownQueueWithAnInfiniteInstant(t *testing.T) {
	r := newRig(t)
	r.enqueue(r.queue("nobodys", outbox.QueueOptions{}), "in", outbox.EnqueueOptions{ID: "poison"})
	r.exec("UPDATE weir_outbox SET enqueued_at = 'infinity'")
	r.relay(outbox.RelayOptions{UnknownAfter: time.Second})
	if row := r.parked(1)[0]; row.Reason != outbox.ReasonUnknownQueue || !row.Enqueued.IsZero() {
		t.Errorf("Parked has %+v; want an unknown queue and no time", row)
	}
}

// Q6: a row whose job cannot be read, because a newer program has written it, is tried
// MaxTries times and then parked. Other rows do not wait for it.
func TestQ6_ARowThatKeepsFailingIsParked(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{})
	m := nats.NewMsg("weir.jobs.1.default.q." + q.KeyID("newer") + ".w")
	m.Header.Set("Weir-Job", `{"v":99}`)
	if _, err := r.nc.RequestMsg(m, patience); err != nil {
		t.Fatal(err)
	}
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{ID: "newer"})
	watch := &recorder{}
	relay := r.relay(outbox.RelayOptions{MaxTries: 3, Observer: watch})
	rows := r.parked(1)
	if row := rows[0]; row.ID != "newer" || row.Reason != outbox.ReasonFailing || !strings.Contains(row.Detail, "99") {
		t.Errorf("Parked has %+v; want the row as failing, with the format", row)
	}
	if s := relay.Stats(); s.Trouble != 2 || s.Submitted != 0 || s.Known != 0 {
		t.Errorf("Stats = %+v; want two troubles before the row is parked, and no job", s)
	}
	good := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	r.empty()
	if err := relay.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids := r.ids("q"); !slices.Equal(ids, []string{good}) {
		t.Errorf("jobs %v; want %s", ids, good)
	}
}

// parkedVerbs filters, reads, retries and deletes the parked rows.
func (r *rig) parkedVerbs(q *jobs.Queue[string, string], rows []outbox.ParkedRow) {
	r.Helper()
	seq := map[string]int64{}
	for _, row := range rows {
		seq[row.ID] = row.Seq
	}
	for _, f := range []outbox.ParkedFilter{{Queue: "nobodys"}, {Reason: outbox.ReasonConflict}, {Limit: 1}, {After: rows[3].Seq}} {
		if got, err := r.table.Parked(r.Context(), f); len(got) != 1 || err != nil {
			r.Errorf("Parked(%+v) = %d rows, %v; want 1", f, len(got), err)
		}
	}
	if in, err := r.table.Input(r.Context(), seq["conflict"]); !bytes.Equal(in, []byte(`"second"`)) || err != nil {
		r.Errorf("Input = %s, %v; want the second input", in, err)
	}
	if _, err := r.table.Input(r.Context(), -1); !errors.Is(err, outbox.ErrNotFound) {
		r.Errorf("Input(-1) = %v; want ErrNotFound", err)
	}
	if n, err := r.table.Delete(r.Context(), seq["too large"], seq["expired"], seq["invalid"], -1); n != 3 || err != nil {
		r.Errorf("Delete = %d, %v; want 3, nil", n, err)
	}
	// The conflict is solved, and the row tried again.
	if err := r.store.Cancel(r.Context(), "q", q.KeyID("conflict")); err != nil {
		r.Fatal(err)
	}
	if err := r.store.Drop(r.Context(), "q", q.KeyID("conflict")); err != nil {
		r.Fatal(err)
	}
	if n, err := r.table.Retry(r.Context(), seq["conflict"]); n != 1 || err != nil {
		r.Errorf("Retry = %d, %v; want 1, nil", n, err)
	}
	r.parked(1)
	r.empty()
	if s, err := r.store.Status(r.Context(), "q", q.KeyID("conflict")); err != nil || s.State != jobs.StateQueued {
		r.Errorf("Status = %+v, %v; want the second job", s, err)
	}
}

// A relay that serves some of the queues leaves the rows of others alone.
func TestQ6_OtherRelaysRowsStay(t *testing.T) {
	r := newRig(t)
	r.enqueue(r.queue("other", outbox.QueueOptions{}), "in", outbox.EnqueueOptions{})
	r.exec("UPDATE weir_outbox SET enqueued_at = enqueued_at - interval '1 day'")
	id := r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	relay := r.relay(outbox.RelayOptions{UnknownAfter: -1})
	r.eventually("some looks", func() bool { return relay.Stats().Polled >= 5 })
	r.parked(0)
	if n := r.count("SELECT count(*) FROM weir_outbox"); n != 1 || !slices.Equal(r.ids("q"), []string{id}) {
		t.Errorf("%d rows, jobs %v; want the other queue's row left", n, r.ids("q"))
	}
}

func TestQ10_BacklogCountsRowsAndAges(t *testing.T) {
	r := newRig(t)
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	r.exec("UPDATE weir_outbox SET enqueued_at = enqueued_at - interval '1 hour'")
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	r.enqueue(r.queue("a", outbox.QueueOptions{}), "in", outbox.EnqueueOptions{})
	r.exec(`INSERT INTO weir_outbox_parked (seq, queue, id, input, version, serial, owner, fingerprint, enqueued_at, reason, detail)
		SELECT n, 'p', 'x', '', 0, '', '', '', now(), 'conflict', '' FROM generate_series(1, 3) AS n`)
	got, err := r.table.Backlog(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatalf("Backlog = %+v, %v; want three queues", got, err)
	}
	if b := got[0]; b.Queue != "a" || b.Rows != 1 || b.Oldest > time.Minute {
		t.Errorf("Backlog[0] = %+v; want one young row of a", b)
	}
	if b := got[1]; b.Queue != "q" || b.Rows != 2 || b.Oldest < time.Hour || b.Oldest > time.Hour+time.Minute || b.Parked != 0 {
		t.Errorf("Backlog[1] = %+v; want two rows of q, the oldest an hour old", b)
	}
	if b := got[2]; b.Queue != "p" || b.Rows != 0 || b.Parked != 3 {
		t.Errorf("Backlog[2] = %+v; want three parked rows of p", b)
	}
}

// Q10: the lists work whatever instants the rows have, and so does their JSON.
func TestQ10_InstantsOutOfBoundsAreListed(t *testing.T) {
	for _, at := range []string{"infinity", "-infinity", "4713-01-01 BC", "294276-01-01", "10000-01-01"} {
		t.Run(at, func(t *testing.T) {
			r := newRig(t)
			r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
			r.exec("UPDATE weir_outbox SET enqueued_at = $1::text::timestamptz", at)
			r.exec(`INSERT INTO weir_outbox_parked (seq, queue, id, input, version, serial, owner, fingerprint, enqueued_at, parked_at, reason, detail)
				VALUES (1, 'q', 'x', '', 0, '', '', '', $1::text::timestamptz, $1::text::timestamptz, 'conflict', '')`, at)
			if got, err := r.table.Backlog(t.Context()); err != nil || len(got) != 1 || got[0].Rows != 1 || got[0].Parked != 1 || got[0].Oldest < 0 {
				t.Errorf("Backlog = %+v, %v; want one row of each kind", got, err)
			}
			rows, err := r.table.Parked(t.Context(), outbox.ParkedFilter{})
			if err != nil || len(rows) != 1 {
				t.Fatalf("Parked = %+v, %v; want one row", rows, err)
			}
			if _, err := json.Marshal(rows); err != nil {
				t.Errorf("json.Marshal = %v; want nil", err)
			}
		})
	}
}

// A panic in the Observer changes nothing.
func TestQ10_ObserversAreIsolated(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	for range 10 {
		r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	}
	r.relay(outbox.RelayOptions{Observer: panics{}})
	r.empty()
	if n := len(r.ids("q")); n != 10 {
		t.Errorf("%d jobs; want 10", n)
	}
}

type panics struct{ outbox.NopObserver }

func (panics) Event(context.Context, outbox.Event) { panic("the observer") }
