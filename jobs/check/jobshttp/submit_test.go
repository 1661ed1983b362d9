package jobshttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

func TestH23_WhatDoesNotAskIsNoJob(t *testing.T) {
	x := newSite(t, setup{idle: true})
	for _, fields := range [][]string{
		nil, {"Prefer: wait=5"}, {"Prefer: return=minimal"}, {"Prefer: respond-async=yes"},
		{"Prefer: respond-async", "Accept: text/event-stream"}, {"Prefer: respond-async", "Cache-Control: only-if-cached"},
	} {
		a := x.is("a request", x.do("GET", "/plain", "", fields...), 201)
		x.has("a request", a, "Vary", "Prefer")
		x.has("a request", a, "Preference-Applied", "")
		x.has("a request", a, "X-Origin", "yes")
	}
	if q, err := x.store.List(t.Context(), jobs.Filter{}); err != nil || len(q) != 0 {
		t.Errorf("jobs = %v, %v; want none", q, err)
	}
}

func TestH23_DoneInTimeIsTheAnswerItself(t *testing.T) {
	x := newSite(t, setup{})
	a := x.is("a job in time", x.do("POST", "/quick?a=1;b=%20", "in", "Prefer: respond-async, wait=10"), 201)
	if a.body != "POST /quick?a=1;b=%20 in" {
		t.Errorf("body = %q; want the origin's", a.body)
	}
	x.has("a job in time", a, "X-Origin", "yes")
	x.has("a job in time", a, "Preference-Applied", "respond-async, wait=10")
	x.has("a job in time", a, "Vary", "Prefer")
	a = x.is("HEAD", x.do("HEAD", "/quick", "", "Prefer: respond-async, wait=10"), 201)
	x.has("HEAD", a, "X-Origin", "yes")
	if q, err := x.store.List(t.Context(), jobs.Filter{}); err != nil || len(q) != 2 {
		t.Errorf("jobs = %v, %v; want both requests", q, err)
	}
}

func TestH23_LaterIsAccepted(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{MaxWait: time.Second}})
	const key = "Idempotency-Key: k"
	x.async("POST", "/slow", "in", key)
	x.arrives() // so that it is running
	a := x.is("a slow call", x.do("POST", "/slow", "in", key, "Prefer: respond-async; x=y,wait=100"), 202)
	x.has("a slow call", a, "Preference-Applied", "respond-async, wait=1")
	x.has("a slow call", a, "Vary", "Prefer, Accept")
	x.has("a slow call", a, "Cache-Control", "no-store, private")
	x.has("a slow call", a, "Content-Type", "application/json")
	x.has("a slow call", a, "Location", "/.weir/jobs/"+a.job.ID)
	if a.header.Get("Retry-After") == "" {
		t.Error("202 has no Retry-After")
	}
	j := a.job
	if len(j.ID) != 32 || j.State != "running" || j.Durability != "process" || j.StatusURL != "/.weir/jobs/"+j.ID ||
		j.ResultURL != j.StatusURL+"/result" || j.EventsURL != j.StatusURL+"/events" {
		t.Errorf("the document is %s", a.body)
	}
	b := x.async("POST", "/slow", "in")
	x.has("at once", b, "Preference-Applied", "respond-async")
	if b.job.State != "queued" || b.job.ID == j.ID {
		t.Errorf("the document for another client is %s", b.body)
	}
	x.may <- struct{}{}
	x.may <- struct{}{}
	x.over(j.ID)
	x.over(b.job.ID)
}

func TestH23_ABudgetMakesJobsOfAll(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{Budget: patience}})
	a := x.is("within the budget", x.do("GET", "/quick", ""), 201)
	x.has("within the budget", a, "Preference-Applied", "")
	x.has("within the budget", a, "Vary", "Prefer")
	x = newSite(t, setup{route: jobshttp.RouteOptions{Budget: 100 * time.Millisecond, ShareAnonymous: true}})
	a = x.is("beyond the budget", x.do("GET", "/slow", ""), 202)
	x.has("beyond the budget", a, "Preference-Applied", "")
	a = x.is("with a wait", x.do("GET", "/slow", "", "Prefer: wait=0"), 202)
	x.has("with a wait", a, "Preference-Applied", "wait=0")
	x.may <- struct{}{}
	x.over(a.job.ID)
	x.is("done before", x.do("GET", "/slow", "", "Prefer: wait=0"), 201)
}

