package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// newStore has a queue "mail", with a job that is queued, one that failed and
// one that is done, by these keys.
func newStore(t testing.TB) (*jobs.Store, map[string]string) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	check(t, err)
	t.Cleanup(func() { server.Close(context.Background()) })
	nc, err := server.Connect()
	check(t, err)
	t.Cleanup(nc.Close)
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityProcess})
	check(t, err)
	t.Cleanup(func() { store.Close(context.Background()) })

	mail, err := jobs.NewQueue[string, string](t.Context(), store, "mail", jobs.QueueOptions{})
	check(t, err)
	w, err := mail.Work(func(_ context.Context, j *jobs.Job[string]) (string, error) {
		if j.Input == "failed" {
			return "", jobs.Permanent(errors.New("no such customer"))
		}
		return "the result of " + j.Input, nil
	}, jobs.WorkerOptions{})
	check(t, err)
	ids := map[string]string{}
	for _, key := range []string{"failed", "done"} {
		h, err := mail.Submit(t.Context(), key, jobs.SubmitOptions{Key: key})
		check(t, err)
		_, _ = h.Wait(t.Context()) // an error for one of them
		ids[key] = h.ID()
	}
	check(t, w.Close(t.Context()))
	h, err := mail.Submit(t.Context(), "queued", jobs.SubmitOptions{Key: "queued"})
	check(t, err)
	ids["queued"] = h.ID()
	return store, ids
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func del(target string) call { return call{method: "DELETE", target: target} }

func TestC4_JobsWithoutTheirKeys(t *testing.T) {
	store, ids := newStore(t)
	for _, hide := range []bool{false, true} {
		h := admin.New(newFake(t), admin.Options{Jobs: store, HideKeys: hide})
		for _, target := range []string{"/jobs", "/jobs?state=failed", "/jobs/mail/" + ids["failed"]} {
			got := get(target).on(h)
			if told := strings.Contains(got.Body.String(), `"key"`); told == hide || !strings.Contains(got.Body.String(), ids["failed"]) {
				t.Errorf("HideKeys %v: %s: %s; want the job, with a key: %v", hide, target, got.Body, !hide)
			}
		}
	}
}

func TestJobsAreTheirStatus(t *testing.T) {
	store, ids := newStore(t)
	h := admin.New(newFake(t), admin.Options{Jobs: store})
	want, err := store.List(t.Context(), jobs.Filter{})
	check(t, err)
	if len(want) != 3 {
		t.Fatalf("the store has %d jobs; want 3", len(want))
	}
	for target, keys := range map[string][]string{
		"/jobs":                                  {"queued", "done", "failed"},
		"/jobs?queue=mail":                       {"queued", "done", "failed"},
		"/jobs?queue=other":                      {},
		"/jobs?state=done":                       {"done"},
		"/jobs?state=done,failed":                {"done", "failed"},
		"/jobs?state=done&state=failed":          {"done", "failed"},
		"/jobs?id=" + ids["done"]:                {"done"},
		"/jobs?id=" + ids["done"][:6]:            {"done"},
		"/jobs?queue=mail&id=" + ids["failed"]:   {"failed"},
		"/jobs?state=queued&id=" + ids["failed"]: {},
		"/jobs?limit=2":                          {"queued", "done"},
		"/jobs?limit=3":                          {"queued", "done", "failed"},
	} {
		got := get(target).on(h)
		var page jobsctl.Page
		if err := json.Unmarshal(got.Body.Bytes(), &page); err != nil || got.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, got.Code, got.Body)
			continue
		}
		var have []string
		for _, j := range page.Jobs {
			have = append(have, j.ID)
		}
		var wanted []string
		for _, key := range keys {
			wanted = append(wanted, ids[key])
		}
		if strings.Join(have, " ") != strings.Join(wanted, " ") || page.More != (target == "/jobs?limit=2") || page.Jobs == nil {
			t.Errorf("%s: %s; want %v", target, got.Body, keys)
		}
		if strings.Contains(got.Body.String(), "the result of") {
			t.Errorf("%s shows a result: %s", target, got.Body)
		}
	}
	for _, j := range want {
		got := get("/jobs/mail/" + j.ID).on(h)
		b, err := json.MarshalIndent(j, "", "  ")
		check(t, err)
		if got.Code != http.StatusOK || strings.TrimSpace(got.Body.String()) != string(b) {
			t.Errorf("job %s: %d %s; want %s", j.ID, got.Code, got.Body, b)
		}
	}
	one := regexp.MustCompile(`^{"queues":\[{"queue":"mail","waiting":1,"taken":0,"dead":\d+,"oldest_ns":[1-9]\d*}\]}$`)
	if got := get("/jobs/queues").on(h); !one.MatchString(strings.Join(strings.Fields(got.Body.String()), "")) {
		t.Errorf("queues: %d %s", got.Code, got.Body)
	}
}

