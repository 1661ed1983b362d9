package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/internal/journal"
)

type submission = jobs.Submission[string]

func (r *contractRig) submitMany(q *stringQueue, all ...submission) ([]*stringHandle, error) {
	r.Helper()
	ctx, cancel := r.soon()
	defer cancel()
	handles, err := q.SubmitMany(ctx, all)
	if len(handles) != len(all) {
		r.Fatalf("SubmitMany returned %d handles, %v; want %d handles", len(handles), err, len(all))
	}
	return handles, err
}

// wantMany submits jobs that must all be accepted.
func (r *contractRig) wantMany(q *stringQueue, all ...submission) []*stringHandle {
	r.Helper()
	handles, err := r.submitMany(q, all...)
	if err != nil {
		r.Fatalf("SubmitMany = %v; want nil", err)
	}
	return handles
}

func keyed(key, in string) submission {
	return submission{Input: in, Options: jobs.SubmitOptions{Key: key}}
}

// J25: SubmitMany accepts each job as Submit does, and returns the handles in order.
func TestJ25_SubmitManyAcceptsEachJob(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	var all []submission
	for i := range 1000 { // several windows
		all = append(all, submission{Input: fmt.Sprint(i), Options: jobs.SubmitOptions{Owner: fmt.Sprint("o", i)}})
	}
	handles := r.wantMany(q, all...)
	if s := q.Stats(); s != (jobs.Stats{Submitted: 1000}) {
		t.Errorf("Stats = %+v; want 1000 submitted", s)
	}
	r.wantWaiting(1000)
	var log contractLog
	r.work(q, jobs.WorkerOptions{Concurrency: 100}, log.echo)
	for i, h := range handles {
		r.wantResult(h, fmt.Sprint(i))
		if s := r.status(h); s.Owner != fmt.Sprint("o", i) {
			t.Errorf("Owner of job %d = %q; want o%d", i, s.Owner, i)
		}
	}
	if n := len(log.all()); n != 1000 {
		t.Errorf("%d attempts of 1000 jobs; want 1000", n)
	}
}

// J25: each submission has its own outcome. One that fails does not affect the others.
func TestJ25_EachSubmissionHasItsOutcome(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxInput: 100})
	known := r.submit(q, "in", jobs.SubmitOptions{Key: "known"})
	handles, err := r.submitMany(q,
		keyed("", "new"),
		keyed("known", "in"),                // joins
		keyed("known", "other"),             // conflict
		keyed("", strings.Repeat("x", 200)), // too large
		submission{Options: jobs.SubmitOptions{Delay: -1}},
		keyed("twice", "a"),
		keyed("twice", "a"), // joins the one before
		keyed("twice", "b"), // conflicts with it
		keyed("", "last"),
	)
	var errs jobs.SubmitErrors
	if !errors.As(err, &errs) || len(errs) != 4 {
		t.Fatalf("SubmitMany = %v; want SubmitErrors with 4 errors", err)
	}
	for i, want := range map[int]error{2: jobs.ErrConflict, 3: jobs.ErrTooLarge, 7: jobs.ErrConflict} {
		if !errors.Is(errs[i], want) || !errors.Is(err, want) {
			t.Errorf("error %d = %v; want %v", i, errs[i], want)
		}
	}
	if option := new(jobs.OptionError); !errors.As(errs[4], &option) || option.Field != "SubmitOptions.Delay" {
		t.Errorf("error 4 = %v; want an *OptionError of Delay", errs[4])
	}
	for i, h := range handles {
		if (h == nil) != (errs[i] != nil) {
			t.Errorf("handle %d = %v with error %v; want one of them", i, h, errs[i])
		}
	}
	if handles[1].ID() != known.ID() || !handles[1].Joined() || handles[0].Joined() {
		t.Errorf("handles = %v; want the second, only, to join the known job", handles)
	}
	if handles[5].ID() != handles[6].ID() || handles[5].Joined() || !handles[6].Joined() {
		t.Errorf("handles 5 and 6 = %v, %v; want one job, which the second joins", handles[5], handles[6])
	}
	if s := q.Stats(); s != (jobs.Stats{Submitted: 4, Joined: 2}) {
		t.Errorf("Stats = %+v; want 4 submitted, 2 joined", s)
	}
	r.wantWaiting(4)
}

// J25: a finished job's key is treated as by Submit: kept as done, it is joined;
// failed, it is started again; with Once it is not.
func TestJ25_FinishedJobsAreTreatedAsBySubmit(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 1})
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(ctx context.Context, j *stringJob) (string, error) {
		if j.Input == "bad" && log.count("bad") == 0 {
			log.add(j)
			return "", errors.New("no")
		}
		return log.echo(ctx, j)
	})
	first := r.wantMany(q, keyed("done", "in"), keyed("dead", "bad"))
	r.wantResult(first[0], "in")
	r.wantError(first[1], jobs.StateDead)
	once := r.wantMany(q, submission{Input: "bad", Options: jobs.SubmitOptions{Key: "dead", Once: true}})
	if !once[0].Joined() {
		t.Error("a submission with Once did not join the dead job")
	}
	second := r.wantMany(q, keyed("done", "in"), keyed("dead", "bad"))
	if !second[0].Joined() || second[1].Joined() {
		t.Errorf("joined = %v, %v; want true for the done job, false for the dead one", second[0].Joined(), second[1].Joined())
	}
	r.wantResult(second[1], "bad")
	if c := r.counts(); c.Dead != 0 {
		t.Errorf("Queues = %+v; want no dead job", c)
	}
}

