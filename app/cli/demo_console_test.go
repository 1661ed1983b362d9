package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/app/command"
)

var consoleLine = regexp.MustCompile(`^web console: (http://127\.0\.0\.1:[1-9]\d*/)$`)

// address is that of s's web console.
func address(t *testing.T, s *session) string {
	t.Helper()
	for line := range strings.Lines(s.stderr.String()) {
		if found := consoleLine.FindStringSubmatch(strings.TrimSuffix(line, "\n")); found != nil {
			return found[1]
		}
	}
	t.Fatalf("stderr has no address of a web console:\n%s", s.stderr.String())
	return ""
}

// unreachable fails the test if something listens where s's web console was.
func unreachable(t *testing.T, s *session) {
	t.Helper()
	at := strings.Trim(strings.TrimPrefix(address(t, s), "http://"), "/")
	if conn, err := net.Dial("tcp", at); err == nil {
		conn.Close()
		t.Errorf("%s is still listened at", at)
	}
}

// shown is what the tests read of a Snapshot.
type shown struct {
	Units []struct {
		Name     string
		Requests uint64
		Calls    uint64
	}
}

func (s shown) names() (all []string) {
	for _, u := range s.Units {
		all = append(all, u.Name)
	}
	return all
}

// snapshot asks a web console how everything stands.
func snapshot(t *testing.T, base string) (s shown) {
	t.Helper()
	if err := json.Unmarshal(fetch(t, base+"api/snapshot"), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %s, %v; want 200: %s", url, resp.Status, err, body)
	}
	return body
}

// With --keep the demo shows its levels, the last of which goes on, until a
// signal ends it in order.
func TestDemoKeepGoesOnUntilASignal(t *testing.T) {
	for _, tt := range []struct {
		signal os.Signal
		args   []string
		levels []string
	}{
		{os.Interrupt, nil, []string{"1 unprotected", "2 coalescing", "3 + cache", "4 + refresh-ahead", "5 + admission"}},
		{syscall.SIGTERM, []string{"--gateway"}, []string{"1 unprotected", "2 one address", "3 coalescing", "4 + cache", "5 + refresh-ahead", "6 + admission"}},
	} {
		t.Run(fmt.Sprint(tt.signal, tt.args), func(t *testing.T) {
			before := runtime.NumGoroutine()
			s := newSession()
			kept := make(chan struct{})
			s.stderr.on("continues under a light load", func() { close(kept) })
			code := make(chan int, 1)
			go func() { code <- s.run(append(append(small, "--json", "--keep"), tt.args...)...) }()
			select {
			case <-kept:
			case got := <-code:
				t.Fatalf("ended with exit code %d before the signal; stderr: %s", got, s.stderr.String())
			}
			watch(t, s, tt.levels)
			s.signals <- tt.signal
			if got := <-code; got != command.ExitOK {
				t.Errorf("exit code %d; want %d; stderr: %s", got, command.ExitOK, s.stderr.String())
			}
			if strings.Contains(s.stderr.String(), "interrupted") {
				t.Errorf("stderr speaks of an interrupt, which is how it is to end:\n%s", s.stderr.String())
			}
			unreachable(t, s)
			noneLeft(t, before)
		})
	}
}

// watch looks at the web console of a demo whose levels are done.
func watch(t *testing.T, s *session, want []string) {
	t.Helper()
	base := address(t, s)
	if page := string(fetch(t, base)); !strings.Contains(page, "<html") {
		t.Errorf("the page is %q; want one of HTML", page)
	}
	first := snapshot(t, base)
	if got := first.names(); !slices.Equal(got, want) {
		t.Fatalf("units = %q; want %q", got, want)
	}
	var report struct {
		Levels []struct {
			Calls uint64 `json:"upstream_calls"`
		}
	}
	if err := json.Unmarshal([]byte(s.stdout.String()), &report); err != nil {
		t.Fatalf("stdout is no report while the demo goes on: %v:\n%s", err, s.stdout.String())
	}
	last := len(want) - 1
	for i, u := range first.Units[:last] {
		if u.Calls != report.Levels[i].Calls || u.Requests < u.Calls {
			t.Errorf("%s: %d calls of %d requests; want those of the report, %d", u.Name, u.Calls, u.Requests, report.Levels[i].Calls)
		}
	}
	if u := first.Units[0]; u.Requests != u.Calls {
		t.Errorf("%s: %d requests, %d calls; want one for each", u.Name, u.Requests, u.Calls)
	}
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		now := snapshot(t, base)
		if now.Units[last].Requests > first.Units[last].Requests+10 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the last level has %d requests, and had %d before; want it to go on", now.Units[last].Requests, first.Units[last].Requests)
		}
	}
}

func TestDemoKeepInterruptedBeforeItsReportHasFailed(t *testing.T) {
	s := newSession()
	s.stderr.on("level 1 of 5", func() { s.signals <- os.Interrupt })
	if code := s.run(append(small, "--keep")...); code != command.ExitFailed {
		t.Errorf("exit code %d; want %d", code, command.ExitFailed)
	}
	if s.stdout.String() != "" || !strings.HasSuffix(s.stderr.String(), "\nweir: interrupted\n") {
		t.Errorf("stdout = %q, stderr = %q; want nothing, and a last line that says so", s.stdout.String(), s.stderr.String())
	}
	unreachable(t, s)
}

func TestDemoWithoutAConsole(t *testing.T) {
	s := newSession()
	if code := s.run(append(small, "--admin", "off")...); code != command.ExitOK {
		t.Fatalf("exit code %d; want %d; stderr: %s", code, command.ExitOK, s.stderr.String())
	}
	if strings.Contains(s.stderr.String(), "console") {
		t.Errorf("stderr speaks of a console:\n%s", s.stderr.String())
	}
}

func TestDemoConsoleWhereSomebodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newSession()
	if code := s.run(append(small, "--admin", l.Addr().String())...); code != command.ExitFailed {
		t.Errorf("exit code %d; want %d", code, command.ExitFailed)
	}
	if want := "weir: open the web console: listen tcp " + l.Addr().String(); !strings.HasPrefix(s.stderr.String(), want) || s.stdout.String() != "" {
		t.Errorf("stdout = %q, stderr = %q; want nothing, and %q", s.stdout.String(), s.stderr.String(), want)
	}
}
