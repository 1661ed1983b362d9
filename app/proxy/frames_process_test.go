package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// Between the listener and the start of a flight there are at most ten stack frames of
// weir. The test looks at a request that waits for its flight. Its stack has the same
// depth, because follow has taken the place of start.
func TestARequestReachesItsFlightInTenFrames(t *testing.T) {
	const most = 10
	called, done := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(called)
		<-done
	}))
	defer origin.Close()
	defer close(done)
	p := start(t, "--upstream", origin.URL, "--listen", "127.0.0.1:0")
	go func() {
		if resp, err := http.Get(p.listen[0] + "/"); err == nil { // weir is killed
			_ = resp.Body.Close()
		}
	}()
	<-called
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil { // prints all stacks
		t.Fatal(err)
	}
	<-p.exited

	var frames []string
	inFlight := false
	for _, line := range strings.Split(p.stderr(), "\n") {
		switch {
		case strings.HasPrefix(line, "goroutine "):
			frames, inFlight = nil, false
		case strings.HasPrefix(line, "net/http.(*conn).serve(") && inFlight:
			if len(frames) > most {
				t.Errorf("a request has %d stack frames; want at most %d:\n%s", len(frames), most, strings.Join(frames, "\n"))
			}
			return
		case strings.HasPrefix(line, "github.com/weir-go/weir/weirhttp.(*call).follow("):
			frames, inFlight = []string{line}, true
		case strings.HasPrefix(line, "github.com/weir-go/weir/"):
			frames = append(frames, line)
		}
	}
	t.Errorf("no request waits for a flight:\n%s", p.stderr())
}
