package jobshttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// newClusterStore opens a Store on a new cluster.
func newClusterStore(t testing.TB) *jobs.Store {
	t.Helper()
	nc := natstest.StartCluster(t, 3).Connect()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Replicas: 3, MaxBytes: 64 << 20, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(context.Background()) })
	return store
}

// call lets h handle a request, without a network.
func call(t testing.TB, h http.Handler, method, path, body string, fields ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := reply{status: w.Code, header: w.Header(), body: w.Body.String()}
	_ = json.Unmarshal([]byte(a.body), &a.job) // ignored unless it is JSON
	return a
}

// A renamed route still serves the jobs that were accepted under its old name: reads,
// cancels, keys and workers. New jobs use the new name.
func TestH23_ARenamedRouteHasItsFormerJobs(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *jobs.Store{"embedded": newStore, "cluster": newClusterStore} {
		t.Run(name, func(t *testing.T) {
			store, origin := open(t), newOrigin(t)
			service, err := jobshttp.New(store, jobshttp.Options{})
			if err != nil {
				t.Fatal(err)
			}
			route := func(name string, o jobshttp.RouteOptions) *jobshttp.Route {
				t.Helper()
				rt, err := service.Route(t.Context(), name, origin, o)
				if err != nil {
					t.Fatal(err)
				}
				service.Keep(rt)
				return rt
			}
			work := func(rt *jobshttp.Route) (stop func()) {
				t.Helper()
				w, err := rt.Work(jobs.WorkerOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					if err := w.Close(ctx); err != nil {
						t.Errorf("Stop = %v", err)
					}
				}
			}
			later := func(rt *jobshttp.Route, method, path string, fields ...string) string {
				t.Helper()
				a := call(t, rt, method, path, "in", append(fields, "Prefer: respond-async")...)
				if a.status != http.StatusAccepted {
					t.Fatalf("%s %s = %d %s; want 202", method, path, a.status, a.body)
				}
				return a.header.Get("Location")
			}
			result := func(location string, fields ...string) reply {
				t.Helper()
				return call(t, service, "GET", location+"/result", "", append(fields, "Prefer: wait=30")...)
			}

			const me = "Authorization: me"
			old := route("old", jobshttp.RouteOptions{})
			stop := work(old)
			done := later(old, "POST", "/done", "Idempotency-Key: done")
			result(done)
			stop()
			queued := later(old, "POST", "/queued", "Idempotency-Key: queued")
			safe := later(old, "GET", "/safe", me)
			unsafe := later(old, "POST", "/unsafe")
			canceled := later(old, "POST", "/canceled", "Idempotency-Key: canceled")

			for queue, want := range map[string]jobs.Count{"old": {Queued: 3, Finished: 1}, "old-once": {Queued: 1}} {
				if got, err := store.Count(t.Context(), queue); got != want || err != nil {
					t.Errorf("Count(%q) = %+v, %v; want %+v", queue, got, err, want)
				}
			}

			route("new", jobshttp.RouteOptions{})
			if a := call(t, service, "GET", queued, ""); a.status != http.StatusNotFound {
				t.Fatalf("a job of a name that no route ever had = %d %s; want 404", a.status, a.body)
			}
			rt := route("new", jobshttp.RouteOptions{Formerly: []string{"older", "old"}})
			for location, state := range map[string]string{done: "done", queued: "queued", unsafe: "queued", canceled: "queued"} {
				if a := call(t, service, "GET", location, ""); a.status != http.StatusOK || a.job.State != state {
					t.Errorf("GET %s = %d %s; want %s", location, a.status, a.body, state)
				}
			}
			if a := call(t, service, "GET", safe, ""); a.status != http.StatusNotFound {
				t.Errorf("another client's job = %d %s; want 404", a.status, a.body)
			}
			if a := result(done); a.status != http.StatusCreated || a.body != "POST /done in" {
				t.Errorf("result = %d %s; want that of the call", a.status, a.body)
			}
			if a := call(t, service, "DELETE", canceled, ""); a.status != http.StatusNoContent {
				t.Errorf("DELETE = %d %s; want 204", a.status, a.body)
			}
			if got := later(rt, "POST", "/queued", "Idempotency-Key: queued"); got != queued {
				t.Errorf("the same Idempotency-Key gets job %s; want %s", got, queued)
			}
			if got := later(rt, "GET", "/safe", me); got != safe {
				t.Errorf("the same safe request gets job %s; want %s", got, safe)
			}
			if a := call(t, rt, "POST", "/done", "in", "Idempotency-Key: done", "Prefer: respond-async"); a.status != http.StatusCreated || a.body != "POST /done in" {
				t.Errorf("the Idempotency-Key of a job that is done = %d %s; want its result", a.status, a.body)
			}
			if a := call(t, rt, "POST", "/other", "in", "Idempotency-Key: queued", "Prefer: respond-async"); a.status != http.StatusUnprocessableEntity {
				t.Errorf("the same Idempotency-Key with a different request = %d %s; want 422", a.status, a.body)
			}
			fresh := later(rt, "POST", "/fresh", "Idempotency-Key: fresh")
			if st, err := store.Find(t.Context(), fresh[len(service.Path()):]); err != nil || st.Queue != "new" {
				t.Errorf("queue of a new job = %q, %v; want new", st.Queue, err)
			}

			stop = work(rt)
			for _, location := range []string{queued, unsafe, fresh} {
				if a := result(location); a.status != http.StatusCreated {
					t.Errorf("the result of %s = %d %s; want 201", location, a.status, a.body)
				}
			}
			if a := result(safe, me); a.status != http.StatusCreated {
				t.Errorf("the result of %s = %d %s; want 201", safe, a.status, a.body)
			}
			stop()
			if n := origin.calls.Load(); n != 5 {
				t.Errorf("the handler was called %d times; want 5: once per job, and never for the canceled one", n)
			}
			if s := rt.Stats(); s.Submitted != 1 || s.Joined != 3 {
				t.Errorf("Stats = %+v; want 1 submitted and 3 joined", s)
			}
		})
	}
}

