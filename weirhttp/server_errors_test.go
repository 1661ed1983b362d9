package weirhttp_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// statusOf is an origin that responds with the status in its path.
func statusOf(w http.ResponseWriter, r *http.Request) {
	time.Sleep(slow)
	status, err := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
	if err != nil {
		status = http.StatusTeapot
	}
	w.WriteHeader(status)
}

// A response of the origin with a status of 500 or above is counted once for each
// call, whichever way the call is made. It does not count as a call without a
// response.
func TestH11_ServerErrorsAreCounted(t *testing.T) {
	observe := func(o *weirhttp.Options) { o.Observe = true }
	for _, row := range []struct {
		name   string
		method string
		path   string
		fields []string
		set    func(*weirhttp.Options)
		calls  int64 // for four requests at once
		want   uint64
	}{
		{name: "shared", method: "GET", path: "/500", calls: 1, want: 1},
		{name: "of their own", method: "GET", path: "/502", fields: []string{"Cookie", "a=b"}, calls: 4, want: 4},
		{name: "not to be shared", method: "GET", path: "/503", set: func(o *weirhttp.Options) { o.NoCoalescing = true }, calls: 4, want: 4},
		{name: "HEAD", method: "HEAD", path: "/504", calls: 4, want: 4},
		{name: "passed on", method: "POST", path: "/500", calls: 4, want: 4},
		{name: "asked for a stream", method: "GET", path: "/503", fields: []string{"Accept", "text/event-stream"}, calls: 4, want: 4},
		{name: "observed", method: "GET", path: "/500", set: observe, calls: 4, want: 4},
		{name: "observed, passed on", method: "POST", path: "/500", set: observe, calls: 4, want: 4},
		{name: "the highest", method: "GET", path: "/599", calls: 1, want: 1},
		{name: "a client's error", method: "GET", path: "/499", calls: 1},
		{name: "a client's error, passed on", method: "POST", path: "/404", calls: 4},
		{name: "none", method: "GET", path: "/200", fields: []string{"Cookie", "a=b"}, calls: 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o weirhttp.Options
				if row.set != nil {
					row.set(&o)
				}
				s := open(t, h1, o, statusOf)
				for _, r := range s.together(4, func(int) *http.Request {
					return s.request(t.Context(), row.method, row.path, row.fields...)
				}) {
					r.want(t, statusIn(t, row.path), "")
				}
				synctest.Wait()
				s.wantCalls(row.calls)
				if st := s.handler.Stats(); st.MissedErrors != row.want {
					t.Errorf("MissedErrors = %d; want %d: one for each call that a request waited for", st.MissedErrors, row.want)
				}
				if st := s.handler.Stats(); st.ServerErrors != row.want || st.Failed != 0 || st.Calls != uint64(row.calls) {
					t.Errorf("ServerErrors, Failed, Calls = %d, %d, %d; want %d, 0, %d", st.ServerErrors, st.Failed, st.Calls, row.want, row.calls)
				}
			})
		})
	}
}

func statusIn(t *testing.T, path string) int {
	t.Helper()
	status, err := strconv.Atoi(path[1:])
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// A call that was given up is counted as one without a response. It is not counted
// again when its handler returns 500 in the end.
func TestH11_AServerErrorThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{HeadTimeout: time.Second}, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(3 * time.Second)
			w.WriteHeader(http.StatusInternalServerError)
			w.(http.Flusher).Flush()
		})
		if r := s.get("/a"); r.status != http.StatusGatewayTimeout || r.took != time.Second {
			t.Errorf("status = %d after %v; want 504 after 1s", r.status, r.took)
		}
		time.Sleep(5 * time.Second)
		if st := s.handler.Stats(); st.Failed != 1 || st.ServerErrors != 0 {
			t.Errorf("Failed, ServerErrors = %d, %d; want 1, 0", st.Failed, st.ServerErrors)
		}
	})
}

// Stale responses instead of errors are counted separately from those that are stale
// while they are revalidated, and include those because of an overload.
func TestH11_StaleOnErrorIsCounted(t *testing.T) {
	down := func(status int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	breaks := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	const window = "max-age=10, stale-if-error=60"
	for _, row := range []struct {
		name    string
		control string
		alone   bool
		full    bool // the limit rejects calls
		then    func(http.ResponseWriter, *http.Request)
		want    weirhttp.Stats // the counters that are compared
	}{
		{name: "answered with an error", control: window, then: down(503), want: weirhttp.Stats{Stale: 1, StaleOnError: 1, ServerErrors: 1}},
		{name: "the same, of its own", control: window, alone: true, then: down(500), want: weirhttp.Stats{Stale: 1, StaleOnError: 1, ServerErrors: 1}},
		{name: "no answer", control: window, then: breaks, want: weirhttp.Stats{Stale: 1, StaleOnError: 1, Failed: 1}},
		{name: "no answer, of its own", control: window, alone: true, then: breaks, want: weirhttp.Stats{Stale: 1, StaleOnError: 1, Failed: 1}},
		{name: "refused", control: window, full: true, then: down(200), want: weirhttp.Stats{Stale: 1, StaleOnError: 1, Shed: 1}},
		{name: "a status that is no such error", control: window, then: down(501), want: weirhttp.Stats{ServerErrors: 1}},
		{name: "no window", control: "max-age=10", then: down(503), want: weirhttp.Stats{ServerErrors: 1}},
		{name: "revalidated meanwhile", control: "max-age=10, stale-while-revalidate=60", then: down(503), want: weirhttp.Stats{Stale: 1, ServerErrors: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := &gate{}
				origin := answering(0, "Cache-Control", row.control)
				s := open(t, h1, weirhttp.Options{NoCoalescing: row.alone, Limiter: limiter}, func(w http.ResponseWriter, r *http.Request) { origin(w, r) })
				s.get("/a").want(t, 200, "/a")
				time.Sleep(15 * time.Second)
				origin, limiter.shut = row.then, row.full
				s.get("/a")
				synctest.Wait()
				st := s.handler.Stats()
				got := weirhttp.Stats{Stale: st.Stale, StaleOnError: st.StaleOnError, Shed: st.Shed, Failed: st.Failed, ServerErrors: st.ServerErrors}
				if got != row.want {
					t.Errorf("Stats = %+v; want %+v", got, row.want)
				}
			})
		})
	}
}

// After a failure in another instance, this one makes no call, and its stale response
// replaces that failure as well.
func TestH11_StaleOnErrorOfTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := answering(0, "Cache-Control", "max-age=10, stale-if-error=600")
		e := openEnsemble(t, 2, nil, func(w http.ResponseWriter, r *http.Request) { origin(w, r) })
		e.sites[0].get("/x").want(t, 200, "/x")
		time.Sleep(100 * time.Second)
		origin = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		for k, wantErrors := range []uint64{1, 0} {
			e.sites[k].get("/x").want(t, 200, "/x")
			synctest.Wait()
			if st := e.sites[k].handler.Stats(); st.StaleOnError != 1 || st.Stale != 1 || st.ServerErrors != wantErrors {
				t.Errorf("instance %d: StaleOnError, Stale, ServerErrors = %d, %d, %d; want 1, 1, %d", k, st.StaleOnError, st.Stale, st.ServerErrors, wantErrors)
			}
		}
		e.wantCalls(2)
	})
}

// A gate is a Limiter that admits all calls, or none.
type gate struct{ shut bool }

func (g *gate) Acquire(ctx context.Context) (limit.Permit, error) {
	if g.shut {
		return refusal{}.Acquire(ctx)
	}
	return limit.Permit{}, nil
}
