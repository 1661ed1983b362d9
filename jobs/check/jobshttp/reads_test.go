package jobshttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/weir-go/weir/jobs/jobshttp"
	"github.com/weir-go/weir/weirhttp"
)

// searches declares POST with JSON as a read.
var searches = []weirhttp.ReadRule{{
	Methods: []string{"POST"}, Types: []string{"application/json"}, Compare: weirhttp.CompareJSON, Ignore: []string{"/trace"},
	Only: []weirhttp.ReadCondition{{Field: "/t", Values: []string{"0"}, Absent: true}}, MaxBody: 100,
}}

// H32: requests of one client with bodies of one meaning are one job.
func TestH32_EqualReadsAreOneJob(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{Reads: searches}, idle: true})
	submit := func(body string, fields ...string) string {
		t.Helper()
		r := x.do("POST", "/slow/search", body, append(fields, "Prefer: respond-async", "Content-Type: application/json")...)
		if r.status != http.StatusAccepted {
			t.Fatalf("POST %s = %d %s; want 202", body, r.status, r.body)
		}
		return r.job.ID
	}
	first := submit(`{"q":1,"s":"é"}`, "Authorization: ada")
	for body, want := range map[string]bool{
		`{"q":1,"s":"é"}`: true, `{"s":"\u00e9", "q":1.0}`: true, `{"q":1,"s":"é","trace":7}`: true,
		`{"q":2,"s":"é"}`: false, `{"q":1,"s":"é","q":1}`: false,
	} {
		if got := submit(body, "Authorization: ada"); (got == first) != want {
			t.Errorf("%s has the job %s, the first is %s; want the same: %v", body, got, first, want)
		}
	}
	if other := submit(`{"q":1,"s":"é"}`, "Authorization: bob"); other == first {
		t.Error("another client has the same job")
	}
	if other := submit(`{"q":1,"s":"é"}`, "Authorization: ada", "X-Api-Key: a"); other == first {
		t.Error("a client with another API key has the same job")
	}
	for _, body := range []string{`{"t":1}`, `not JSON`, string(make([]byte, 200))} {
		first := submit(body, "Authorization: ada")
		if again := submit(body, "Authorization: ada"); again == first {
			t.Errorf("two requests that are not shared, %.20q, are one job", body)
		}
	}
	x.works()
	x.may <- struct{}{}
	x.arrives()
}

// H32: the job's call has the bytes of the request that submitted it.
func TestH32_AJobHasTheBytes(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{Reads: searches, Budget: patience}})
	const body = ` {"q":1.0, "trace":1}`
	for range 2 {
		r := x.do("POST", "/search", body, "Content-Type: application/json", "Authorization: ada")
		if r.status != http.StatusCreated || r.body != "POST /search "+body {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
	if n := x.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}

// H32: a fresh response to a read is served without a job.
func TestH32_TheCacheIsAskedFirst(t *testing.T) {
	o := newOrigin(t)
	o.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "results")
	})
	cache, err := weirhttp.New(o, weirhttp.Options{Reads: searches})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close(context.Background()) })
	x := newSite(t, setup{next: cache, route: jobshttp.RouteOptions{AskCache: true, Reads: searches, Budget: patience}})
	for _, body := range []string{`{"q":1}`, `{"q":1.0}`, `{"q":1,"trace":2}`} {
		r := x.do("POST", "/search", body, "Content-Type: application/json", "Prefer: wait=20")
		if r.status != 200 || r.body != "results" {
			t.Errorf("POST %s = %d %s; want the results", body, r.status, r.body)
		}
	}
	if n, jobs := o.calls.Load(), x.route.Stats().Submitted; n != 1 || jobs != 1 {
		t.Errorf("%d calls, %d jobs; want 1 and 1", n, jobs)
	}
}
