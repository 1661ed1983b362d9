package jobshttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

func TestH23_StatusTellsHowItStands(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/slow", "in").job.ID
	x.arrives()
	a := x.is("status", x.do("GET", "/.weir/jobs/"+id, ""), 200)
	if j := a.job; j.ID != id || j.State != "running" || j.Attempt != 1 || j.Submitted.IsZero() || j.Started.IsZero() || !j.Finished.IsZero() {
		t.Errorf("status = %s", a.body)
	}
	x.has("status", a, "Cache-Control", "no-store, private")
	if a.header.Get("Retry-After") == "" {
		t.Error("the status of a running job has no Retry-After")
	}
	head := x.is("HEAD", x.do("HEAD", "/.weir/jobs/"+id, ""), 200)
	x.has("HEAD", head, "Content-Type", "application/json")
	x.may <- struct{}{}
	a = x.over(id)
	if a.job.State != "done" || a.job.Finished.IsZero() {
		t.Errorf("status = %s; want done", a.body)
	}
	x.has("a finished job", a, "Retry-After", "")
}

func TestH23_StatusWaits(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{MaxWait: 25 * time.Second}})
	id := x.async("POST", "/slow", "in").job.ID
	x.arrives()
	a := x.is("for nothing", x.do("GET", "/.weir/jobs/"+id, "", "Prefer: wait=1"), 200)
	x.has("for nothing", a, "Preference-Applied", "wait=1")
	if a.job.State != "running" {
		t.Errorf("status = %s; want running", a.body)
	}
	tag := a.header.Get("ETag")
	x.is("unchanged", x.do("GET", "/.weir/jobs/"+id, "", "If-None-Match: "+tag), 304)

	got := make(chan reply, 1)
	go func() { got <- x.do("GET", "/.weir/jobs/"+id, "", "Prefer: wait=1000") }()
	x.may <- struct{}{}
	a = <-got
	x.has("until it is over", a, "Preference-Applied", "wait=25")
	if a.job.State != "done" {
		t.Errorf("status = %s; want done", a.body)
	}
	x.is("changed", x.do("GET", "/.weir/jobs/"+id, "", "If-None-Match: "+tag, "Prefer: wait=5"), 200)
}

func TestH23_LeaveAnswersThoseWhoWait(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/slow", "in").job.ID
	x.arrives()
	status, accepted := make(chan reply, 1), make(chan reply, 1)
	go func() { status <- x.do("GET", "/.weir/jobs/"+id, "", "Prefer: wait=30") }()
	go func() { accepted <- x.do("POST", "/slow", "", "Prefer: respond-async, wait=30") }()
	x.arrives()
	x.service.Drain(context.Background())
	x.is("status", <-status, 200)
	x.is("a request", <-accepted, 202)
}

func TestH23_ResultIsTheAnswer(t *testing.T) {
	x := newSite(t, setup{})
	x.answers(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=600")
		h.Set("CDN-Cache-Control", "max-age=600")
		h.Set("Expires", "Thu, 01 Jan 2099 00:00:00 GMT")
		h.Set("X-Own", "1")
		h.Add("X-Own", "2")
		h["Content-Type"] = nil
		w.WriteHeader(http.StatusTeapot)
		w.Write([]byte("<html>\x00"))
	})
	id := x.async("POST", "/slow", "in").job.ID
	a := x.is("too early", x.do("GET", "/.weir/jobs/"+id+"/result", ""), 202)
	x.has("too early", a, "Location", "/.weir/jobs/"+id)
	if a.header.Get("Retry-After") == "" || a.job.ID != id {
		t.Errorf("too early: %v %s; want the status document", a.header, a.body)
	}
	x.arrives()
	got := make(chan reply, 1)
	go func() { got <- x.do("GET", "/.weir/jobs/"+id+"/result", "", "Prefer: wait=20") }()
	x.may <- struct{}{}
	for what, a := range map[string]reply{"waited for": <-got, "there": x.do("GET", "/.weir/jobs/"+id+"/result", "")} {
		x.is(what, a, http.StatusTeapot)
		if a.body != "<html>\x00" {
			t.Errorf("%s: body = %q; want the origin's", what, a.body)
		}
		x.has(what, a, "X-Own", "1, 2")
		x.has(what, a, "Content-Type", "")
		x.has(what, a, "Cache-Control", "no-store, private")
		x.has(what, a, "CDN-Cache-Control", "")
		x.has(what, a, "Expires", "")
	}
	head := x.is("HEAD", x.do("HEAD", "/.weir/jobs/"+id+"/result", ""), http.StatusTeapot)
	if head.body != "" {
		t.Errorf("HEAD has the body %q", head.body)
	}
	x.has("HEAD", head, "X-Own", "1, 2")
}