// J25: the bounds of the queue hold for the sum. Nothing is stored of the submissions
// that are refused, but they can join.
func TestJ25_BoundsHoldForTheSum(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxQueued: 10})
	first := r.submit(q, "in", jobs.SubmitOptions{Key: "first"})
	var all []submission
	for i := range 25 {
		all = append(all, keyed(strings.Repeat("k", i%2*(i+1)), fmt.Sprint(i))) // every second one has a key
	}
	all = append(all, keyed("first", "in"))
	handles, err := r.submitMany(q, all...)
	var errs jobs.SubmitErrors
	if !errors.As(err, &errs) || len(errs) != 16 {
		t.Fatalf("SubmitMany = %v; want SubmitErrors with 16 errors", err)
	}
	for i := range 25 {
		var full *jobs.FullError
		switch {
		case i < 9:
			if handles[i] == nil {
				t.Errorf("submission %d = %v; want a job", i, errs[i])
			}
		case errors.As(errs[i], &full):
			r.wantFull(full, jobs.FullLength)
		default:
			t.Errorf("error %d = %v; want a *FullError", i, errs[i])
		}
	}
	if h := handles[25]; h == nil || h.ID() != first.ID() {
		t.Errorf("the submission of a known key = %v, %v; want that job", h, errs[25])
	}
	if s := q.Stats(); s != (jobs.Stats{Submitted: 10, Joined: 1, Refused: 16}) {
		t.Errorf("Stats = %+v; want 10 submitted, 1 joined, 16 refused", s)
	}
	r.wantWaiting(10)
}

// J25: submissions that join do not count as queued.
func TestJ25_JoinedSubmissionsNeedNoRoom(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxQueued: 10})
	var all []submission
	for i := range 8 {
		all = append(all, keyed(fmt.Sprint(i), "in"))
	}
	r.wantMany(q, all...)
	r.wantWaiting(8)
	r.wantMany(q, all...)             // all join
	r.wantMany(q, all...)             // and again
	r.wantMany(q, keyed("new", "in")) // the ninth
	r.wantWaiting(9)
}

// J25: too many submissions are refused as a whole.
func TestJ25_TheNumberOfSubmissionsIsBounded(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	option := new(jobs.OptionError)
	if _, err := q.SubmitMany(t.Context(), make([]submission, jobs.MaxSubmissions+1)); !errors.As(err, &option) {
		t.Errorf("SubmitMany of %d = %v; want an *OptionError", jobs.MaxSubmissions+1, err)
	}
	if handles, err := q.SubmitMany(t.Context(), nil); len(handles) != 0 || err != nil {
		t.Errorf("SubmitMany of none = %v, %v; want none, nil", handles, err)
	}
	r.wantWaiting(0)
}

// A countingFlusher counts the flushes that were awaited, and can fail them.
type countingFlusher struct {
	flushes *atomic.Int64
	err     error
}

func (f countingFlusher) Flush(context.Context, string) error { f.flushes.Add(1); return f.err }
func (countingFlusher) Begin(string)                          {}

// J25: with level disk, one flush serves all jobs, and nothing is acknowledged
// without it.
func TestJ25_OneFlushServesAllJobs(t *testing.T) {
	srv, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityDisk})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	all := make([]jobs.Submission[int], 1000)
	submit := func(timeout time.Duration, f countingFlusher) error {
		s, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk, Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		q := queue[int, int](t, s, "counted", jobs.QueueOptions{})
		defer journal.ServeLocally(nc.ConnectedServerId(), f)()
		_, err = q.SubmitMany(t.Context(), all)
		return err
	}
	f := countingFlusher{new(atomic.Int64), nil}
	if err := submit(patience, f); err != nil || f.flushes.Load() != 1 {
		t.Errorf("SubmitMany of %d = %v with %d flushes; want nil with 1", len(all), err, f.flushes.Load())
	}
	f.err = errors.New("broken disk")
	var errs jobs.SubmitErrors
	if err := submit(time.Second, f); !errors.As(err, &errs) || len(errs) != len(all) || !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("SubmitMany without a flush = %v; want ErrUnavailable for each job", err)
	}
}

// J25: if the server is killed during SubmitMany, each job that was accepted exists,
// and repeating the call with the same keys leaves one job for each.
func TestJ25_AKilledServerLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := contractWithServerApart(t)
	q := r.queue(jobs.QueueOptions{})
	var all []submission
	for i := range 4000 {
		all = append(all, keyed(fmt.Sprint(i), fmt.Sprint(i)))
	}
	type result struct {
		handles []*stringHandle
		err     error
	}
	done := make(chan result, 1)
	go func() {
		handles, err := q.SubmitMany(context.Background(), all)
		done <- result{handles, err}
	}()
	r.eventually("some jobs are accepted", func() bool {
		select {
		case got := <-done:
			done <- got
			return true
		default:
		}
		all, err := r.store.Queues(t.Context())
		return err == nil && len(all) == 1 && all[0].Waiting > 0
	})
	r.killServer()
	got := <-done // an error or not: that depends on how long the server was away
	for i, h := range got.handles {
		if h != nil {
			if s := r.status(h); s.State != jobs.StateQueued {
				t.Fatalf("job %d, which was accepted, is %v; want queued", i, s.State)
			}
		}
	}
	r.wantMany(q, all...)
	r.wantWaiting(len(all))
}