func TestH23_FormerNamesAreChecked(t *testing.T) {
	service, err := jobshttp.New(newStore(t), jobshttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		formerly []string
		field    string // empty: valid
	}{
		{[]string{"a", "b"}, ""},
		{[]string{"a", "b", "a"}, "RouteOptions.Formerly[2]"},
		{[]string{"a", "new"}, "RouteOptions.Formerly[1]"},
		{[]string{"a-once"}, "RouteOptions.Formerly[0]"},
		{[]string{""}, "RouteOptions.Formerly[0]"},
		{[]string{strings.Repeat("a", 60)}, "RouteOptions.Formerly[0]"},
	} {
		_, err := service.Route(t.Context(), "new", newOrigin(t), jobshttp.RouteOptions{Formerly: tt.formerly})
		wrong, ok := errors.AsType[*jobshttp.OptionError](err)
		if ok != (tt.field != "") || ok && wrong.Field != tt.field {
			t.Errorf("Route with Formerly %q = %v; want an error of %q", tt.formerly, err, tt.field)
		}
	}
}

// While a new route takes over the name of an old one, the jobs stay readable on
// both. With Keep, the remaining instance responds.
func TestH23_ARenameKeepsJobsReadableAllTheTime(t *testing.T) {
	service, err := jobshttp.New(newStore(t), jobshttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	origin := newOrigin(t)
	old, err := service.Route(t.Context(), "old", origin, jobshttp.RouteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job := call(t, old, "POST", "/", "in", "Prefer: respond-async").header.Get("Location")
	readable := func(when string) {
		t.Helper()
		if a := call(t, service, "GET", job, ""); a.status != http.StatusOK {
			t.Errorf("%s the job is %d %s; want 200", when, a.status, a.body)
		}
	}
	next, err := service.Route(t.Context(), "new", origin, jobshttp.RouteOptions{Formerly: []string{"old"}})
	if err != nil {
		t.Fatal(err)
	}
	readable("with both routes")
	service.Keep(old)
	readable("with the old route back")
	service.Keep(next)
	readable("with the new route alone")
}
