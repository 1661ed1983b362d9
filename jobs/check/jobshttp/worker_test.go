package jobshttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

func TestH23_TheHandlerGetsTheRequest(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/quick/%2f?q=%zz;a", "in", "Authorization: Bearer a", "Cookie: b=c", "X-Own: 1", "X-Own: 2",
		"Range: bytes=0-1", `If-Match: "1"`, "Connection: X-Hop", "X-Hop: 1", "Te: trailers", "Prefer: return=minimal").job.ID
	x.over(id, "Authorization: Bearer a", "Cookie: b=c")
	r, body := x.seen()
	if r.Method != "POST" || r.RequestURI != "/quick/%2f?q=%zz;a" || r.Host == "" || body != "in" || r.ContentLength != 2 || r.RemoteAddr == "" {
		t.Errorf("the request is %s %s %q, of %d bytes from %q", r.Method, r.RequestURI, body, r.ContentLength, r.RemoteAddr)
	}
	for field, want := range map[string]string{
		"Authorization": "Bearer a", "Cookie": "b=c", "X-Own": "1, 2", "If-Match": `"1"`, "Idempotency-Key": `"` + id + `"`, "Weir-Job-Attempt": "1",
		"Prefer": "", "Range": "", "X-Hop": "", "Te": "", "Connection": "",
	} {
		if got := strings.Join(r.Header.Values(field), ", "); got != want {
			t.Errorf("%s = %q; want %q", field, got, want)
		}
	}
	if n, err := strconv.ParseUint(r.Header.Get("Weir-Job-Fence"), 10, 64); n == 0 || err != nil {
		t.Errorf("Weir-Job-Fence = %q; want a number", r.Header.Get("Weir-Job-Fence"))
	}
	x.do("GET", "/quick", "", `If-None-Match: "1"`, "Prefer: respond-async, wait=10", "Idempotency-Key: mine")
	if r, _ := x.seen(); r.Header.Get("If-None-Match") != "" || r.Header.Get("Idempotency-Key") != "mine" {
		t.Errorf("a safe request has %v; want no condition, and the client's key", r.Header)
	}
}

// Header values are octets, and not all of them are UTF-8.
func TestH23_OctetsStayAsTheyAre(t *testing.T) {
	x := newSite(t, setup{})
	x.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Back", r.Header.Get("X-There")+"\xff")
		w.Write([]byte("\xff\n\x00"))
	})
	a := x.is("a job", x.do("GET", "/quick", "", "X-There: \xe4\xc3\xa4<", "Prefer: respond-async, wait=10"), 200)
	x.has("a job", a, "X-Back", "\xe4\xc3\xa4<\xff")
	if a.body != "\xff\n\x00" {
		t.Errorf("body = %q; want the origin's", a.body)
	}
}

// Clients cannot set the fields that describe attempts.
func TestH23_ClientsCannotPretendToBeAttempts(t *testing.T) {
	x := newSite(t, setup{})
	x.is("no job", x.do("GET", "/quick", "", "Weir-Job-Fence: 999999", "Weir-Job-Attempt: 7", "X-Own: 1"), 201)
	if r, _ := x.seen(); r.Header.Get("Weir-Job-Fence")+r.Header.Get("Weir-Job-Attempt") != "" || r.Header.Get("X-Own") != "1" {
		t.Errorf("the handler got %v; want no attempt", r.Header)
	}
	x.is("a job", x.do("GET", "/quick", "", "Weir-Job-Fence: 999999", "Prefer: respond-async, wait=10"), 201)
	if r, _ := x.seen(); r.Header.Get("Weir-Job-Fence") == "999999" {
		t.Error("the handler got the client's fence")
	}
}

func TestH23_CredentialsCanBeDropped(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{DropCredentials: true, Principal: []string{"X-Api-Key", "Authorization"}}})
	x.is("a job", x.do("GET", "/quick", "", "Authorization: a", "X-Api-Key: b", "Cookie: c", "Prefer: respond-async, wait=10"), 201)
	if r, _ := x.seen(); r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+r.Header.Get("Cookie") != "" {
		t.Errorf("the handler got %v; want no credentials", r.Header)
	}
}

