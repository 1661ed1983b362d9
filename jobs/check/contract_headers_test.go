package jobs_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs"
)

// J23: Headers reach the handler of each attempt, the Status and the list, also after
// the job is over and after a retry.
func TestJ23_HeadersReachHandlerAndStatus(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{MaxAttempts: 2})
	want := map[string]string{"traceparent": "00-abc-def-01", "Tenant": "ü 7", "empty": ""}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		j.Headers["Tenant"] += "!" // it is a copy
		delete(j.Headers, "empty")
		log.add(j)
		return "", errors.New("no")
	})
	h := r.submit(q, "a", jobs.SubmitOptions{Headers: want})
	r.wantError(h, jobs.StateDead)
	ctx, cancel := r.soon()
	defer cancel()
	if err := r.store.Retry(ctx, "q", h.ID()); err != nil {
		t.Fatal(err)
	}
	r.eventually("the job has had 4 attempts", func() bool { return len(log.all()) == 4 && r.status(h).State == jobs.StateDead })
	for i, j := range log.all() {
		if len(j.Headers) != 2 || j.Headers["Tenant"] != "ü 7!" || j.Headers["traceparent"] != want["traceparent"] {
			t.Errorf("attempt %d has headers %v; want a fresh copy of %v", i+1, j.Headers, want)
		}
	}
	list, err := r.store.List(ctx, jobs.Filter{Queue: "q"})
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %v, %v; want the job", list, err)
	}
	for what, s := range map[string]jobs.Status{"Status": r.status(h), "List": list[0]} {
		if !maps.Equal(s.Headers, want) {
			t.Errorf("%s has headers %v; want %v", what, s.Headers, want)
		}
	}
}

// J23, J6: Headers are not part of the input. A submission with the same key and
// other headers joins the job, and does not change them.
func TestJ23_HeadersAreNotPartOfTheIdentity(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	first := r.submit(q, "a", jobs.SubmitOptions{Key: "k", Headers: map[string]string{"n": "1"}})
	for _, other := range []map[string]string{{"n": "2"}, nil} {
		h := r.submit(q, "a", jobs.SubmitOptions{Key: "k", Headers: other})
		if !h.Joined() || h.ID() != first.ID() {
			t.Errorf("Submit with headers %v: joined %v; want the same job", other, h.Joined())
		}
	}
	if got := r.status(first).Headers; got["n"] != "1" {
		t.Errorf("Headers = %v; want the first ones", got)
	}
	var log contractLog
	r.work(q, jobs.WorkerOptions{}, log.echo)
	r.wantResult(first, "a")
	again := r.submit(q, "a", jobs.SubmitOptions{Key: "k", Restart: true, Headers: map[string]string{"n": "3"}})
	r.wantResult(again, "a")
	if got := r.status(again).Headers; got["n"] != "3" {
		t.Errorf("Headers after Restart = %v; want those of the new run", got)
	}
}

// J23: Headers are bounded in number and in bytes, and one error names each fault.
// Within the bounds the record has room for everything else.
func TestJ23_HeadersAreBounded(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{})
	ctx, cancel := r.soon()
	defer cancel()
	_, err := q.Submit(ctx, "a", jobs.SubmitOptions{Headers: map[string]string{
		"no space": "", "line": "a\nb", "bytes": "\xff", "": "", strings.Repeat("n", jobs.MaxHeader+1): "", "long": strings.Repeat("v", jobs.MaxHeadersBytes),
	}})
	for _, want := range []string{`name "no space"`, `for "line"`, `for "bytes"`, `name ""`, `name "nnn`, "bytes in all, must be at most 4096"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Submit = %v; want an error with %s", err, want)
		}
	}
	many := map[string]string{}
	for i := range jobs.MaxHeaders + 1 {
		many[strings.Repeat("n", i+1)] = ""
	}
	if _, err = q.Submit(ctx, "a", jobs.SubmitOptions{Headers: many}); err == nil || !strings.Contains(err.Error(), "33 headers, must be at most 32") {
		t.Errorf("Submit with 33 headers = %v; want an error with the number and the bound", err)
	}

	full, key := map[string]string{}, strings.Repeat("\x01", jobs.MaxKey)
	for i := range jobs.MaxHeaders {
		full[strings.Repeat("n", i+1)] = strings.Repeat(`"`, jobs.MaxHeadersBytes/jobs.MaxHeaders-i-1)
	}
	w := jobs.WorkerOptions{Name: key}
	r.work(q, w, func(_ context.Context, j *stringJob) (string, error) {
		j.Progress(jobs.Progress{Note: key})
		return "", jobs.Permanent(errors.New(key))
	})
	h := r.submit(q, "a", jobs.SubmitOptions{Key: key, Owner: key, Serial: key, Fingerprint: key, Headers: full})
	r.wantError(h, jobs.StateFailed)
	if got := r.status(h).Headers; !maps.Equal(got, full) {
		t.Errorf("Headers = %v; want all of them", got)
	}
}