func TestJobsOrders(t *testing.T) {
	store, ids := newStore(t)
	var logged bytes.Buffer
	h := admin.New(newFake(t), admin.Options{Jobs: store, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	const nobody = "/jobs/mail/00000000000000000000000000000000"
	queued, failed, done := "/jobs/mail/"+ids["queued"], "/jobs/mail/"+ids["failed"], "/jobs/mail/"+ids["done"]
	for _, tt := range []struct {
		c      call
		status int
		want   string // in the answer
		log    string // the message, or none
	}{
		{del(queued), 409, `"reason": "conflict"`, ""},
		{post(done+"/retry", ""), 409, `"reason": "conflict"`, ""},
		{post(done+"/cancel", ""), 409, `"reason": "finished"`, ""},
		{post(nobody+"/retry", ""), 404, `"reason": "not_found"`, ""},
		{post(nobody+"/cancel", ""), 404, `"reason": "not_found"`, ""},
		{del(nobody), 404, `"reason": "not_found"`, ""},
		{get(nobody), 404, `"reason": "not_found"`, ""},
		{post(failed+"/retry", ""), 200, `"did": "queued again"`, "job queued again"},
		{post(failed+"/retry", ""), 409, `"reason": "conflict"`, ""},
		{post(queued+"/cancel", ""), 200, `"did": "canceled"`, "job canceled"},
		{del(queued), 200, `"did": "dropped"`, "job dropped"},
		{get(queued), 404, `"reason": "not_found"`, ""},
		{post("/jobs/queues/mail/pause", ""), 200, `"did": "paused"`, "queue paused"},
		{get("/jobs/queues"), 200, `"paused": true`, ""},
		{post("/jobs/queues/mail/resume", ""), 200, `"did": "resumed"`, "queue resumed"},
		{post("/jobs/queues/unknown/pause", ""), 404, `"reason": "not_found"`, ""},
		{get("/jobs/queues/mail/pause"), 405, "", ""},
		{post(done, ""), 405, "", ""},
		{post(done+"/drop", ""), 404, "", ""},
		{get(done + "/retry"), 405, "", ""},
	} {
		logged.Reset()
		got := tt.c.on(h)
		if got.Code != tt.status || !strings.Contains(got.Body.String(), tt.want) {
			t.Errorf("%s %s: %d %s; want %d, %s", tt.c.method, tt.c.target, got.Code, got.Body, tt.status, tt.want)
		}
		if log := logged.String(); (tt.log != "") != (log != "") || !strings.Contains(log, tt.log) {
			t.Errorf("%s %s logged %q; want %q", tt.c.method, tt.c.target, log, tt.log)
		}
	}
	if s, err := store.Status(t.Context(), "mail", ids["failed"]); err != nil || s.State != jobs.StateQueued {
		t.Errorf("the job that was retried is %s, %v; want it queued", s.State, err)
	}
}

func TestJobsQueriesThatCannotBeRead(t *testing.T) {
	store, _ := newStore(t)
	h := admin.New(newFake(t), admin.Options{Jobs: store})
	for query, want := range map[string]string{
		"state=lost":          "is no state",
		"limit=0":             "want a number from 1 to 100000",
		"limit=x":             "want a number from 1 to 100000",
		"limit=100001":        "want a number from 1 to 100000",
		"id=12345":            "is no id",
		"id=xyzxyz":           "is no id",
		"qeue=mail":           "there are queue, state, id, limit and counts",
		"queue=%zz":           "invalid URL escape",
		"state=done&state=xx": "is no state",
	} {
		got := get("/jobs?" + query).on(h)
		var f jobsctl.Failure
		if err := json.Unmarshal(got.Body.Bytes(), &f); err != nil || got.Code != 400 || f.Reason != jobsctl.BadRequest || !strings.Contains(f.Error, want) {
			t.Errorf("?%s: %d %s; want 400, %s", query, got.Code, got.Body, want)
		}
	}
}

func TestJobsOfAProxyThatKeepsNone(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{})
	for _, c := range []call{get("/jobs"), get("/jobs/queues"), get("/jobs/mail/x"), post("/jobs/mail/x/retry", ""), post("/jobs/mail/x/cancel", ""), del("/jobs/mail/x")} {
		got := c.on(h)
		var f jobsctl.Failure
		if err := json.Unmarshal(got.Body.Bytes(), &f); err != nil || got.Code != 404 || f.Reason != jobsctl.NoJobs || !strings.Contains(f.Error, "no jobs section") {
			t.Errorf("%s %s: %d %s; want 404 and why", c.method, c.target, got.Code, got.Body)
		}
	}
}

// Jobs are behind the same access checks as the rest.
func TestH20_JobsAreGuarded(t *testing.T) {
	store, ids := newStore(t)
	path := "/jobs/mail/" + ids["failed"]
	all := []call{get("/jobs"), get("/jobs/queues"), get(path), post(path+"/retry", ""), post(path+"/cancel", ""), del(path),
		post("/jobs/queues/mail/pause", ""), post("/jobs/queues/mail/resume", "")}
	token := admin.New(newFake(t), admin.Options{Jobs: store, Token: "correct horse"})
	open := admin.New(newFake(t), admin.Options{Jobs: store})
	for _, c := range all {
		if got := c.on(token); got.Code != 401 {
			t.Errorf("%s %s without the token: %d; want 401", c.method, c.target, got.Code)
		}
		c.host = "evil.example"
		if got := c.on(open); got.Code != 403 {
			t.Errorf("%s %s for another Host: %d; want 403", c.method, c.target, got.Code)
		}
		c.host, c.header = "", map[string]string{"Sec-Fetch-Site": "cross-site"}
		if got := c.on(open); c.method != "GET" && got.Code != 403 {
			t.Errorf("%s %s from another site's page: %d; want 403", c.method, c.target, got.Code)
		}
	}
	if s, err := store.Status(t.Context(), "mail", ids["failed"]); err != nil || s.State != jobs.StateFailed {
		t.Errorf("after that the job is %s, %v; want it failed still", s.State, err)
	}
}

func TestJobsOfAServerThatIsAway(t *testing.T) {
	store, ids := newStore(t)
	h := admin.New(newFake(t), admin.Options{Jobs: store})
	check(t, store.Close(context.Background()))
	for _, c := range []call{get("/jobs"), get("/jobs/mail/" + ids["done"]), del("/jobs/mail/" + ids["done"])} {
		if got := c.on(h); got.Code != 503 || !strings.Contains(got.Body.String(), `"reason": "unavailable"`) {
			t.Errorf("%s %s: %d %s; want 503", c.method, c.target, got.Code, got.Body)
		}
	}
}

// Every request gets a JSON response, and causes no panic.
func FuzzJobs(f *testing.F) {
	store, _ := newStore(f)
	h := admin.New(nil, admin.Options{Jobs: store, Logger: slog.New(slog.DiscardHandler)})
	f.Add("queue=mail&state=done,failed&limit=7", "mail", "0123456789abcdef0123456789abcdef")
	f.Add("id=012345&id=%00", "*", ">")
	f.Add("limit=-1&state=", "..", " . ")
	f.Fuzz(func(t *testing.T, query, queue, id string) {
		for _, target := range []string{"/jobs?" + query, "/jobs/" + url.PathEscape(queue) + "/" + url.PathEscape(id)} {
			r, err := http.NewRequest("GET", "http://localhost"+target, nil)
			if err != nil {
				continue // no client could send it
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code == http.StatusOK || w.Code >= 400 && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
				if !json.Valid(w.Body.Bytes()) {
					t.Errorf("%s: %d %s; want JSON", target, w.Code, w.Body)
				}
			}
			if w.Code >= 500 {
				t.Errorf("%s: %d %s; want an answer", target, w.Code, w.Body)
			}
		}
	})
}

// C4: browsers get neither a job's owner nor its key; operators at the command
// line are.
func TestC4_JobsWithoutKeys(t *testing.T) {
	const secret = "sesame8472"
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	check(t, err)
	defer server.Close(context.Background())
	nc, err := server.Connect()
	check(t, err)
	defer nc.Close()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityProcess})
	check(t, err)
	defer store.Close(context.Background())
	q, err := jobs.NewQueue[string, string](t.Context(), store, "mail", jobs.QueueOptions{MaxAttempts: 2, RetryInitial: time.Millisecond})
	check(t, err)
	w, err := q.Work(func(ctx context.Context, j *jobs.Job[string]) (string, error) {
		j.Progress(jobs.Progress{Done: 1, Note: "at http://ada:" + secret + "@a.example/x?token=" + secret + " now"})
		j.Log("got https://a.example/page?token=" + secret)
		return "", &url.Error{Op: "Get", URL: "https://a.example/price?token=" + secret, Err: errors.New("connection refused")}
	}, jobs.WorkerOptions{})
	check(t, err)
	h, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{Key: "GET https://a.example/price?token=" + secret, Owner: secret, Label: "POST /price/" + secret})
	check(t, err)
	_, err = h.Wait(t.Context())
	if err == nil {
		t.Fatal("the job has a result; want it dead")
	}
	check(t, w.Close(t.Context()))

	for _, hide := range []bool{false, true} {
		a := admin.New(newFake(t), admin.Options{Jobs: store, HideKeys: hide})
		for _, target := range []string{"/jobs", "/jobs?queue=mail", "/jobs?id=" + h.ID(), "/jobs/mail/" + h.ID()} {
			got := get(target).on(a)
			body := got.Body.String()
			if n := strings.Count(body, secret); (n == 0) != hide || got.Code != 200 {
				t.Errorf("%s, hiding keys: %v, is %d and has the secret %d times: %s", target, hide, got.Code, n, body)
			}
			if label := map[bool]string{false: "POST /price/" + secret, true: "POST"}[hide]; !strings.Contains(body, `"label": "`+label+`"`) {
				t.Errorf("%s, hiding keys: %v, is %s; want the label %q", target, hide, body, label)
			}
			if one := "/jobs/mail/" + h.ID(); strings.Contains(body, "got https://a.example/page?") != (target == one) {
				t.Errorf("%s, hiding keys: %v, is %s; want the log only at %s", target, hide, body, one)
			}
			if !strings.Contains(body, h.ID()) || !strings.Contains(body, "https://a.example/price?") || !strings.Contains(body, "connection refused") {
				t.Errorf("%s, hiding keys: %v, is %s; want the job, and why it died", target, hide, body)
			}
		}
	}
	hides := admin.New(newFake(t), admin.Options{Jobs: store, HideKeys: true})
	if got := get("/jobs?state=http://a?" + secret).on(hides); got.Code != 400 || strings.Contains(got.Body.String(), secret) {
		t.Errorf("a query that cannot be read: %d %s; want 400, and no secret", got.Code, got.Body)
	}
}
