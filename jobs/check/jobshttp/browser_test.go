package jobshttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs/jobshttp"
)

// H23: a browser receives a page that shows the result when it is there, and other clients
// JSON.
func TestH23_ABrowserReceivesAPage(t *testing.T) {
	const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	x := newSite(t, setup{route: jobshttp.RouteOptions{ShareAnonymous: true}})
	const client = "Authorization: Bearer one"
	id := x.async("POST", "/slow", "in", client).job.ID
	result := "/.weir/jobs/" + id + "/result"
	for _, e := range []struct{ what, method, path, accept string }{
		{"a submission", "POST", "/slow", browser},
		{"the result", "GET", result, browser},
		{"the result, without a body", "HEAD", result, browser},
	} {
		a := x.is(e.what, x.do(e.method, e.path, map[bool]string{true: "in"}[e.method == "POST"], client, e.accept, "Prefer: respond-async"), 202)
		x.has(e.what, a, "Content-Type", "text/html; charset=utf-8")
		x.has(e.what, a, "Cache-Control", "no-store, private")
		x.has(e.what, a, "X-Content-Type-Options", "nosniff")
		location, after := a.header.Get("Location"), a.header.Get("Retry-After")
		if !strings.HasPrefix(location, "/.weir/jobs/") || after == "" || !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Accept") {
			t.Errorf("%s: the fields are %v; want Location, Retry-After and Vary: Accept", e.what, a.header)
		}
		for _, want := range []string{
			`<meta http-equiv="refresh" content="` + after + "; url=" + location + `/result">`, `<a href="` + location + `/result">`, `<a href="` + location + `">`,
		} {
			if e.method != "HEAD" && !strings.Contains(a.body, want) {
				t.Errorf("%s: %s; want %s", e.what, a.body, want)
			}
		}
	}
	for _, accept := range []string{"Accept: */*", "Accept: application/json", "Accept: image/png", "Accept: application/json, text/html;q=0.9"} {
		a := x.is(accept, x.do("GET", result, "", client, accept), 202)
		x.has(accept, a, "Content-Type", "application/json")
	}
	x.may <- struct{}{}
	x.may <- struct{}{}
	x.over(id, client)
	a := x.do("GET", result, "", client, browser)
	if a.status == 202 || strings.Contains(a.body, "In progress") {
		t.Errorf("the result of a job that is done = %d %s; want that of the service", a.status, a.body)
	}
}

// H23: a browser whose job has failed, or is not accepted, receives a page too, and other clients a
// problem document.
func TestH23_ABrowserReceivesAPageOfAFailure(t *testing.T) {
	const browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	x := newSite(t, setup{route: jobshttp.RouteOptions{Attempts: 1}})
	x.origin.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	id := x.async("GET", "/fails", "").job.ID
	x.over(id)
	for _, e := range []struct {
		what, path string
		status     int
		words      string
	}{
		{"the result", "/.weir/jobs/" + id + "/result", 502, "The job is dead after 1 attempts"},
		{"no job", "/.weir/jobs/0123456789abcdef0123456789abcdef/result", 404, "There is no such job."},
	} {
		a := x.is(e.what, x.do("GET", e.path, "", browser), e.status)
		x.has(e.what, a, "Content-Type", "text/html; charset=utf-8")
		x.has(e.what, a, "Content-Security-Policy", "default-src 'none'")
		x.has(e.what, a, "Cache-Control", "no-store, private")
		if !strings.Contains(a.body, "<h1>"+http.StatusText(e.status)+"</h1>") || !strings.Contains(a.body, e.words) || strings.Contains(strings.ToLower(a.body), "<script") {
			t.Errorf("%s: %s; want a page that says %q", e.what, a.body, e.words)
		}
		if got := strings.Join(a.header.Values("Vary"), ", "); !strings.Contains(got, "Accept") {
			t.Errorf("%s: Vary is %q; want Accept in it", e.what, got)
		}
		for _, accept := range []string{"Accept: */*", "Accept: application/json", "Accept: application/problem+json, text/html;q=0.5"} {
			x.has(e.what+", "+accept, x.is(e.what, x.do("GET", e.path, "", accept), e.status), "Content-Type", "application/problem+json")
		}
	}
}