func TestH23_IdenticalSafeRequestsAreOneJob(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{ShareAnonymous: true}})
	first := x.async("GET", "/slow?a", "", "User-Agent: one", "Traceparent: 1")
	same := x.async("GET", "/slow?a", "", "User-Agent: two", "Traceparent: 2")
	if same.job.ID != first.job.ID {
		t.Errorf("an identical request is job %s; want %s", same.job.ID, first.job.ID)
	}
	for what, fields := range map[string][]string{
		"another language": {"Accept-Language: de"}, "another principal": {"Authorization: Basic YTpi"}, "another cookie": {"Cookie: a=b"},
	} {
		if a := x.async("GET", "/slow?a", "", fields...); a.job.ID == first.job.ID {
			t.Errorf("%s joined", what)
		}
	}
	if a := x.async("GET", "/slow?b", ""); a.job.ID == first.job.ID {
		t.Error("another URL joined")
	}
	head := x.is("HEAD", x.do("HEAD", "/slow?a", "", "Prefer: respond-async"), 202)
	if at := head.header.Get("Location"); head.body != "" || at == "" || at == first.header.Get("Location") {
		t.Errorf("HEAD is at %q; want another job than %s", at, first.job.ID)
	}
	r := x.request("GET", "/slow?a", "", "Prefer: respond-async")
	r.Host = "other.example"
	if a := x.send(r); a.job.ID == first.job.ID || a.status != 202 {
		t.Errorf("another host joined: %s", a.body)
	}
	for range 7 {
		x.may <- struct{}{}
	}
	x.over(first.job.ID)
	x.is("kept", x.do("GET", "/slow?a", "", "Prefer: respond-async", "User-Agent: three"), 201)
}

func TestH23_NoCacheBeginsAnew(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{ShareAnonymous: true}})
	ask := func(fields ...string) string {
		return x.is("a job", x.do("GET", "/quick", "", append(fields, "Prefer: respond-async, wait=10")...), 201).header.Get("X-Call")
	}
	first := ask()
	if again := ask(); again != first {
		t.Errorf("kept result: call %s; want %s", again, first)
	}
	if again := ask("Cache-Control: no-cache"); again == first {
		t.Error("no-cache got the kept result")
	}
	if r, _ := x.seen(); r.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("Cache-Control = %q; want no-cache, for caches upstream", r.Header.Get("Cache-Control"))
	}
}

func TestH23_UnsafeRequestsAreTheirOwn(t *testing.T) {
	x := newSite(t, setup{})
	a, b := x.async("POST", "/quick", "same"), x.async("POST", "/quick", "same")
	if a.job.ID == b.job.ID {
		t.Error("two POSTs are one job")
	}
	x.over(a.job.ID)
	x.over(b.job.ID)
	if n := x.calls.Load(); n != 2 {
		t.Errorf("%d calls; want 2", n)
	}
}

