package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/lab/scenario"
)

// originOf returns the origin's handler.
func originOf(t *testing.T, set originSetup) http.Handler {
	t.Helper()
	params, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	s, err := originService(scenario.Options{Variant: theOrigin, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return s.Handler
}

func askOrigin(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return w
}

func TestOriginAnswers(t *testing.T) {
	if len(originJSON) != 146 || !json.Valid([]byte(originJSON)) {
		t.Errorf("the origin's response has %d bytes, valid: %t; want 146 of JSON", len(originJSON), json.Valid([]byte(originJSON)))
	}
	const wait = 200 * time.Millisecond
	tests := []struct {
		path  string
		bytes int
		keep  string
		took  time.Duration
	}{
		{"/kept/1", 146, "max-age=3600", 0},
		{"/slow/1", 146, "max-age=3600", wait},
		{"/slower/1", 146, "max-age=3600", 2 * wait},
		{"/trickle/1", 11 * 146, "max-age=3600", wait + time.Second},
		{"/private/1", 146, "no-store", 2 * wait},
		{"/brief/1", 146, "max-age=1, stale-if-error=3600", 0},
		{"/busy/1", 146, "no-store", 20 * time.Millisecond},
		{"/aged/1", 146, "max-age=1, stale-if-error=3600", 20 * time.Millisecond},
		{"/object/4", 2048, "max-age=3600", 0},
		{"/object/hot-1", 146, "max-age=3600", 0},
		{"/upload/1", 146, "no-store", 0},
		{"/big/1", bigBytes, "no-store", 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			h := originOf(t, originSetup{Wait: wait, Permits: 1, Work: 20 * time.Millisecond})
			start := time.Now()
			w := askOrigin(t.Context(), h, tt.path)
			took := time.Since(start)
			if w.Code != http.StatusOK || w.Body.Len() != tt.bytes || took != tt.took ||
				w.Header().Get("Cache-Control") != tt.keep || w.Header().Get("Content-Length") != fmt.Sprint(tt.bytes) {
				t.Errorf("%s: status %d, %d bytes in %v, %v; want 200, %d in %v, %q", tt.path, w.Code, w.Body.Len(), took, w.Header(), tt.bytes, tt.took, tt.keep)
			}
		})
	}
	if w := askOrigin(t.Context(), originOf(t, originSetup{}), "/nothing/1"); w.Code != http.StatusNotFound {
		t.Errorf("/nothing/1: status %d; want 404", w.Code)
	}
}

// TestOriginHasPermits checks that one call runs while the others wait, and that a
// canceled one takes no permit.
func TestOriginHasPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := originOf(t, originSetup{Permits: 1, Work: 20 * time.Millisecond})
		gone, leave := context.WithCancel(t.Context())
		took := make(chan time.Duration, 2)
		start := time.Now()
		for range 2 {
			go func() {
				askOrigin(t.Context(), h, "/busy/1")
				took <- time.Since(start)
			}()
		}
		synctest.Wait() // one runs, one waits
		leave()
		if w := askOrigin(gone, h, "/busy/2"); w.Body.Len() != 0 {
			t.Errorf("canceled while it waited: %d bytes; want none", w.Body.Len())
		}
		if a, b := <-took, <-took; a != 20*time.Millisecond || b != 40*time.Millisecond {
			t.Errorf("two calls ended after %v and %v; want 20ms and 40ms, one after the other", a, b)
		}
	})
}

func TestResidentOf(t *testing.T) {
	if got := residentOf(os.Getpid()); got < 1<<20 || got > 8<<30 {
		t.Errorf("residentOf(this process) = %.0f; want megabytes", got)
	}
	if got := residentOf(1 << 30); got != 0 {
		t.Errorf("residentOf(no process) = %.0f; want 0", got)
	}
}

// TestMemoryOfCountsChildren adds up a field that is known exactly: the process's id.
func TestMemoryOfCountsChildren(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait() //nolint:errcheck // it is killed
	defer child.Process.Kill()
	want := 1024 * float64(os.Getpid()+child.Process.Pid)
	if got := memoryOf(os.Getpid(), "Pid:"); got != want {
		t.Errorf("memoryOf = %.0f; want %.0f, the sum of both", got, want)
	}
}

func TestCrawlComesBackToWhatIsWanted(t *testing.T) {
	seen := make(map[string]int)
	for _, p := range (crawl{cold: 100, hot: 2}).paths() {
		seen[p]++
	}
	if len(seen) != 102 || seen["/object/hot-0"] != 5 || seen["/object/hot-1"] != 5 || seen["/object/99"] != 1 {
		t.Errorf("%d URLs, the popular ones %d and %d times; want 102, 5 and 5", len(seen), seen["/object/hot-0"], seen["/object/hot-1"])
	}
}
