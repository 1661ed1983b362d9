package proxy_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// H25: a proxy that is its own upstream answers 508, also for requests that have become
// jobs.
func TestH25_AProxyThatIsItsOwnUpstream(t *testing.T) {
	dir := t.TempDir()
	address := free(t)
	file := filepath.Join(dir, "weir.yaml")
	text := `
listen: [{address: "` + address + `"}]
upstreams: [{name: a, servers: ["http://` + address + `"]}]
routes: [{name: now, path: /now}, {name: later, path: /later, async: {lease: 1s, backoff: 100ms}}]
jobs: {dir: jobs}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--config", file)
	url := "http://" + address
	for _, method := range []string{"GET", "POST"} {
		if got := jobCall(t, method, url+"/now", ""); got.status != http.StatusLoopDetected {
			t.Errorf("%s = %d %q; want 508", method, got.status, got.body)
		}
		got := jobCall(t, method, url+"/later", "", "Prefer: respond-async")
		if got.status != http.StatusAccepted {
			t.Fatalf("%s = %d %q; want 202", method, got.status, got.body)
		}
		result := url + got.header.Get("Location") + "/result"
		for end := time.Now().Add(patience); ; {
			if got = jobCall(t, "GET", result, "", "Prefer: wait=5"); got.status != http.StatusAccepted || time.Now().After(end) {
				break
			}
		}
		if got.status != http.StatusLoopDetected {
			t.Errorf("the result of the job of %s = %d %q; want 508", method, got.status, got.body)
		}
	}
	p.signal(os.Interrupt)
	p.ends(0)
}