func TestH23_IdempotencyKey(t *testing.T) {
	x := newSite(t, setup{})
	const key = `Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"`
	a := x.async("POST", "/quick", "in", key)
	b := x.do("POST", "/quick", "in", key, "Prefer: respond-async, wait=10", "User-Agent: another")
	x.is("the same key", b, 201)
	c := x.async("POST", "/slow", "in", `Idempotency-Key: "slow"`)
	d := x.async("POST", "/slow", "in", `Idempotency-Key: slow`)
	if c.job.ID != d.job.ID || c.header.Get("Location") != d.header.Get("Location") {
		t.Errorf("the same key without quotes: %s; want %s", d.body, c.body)
	}
	x.may <- struct{}{}
	x.over(a.job.ID)
	x.over(c.job.ID)
	if n := x.calls.Load(); n != 2 {
		t.Errorf("%d calls; want 2", n)
	}

	for what, r := range map[string]*http.Request{
		"another body":   x.request("POST", "/quick", "another", key, "Prefer: respond-async"),
		"another URL":    x.request("POST", "/other", "in", key, "Prefer: respond-async"),
		"another method": x.request("PUT", "/quick", "in", key, "Prefer: respond-async"),
		"another field":  x.request("POST", "/quick", "in", key, "Prefer: respond-async", "Content-Type: text/x"),
		"a condition":    x.request("POST", "/quick", "in", key, "Prefer: respond-async", `If-Match: "1"`),
	} {
		x.problem(what, x.send(r), http.StatusUnprocessableEntity)
	}
	if a := x.do("POST", "/quick", "another", key, "Prefer: respond-async", "Authorization: Bearer x"); a.status != 202 {
		t.Errorf("another principal's key = %d %s; want 202", a.status, a.body)
	}
	for _, bad := range [][]string{
		{`Idempotency-Key: `}, {`Idempotency-Key: ""`}, {`Idempotency-Key: "a`}, {`Idempotency-Key: a b`}, {`Idempotency-Key: "a"; B`},
		{"Idempotency-Key: a", "Idempotency-Key: b"}, {"Idempotency-Key: " + strings.Repeat("x", 256)}, {`Idempotency-Key: "a", "b"`},
	} {
		x.problem(strings.Join(bad, ", "), x.do("POST", "/quick", "in", append(bad, "Prefer: respond-async")...), http.StatusBadRequest)
	}
	x.is("malformed key without a job", x.do("POST", "/quick", "in", "Idempotency-Key: a b"), 201)
}

// The client asked for one run and its outcome. A dead job is that outcome.
func TestH23_DeadJobAnswersItsIdempotencyKey(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{Attempts: 3}})
	x.answers(failing(x, 503, 1000))
	const key = "Idempotency-Key: k"
	first := x.do("POST", "/quick", "", key, "Prefer: respond-async, wait=15")
	x.problem("a job that dies", first, http.StatusBadGateway)
	for _, more := range []string{"User-Agent: another", "Cache-Control: no-cache"} {
		again := x.do("POST", "/quick", "", key, "Prefer: respond-async, wait=15", more)
		x.problem("the repeated request", again, http.StatusBadGateway)
		if a, b := again.header.Get("Location"), first.header.Get("Location"); a != b {
			t.Errorf("Location of the repeated request = %q; want %q", a, b)
		}
	}
	if n := x.calls.Load(); n != 3 {
		t.Errorf("%d calls; want 3", n)
	}
}

func TestH23_NoCacheDoesNotRepeatAnIdempotentRequest(t *testing.T) {
	x := newSite(t, setup{})
	for range 3 {
		x.is("a job", x.do("POST", "/quick", "in", "Idempotency-Key: k", "Cache-Control: no-cache", "Prefer: respond-async, wait=10"), 201)
	}
	if n := x.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}

func TestH23_BodiesAreBounded(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{MaxBody: 1000}})
	x.is("a body of the maximum size", x.do("POST", "/quick", strings.Repeat("x", 1000), "Prefer: respond-async, wait=10"), 201)
	x.problem("declared", x.do("POST", "/quick", strings.Repeat("x", 1001), "Prefer: respond-async"), http.StatusRequestEntityTooLarge)
	r := x.request("POST", "/quick", "", "Prefer: respond-async")
	endless := &counting{}
	r.Body, r.ContentLength = endless, -1
	x.problem("endless", x.send(r), http.StatusRequestEntityTooLarge)
	if n := x.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}

// counting is an endless body.
type counting struct{ closed bool }

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func (c *counting) Close() error { c.closed = true; return nil }

func TestH23_AFullQueueRefuses(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{Queue: jobs.QueueOptions{MaxQueued: 2}}})
	x.async("POST", "/quick", "")
	x.async("POST", "/quick", "")
	a := x.do("POST", "/quick", "", "Prefer: respond-async")
	x.problem("a full queue", a, http.StatusServiceUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