func TestH23_Cancel(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/slow", "in").job.ID
	x.arrives()
	a := x.is("cancel", x.do("DELETE", "/.weir/jobs/"+id, ""), 204)
	x.has("cancel", a, "Cache-Control", "no-store, private")
	x.arrives() // the handler's context was canceled
	if s := x.over(id).job.State; s != "canceled" {
		t.Errorf("state = %s; want canceled", s)
	}
	x.problem("its result", x.do("GET", "/.weir/jobs/"+id+"/result", ""), http.StatusGone)
	x.is("cancel again", x.do("DELETE", "/.weir/jobs/"+id, ""), 204)

	id = x.async("POST", "/quick", "").job.ID
	x.over(id)
	x.problem("cancel a finished job", x.do("DELETE", "/.weir/jobs/"+id, ""), http.StatusConflict)
}

func TestH23_OthersSeeNothing(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{Principal: []string{"Authorization", "Cookie"}}})
	mine := x.async("POST", "/slow", "in", "Authorization: Bearer mine", "Cookie: a=b")
	other, err := jobs.NewQueue[string, string](t.Context(), x.store, "other", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Submit(t.Context(), "in", jobs.SubmitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	none := x.do("GET", "/.weir/jobs/"+strings.Repeat("0", 32), "")
	x.problem("no job", none, http.StatusNotFound)
	for _, path := range []string{mine.job.StatusURL, mine.job.ResultURL, mine.job.EventsURL, "/.weir/jobs/" + foreign.ID()} {
		for _, fields := range [][]string{
			{}, {"Authorization: Bearer mine"}, {"Authorization: Bearer other", "Cookie: a=b"},
			{"Authorization: Bearer mine", "Cookie: a=b, c=d"}, {"Accept: text/event-stream"},
		} {
			a := x.do("GET", path, "", fields...)
			if a.status != 404 || a.body != none.body || a.header.Get("Cache-Control") != "no-store, private" {
				t.Errorf("GET %s with %q = %d %s; want the 404 for a missing job", path, fields, a.status, a.body)
			}
		}
	}
	a := x.do("DELETE", mine.job.StatusURL, "")
	if a.status != 404 || a.body != none.body {
		t.Errorf("DELETE of another's = %d %s; want 404", a.status, a.body)
	}
	x.is("the owner", x.do("GET", mine.job.StatusURL, "", "Authorization: Bearer mine", "Cookie: a=b"), 200)
	list, err := x.store.List(t.Context(), jobs.Filter{Queue: "all-once"})
	if err != nil || len(list) != 1 || list[0].Owner == "" || strings.Contains(list[0].Owner+list[0].Key, "mine") {
		t.Errorf("the job is %+v, %v; want an owner but no credentials", list, err)
	}
	x.may <- struct{}{}
}

func TestH23_PrincipalIsTheRoutes(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{Principal: []string{"x-api-key"}}})
	at := x.async("POST", "/quick", "", "X-Api-Key: k", "Cookie: a=b").job.StatusURL
	x.is("another cookie", x.do("GET", at, "", "X-Api-Key: k", "Cookie: c=d"), 200)
	x.is("no key", x.do("GET", at, "", "Cookie: a=b"), 404)
}

func TestH23_PathsAndMethods(t *testing.T) {
	x := newSite(t, setup{idle: true, options: jobshttp.Options{Path: "/later/"}})
	a := x.async("POST", "/quick", "")
	at := "/later/" + a.job.ID
	x.has("202", a, "Location", at)
	for path, allow := range map[string]string{at: "GET, HEAD, DELETE", at + "/result": "GET, HEAD", at + "/events": "GET, HEAD"} {
		for _, method := range []string{"POST", "PUT", "OPTIONS", "GE"} {
			a := x.do(method, path, "")
			x.problem(method+" "+path, a, http.StatusMethodNotAllowed)
			x.has(method+" "+path, a, "Allow", allow)
		}
	}
	x.problem("DELETE of a result", x.do("DELETE", at+"/result", ""), http.StatusMethodNotAllowed)
	for _, path := range []string{"/later/", at + "/", at + "/other", at + "/result/", "/later/" + strings.ToUpper(a.job.ID) + "0", "/later/../later"} {
		if a := x.do("GET", path, ""); a.status != 404 && a.status != 307 && a.status != 301 {
			t.Errorf("GET %s = %d; want 404", path, a.status)
		}
	}
}

func TestH23_AFailedJobIsABadGateway(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{MaxResult: 100}})
	x.answers(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 101)) })
	a := x.do("POST", "/quick", "", "Prefer: respond-async, wait=10")
	x.problem("too large a response", a, http.StatusBadGateway)
	if !strings.Contains(a.job.Detail, "larger than 100 bytes") || a.header.Get("Location") == "" {
		t.Errorf("the problem is %s, at %q", a.body, a.header.Get("Location"))
	}
	x.problem("its result", x.do("GET", a.header.Get("Location")+"/result", ""), http.StatusBadGateway)
	status := x.do("GET", a.header.Get("Location"), "")
	if status.job.State != "failed" || !strings.Contains(status.job.Error, "larger than 100 bytes") {
		t.Errorf("status = %s; want failed", status.body)
	}
}