// failing responds with a status for the first n requests.
func failing(x *site, status, n int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if x.calls.Load() < int64(n) {
			for _, f := range fields {
				name, value, _ := strings.Cut(f, ": ")
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			return
		}
		io.WriteString(w, "attempt "+r.Header.Get("Weir-Job-Attempt"))
	}
}

func TestH23_FailuresAreTriedAgain(t *testing.T) {
	for _, status := range []int{429, 502, 503, 504} {
		x := newSite(t, setup{})
		x.answers(failing(x, status, 3))
		a := x.is("a safe request", x.do("GET", "/quick", "", "Prefer: respond-async, wait=15"), 200)
		if a.body != "attempt 3" {
			t.Errorf("after two responses with status %d: %q; want attempt 3", status, a.body)
		}
	}
	x := newSite(t, setup{})
	x.answers(failing(x, 503, 2))
	a := x.do("POST", "/quick", "", "Idempotency-Key: k", "Prefer: respond-async, wait=15")
	x.is("a request with a key", a, 200)
	x.calls.Store(0)
	a = x.do("POST", "/quick", "", "Prefer: respond-async, wait=15")
	x.problem("an unsafe request without a key", a, http.StatusBadGateway)
	if n := x.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
	for _, status := range []int{400, 404, 500, 501} {
		x.calls.Store(0)
		x.answers(failing(x, status, 2))
		x.is("a result", x.do("GET", "/quick?"+strconv.Itoa(status), "", "Prefer: respond-async, wait=15"), status)
	}
}

func TestH23_AttemptsEnd(t *testing.T) {
	x := newSite(t, setup{route: jobshttp.RouteOptions{Attempts: 2}})
	x.answers(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	a := x.do("GET", "/quick", "", "Prefer: respond-async, wait=15")
	x.problem("a broken answer", a, http.StatusBadGateway)
	if n := x.calls.Load(); n != 2 {
		t.Errorf("%d calls; want 2", n)
	}
	s := x.do("GET", a.header.Get("Location"), "")
	if s.job.State != "dead" || s.job.Error != "the answer broke off" || s.job.Attempt != 2 {
		t.Errorf("status = %s; want a dead job of 2 attempts", s.body)
	}
}

func TestH23_RetryAfterOfTheAnswerHolds(t *testing.T) {
	x := newSite(t, setup{})
	x.answers(failing(x, 503, 2, "Retry-After: 2"))
	start := time.Now()
	x.is("a job", x.do("GET", "/quick", "", "Prefer: respond-async, wait=15"), 200)
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("retried after %v; want 2 s", took)
	}
}

// A request rejected by weir's limits has not begun, so it is not an attempt.
func TestH23_OwnLimitsCostNoAttempt(t *testing.T) {
	o := newOrigin(t)
	one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := weirhttp.New(o, weirhttp.Options{Limiter: one})
	if err != nil {
		t.Fatal(err)
	}
	x := newSite(t, setup{next: h})
	first := x.async("POST", "/slow", "1")
	select {
	case <-o.came:
	case <-time.After(patience):
		t.Fatal("no request arrived")
	}
	second := x.async("POST", "/slow", "2")
	if a := x.do("GET", second.job.StatusURL, "", "Prefer: wait=2"); a.job.State != "running" && a.job.State != "queued" {
		t.Errorf("while the limit is reached: %s; want the job to wait", a.body)
	}
	o.may <- struct{}{}
	o.may <- struct{}{}
	for _, a := range []reply{first, second} {
		if s := x.over(a.job.ID); s.job.State != "done" || s.job.Attempt != 1 {
			t.Errorf("status = %s; want done in one attempt", s.body)
		}
	}
}

func TestH23_WorkersHandBack(t *testing.T) {
	x := newSite(t, setup{idle: true})
	w, err := x.route.Work(jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	safe, unsafe := x.async("GET", "/slow", ""), x.async("POST", "/slow", "")
	x.arrives()
	x.arrives()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v; want the end of its context", err)
	}
	s := x.over(unsafe.job.ID)
	if s.job.State != "failed" || !strings.Contains(s.job.Error, "not sent twice") {
		t.Errorf("the request that must not run twice: %s; want failed", s.body)
	}
	x.may <- struct{}{}
	x.works()
	if s := x.over(safe.job.ID); s.job.State != "done" {
		t.Errorf("the safe request: %s; want done by the next worker", s.body)
	}
}

