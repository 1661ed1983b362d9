package jobshttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/judge"
	"github.com/weir-go/weir/jobs/jobshttp"
	"github.com/weir-go/weir/weirhttp"
)

// Requests become one job only if they are the same by decision 0090, and then they do: the
// judge knows the rule, and nothing of the code.
func TestH32J4J6_TheJudgeFindsNoFaultInJobs(t *testing.T) {
	reads := []weirhttp.ReadRule{{Methods: []string{"POST", "QUERY"}, Types: []string{"application/json"}}}
	sites := map[judge.JobRoute]*site{}
	for _, principal := range judge.JobPrincipals {
		for _, share := range []bool{false, true} {
			sites[judge.JobRoute{Principal: principal, ShareAnonymous: share}] = newSite(t, setup{idle: true, route: jobshttp.RouteOptions{
				Reads: reads, Principal: []string{principal}, ShareAnonymous: share,
			}})
		}
	}
	pairs := map[judge.Verdict]int{}
	for seed := range histories.Seeds(t, 1000, 20_000) {
		route, clients, requests := judge.DrawJobs(seed)
		ids := make([]string, len(requests))
		for i, r := range requests {
			r.Target = fmt.Sprintf("/judged/%d", seed) // each history has separate jobs
			ids[i] = jobOf(t, sites[route].route, r.HTTP(t.Context(), clients[r.Client], false))
		}
		for i := range requests {
			for k := range i {
				a, b := requests[k], requests[i]
				declared := a.Method == http.MethodPost && slices.Equal(a.Header()["Content-Type"], []string{"application/json"})
				verdict, why := judge.SameJob(route, declared, a, b)
				pairs[verdict]++
				same := ids[k] == ids[i] && ids[i] != ""
				switch {
				case verdict == judge.MustNot && same:
					t.Errorf("seed %d: the judge says two jobs, not one: %s:\n%+v\n%+v", seed, why, a, b)
				case verdict == judge.Must && !same && ids[k] != "":
					t.Errorf("seed %d: the judge says one job, not %q and %q, with %+v:\n%+v\n%+v", seed, ids[k], ids[i], route, a, b)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("must %d, must not %d, may %d", pairs[judge.Must], pairs[judge.MustNot], pairs[judge.May])
	if all := pairs[judge.Must] + pairs[judge.MustNot] + pairs[judge.May]; !histories.Alone() && pairs[judge.Must]*5 < all {
		t.Errorf("%d of %d pairs must share; want a fifth", pairs[judge.Must], all)
	}
}

// jobOf submits r, and returns the address of its job, or "" if it has none: it is
// forwarded, or refused because its Idempotency-Key is that of another request.
func jobOf(t *testing.T, h http.Handler, r *http.Request) string {
	t.Helper()
	if r.Header.Add("Prefer", "respond-async"); r.Body == nil {
		r.Body = http.NoBody // as a server has it
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	location := w.Header().Get("Location")
	switch {
	case w.Code == http.StatusAccepted && location != "":
		return location
	case w.Code == http.StatusUnprocessableEntity || w.Header().Get("X-Origin") != "":
		return ""
	}
	t.Fatalf("%s %v = %d %s; want 202", r.Method, r.Header, w.Code, w.Body)
	return ""
}
