package admin_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/jobs"
)

// Many jobs are retried or canceled by one request: those that it names, or all in some
// states. With states it has to say how many there are, and nothing is done if there are
// more or fewer.
func TestC7_ManyJobsAtOnce(t *testing.T) {
	store, ids := newStore(t)
	var logged bytes.Buffer
	h := admin.New(newFake(t), admin.Options{Jobs: store, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for _, tt := range []struct {
		body   string
		status int
		want   string // in the response
		log    string // in the log; empty: nothing is logged
	}{
		{`{"verb": "retry", "states": ["failed"], "count": 2}`, 409, "2 jobs were confirmed, and there are 1 now: nothing was done", ""},
		{`{"verb": "retry", "states": ["dead", "failed"], "queue": "other", "count": 1}`, 409, "there are 0 now", ""},
		{`{"verb": "retry", "states": ["failed"]}`, 400, "count is 0; want the number of jobs, from 1 to 10000", ""},
		{`{"verb": "retry", "states": ["failed"], "count": 10001}`, 400, "count is 10001", ""},
		{`{"verb": "drop", "states": ["failed"], "count": 1}`, 400, "want retry or cancel", ""},
		{`{"verb": "retry", "states": ["queued"], "count": 1}`, 400, "a job that is queued cannot be queued again; want failed, dead or canceled", ""},
		{`{"verb": "retry", "states": ["lost"], "count": 1}`, 400, "the body", ""},
		{`{"verb": "retry"}`, 400, "want one of", ""},
		{`{"verb": "retry", "states": ["failed"], "count": 1, "jobs": [{"queue": "mail", "id": "x"}]}`, 400, "want one of", ""},
		{`{"verb": "retry", "state": "failed"}`, 400, "unknown field", ""},
		{strings.Repeat(" ", 2<<20) + `{}`, 400, "the body", ""},
		{`{"verb": "retry", "states": ["failed"], "count": 1}`, 200, `"done": 1`, "done=1 failed=0"},
		{fmt.Sprintf(`{"verb": "cancel", "jobs": [{"queue": "mail", "id": %q}, {"queue": "mail", "id": %q}]}`, ids["queued"], ids["done"]), 200, `"failed": 1`, "done=1 failed=1"},
	} {
		logged.Reset()
		got := post("/jobs", tt.body).on(h)
		if got.Code != tt.status || !strings.Contains(got.Body.String(), tt.want) {
			t.Errorf("%.80s: %d %s; want %d, %s", tt.body, got.Code, got.Body, tt.status, tt.want)
		}
		if log := logged.String(); (tt.log != "") != (log != "") || !strings.Contains(log, tt.log) {
			t.Errorf("%.80s logged %q; want %q", tt.body, log, tt.log)
		}
	}
	for key, want := range map[string]jobs.State{"failed": jobs.StateQueued, "queued": jobs.StateCanceled, "done": jobs.StateDone} {
		if s, err := store.Status(t.Context(), "mail", ids[key]); err != nil || s.State != want {
			t.Errorf("the job %q is %s, %v; want %s", key, s.State, err, want)
		}
	}
	if got := get("/jobs?state=done&limit=1&counts=true").on(h); !strings.Contains(strings.Join(strings.Fields(got.Body.String()), ""), `"counts":{"canceled":1,"done":1,"queued":1}`) {
		t.Errorf("the list with counts is %s; want those of all states", got.Body)
	}
}