// A request rejected by weir's limits has not begun. So a stopping worker does not
// wait for it, and the next worker may run it, even if it must not happen twice.
func TestH23_WorkersHandBackWhatALimitHasRefused(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			var open atomic.Bool
			asked := make(chan struct{}, 100)
			o := newOrigin(t)
			x := newSite(t, setup{idle: true, next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if open.Load() {
					o.ServeHTTP(w, r)
					return
				}
				w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{Outcome: weirhttp.OutcomeRefused})
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusServiceUnavailable)
				asked <- struct{}{}
			})})
			w, err := x.route.Work(jobs.WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			job := x.async(method, "/", "")
			<-asked
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := w.Close(ctx); err != nil {
				t.Errorf("Stop = %v; want nil, because nothing has begun", err)
			}
			open.Store(true)
			x.works()
			if s := x.over(job.job.ID); s.job.State != "done" {
				t.Errorf("status = %s; want done by the next worker", s.body)
			}
		})
	}
}

func TestH23_TheCacheIsAskedFirst(t *testing.T) {
	o := newOrigin(t)
	o.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Etag", `"1"`)
		io.WriteString(w, "from the origin")
	})
	h, err := weirhttp.New(o, weirhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := newSite(t, setup{next: h, route: jobshttp.RouteOptions{AskCache: true}})
	x.is("a miss", x.do("GET", "/a", "", "Prefer: respond-async, wait=15"), 200)
	for range 2 {
		a := x.is("a hit", x.do("GET", "/a", "", "Prefer: respond-async", "X-Else: 1"), 200)
		x.has("a hit", a, "Preference-Applied", "respond-async")
		x.has("a hit", a, "Vary", "Prefer")
		if !strings.Contains(a.header.Get("Cache-Status"), "hit") || a.body != "from the origin" {
			t.Errorf("a hit: %v %q", a.header, a.body)
		}
	}
	x.is("a condition", x.do("GET", "/a", "", "Prefer: respond-async", `If-None-Match: "1"`), 304)
	x.is("HEAD", x.do("HEAD", "/a", "", "Prefer: respond-async"), 200)
	if list, err := x.store.List(t.Context(), jobs.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("%d jobs, %v; want 1", len(list), err)
	}
	x.is("no-cache", x.do("GET", "/a", "", "Prefer: respond-async, wait=15", "Cache-Control: no-cache"), 200)
	if n := o.calls.Load(); n != 2 {
		t.Errorf("%d calls; want 2", n)
	}
}

func TestH23_RoutesAreChecked(t *testing.T) {
	x := newSite(t, setup{idle: true})
	for _, name := range []string{"", "a.b", "a-once", strings.Repeat("a", 60)} {
		if _, err := x.service.Route(t.Context(), name, x.origin, jobshttp.RouteOptions{}); err == nil {
			t.Errorf("Route(%q) = nil; want an error", name)
		}
	}
	_, err := x.service.Route(t.Context(), "a", x.origin, jobshttp.RouteOptions{
		Budget: -1, MaxWait: time.Hour, Attempts: -1, UnsafeAttempts: 1001, MaxBody: 1 << 30, MaxResult: -1, Principal: []string{"a b"},
	})
	for _, field := range []string{"Budget", "MaxWait", "Attempts", "UnsafeAttempts", "MaxBody", "MaxResult", "Principal[0]"} {
		if err == nil || !strings.Contains(err.Error(), "RouteOptions."+field+" is ") {
			t.Errorf("Route = %v; want a fault of %s", err, field)
		}
	}
	for _, o := range []jobshttp.Options{{Path: "a/"}, {Path: "/a"}, {Path: "/a?/"}, {Heartbeat: -1}} {
		if _, err := jobshttp.New(x.store, o); err == nil {
			t.Errorf("New(%+v) = nil; want an error", o)
		}
	}
}
