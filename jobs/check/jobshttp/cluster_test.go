package jobshttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
	"github.com/weir-go/weir/jobs/jobshttp"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// In a cluster, each of the routes' queues is queried for a job once; a query is not
// repeated after a pause before the next queue is queried.
func TestH23_AJobIsAskedForOnceInEachQueue(t *testing.T) {
	const routes = 4
	cluster := natstest.StartCluster(t, 3)
	nc := cluster.Connect()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Replicas: 3, MaxBytes: 64 << 20, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(context.Background()) })
	service, err := jobshttp.New(store, jobshttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	origin := newOrigin(t)
	var all []*jobshttp.Route
	for i := range routes {
		rt, err := service.Route(t.Context(), fmt.Sprint("r", i), origin, jobshttp.RouteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rt)
	}
	// The server that is queried receives its requests here as well.
	sub, err := nc.SubscribeSync("$JS.API.STREAM.MSG.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	asked := func() int {
		t.Helper()
		if err := nc.Flush(); err != nil { // all requests have now arrived
			t.Fatal(err)
		}
		n, _, err := sub.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, rt := range all {
		r := httptest.NewRequest("GET", fmt.Sprint("/", i), nil)
		r.Header.Set("Prefer", "respond-async")
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		if w.Code != http.StatusAccepted {
			t.Fatalf("GET %s = %d %s; want 202", r.URL, w.Code, w.Body)
		}
		before := asked()
		location := w.Header().Get("Location")
		w = httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest("GET", location, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"queued"`) {
			t.Errorf("GET %s = %d %s; want the job", location, w.Code, w.Body)
		}
		// Two queues per route, two messages per job.
		if n := asked() - before; n < 2 || n > 4*routes {
			t.Errorf("the servers got requests for %d messages; want 2 to %d", n, 4*routes)
		}
	}
}
