package browser_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
)

// The tests run weir as a process: this binary, which acts as weir when this variable
// is set.
const asWeir = "WEIRTEST_IS_WEIR"

func TestMain(m *testing.M) {
	if os.Getenv(asWeir) != "" {
		os.Unsetenv(asWeir)
		os.Exit(cli.Main(command.OS()))
	}
	os.Exit(m.Run())
}

// A house is a running weir proxy in front of a test service.
type house struct {
	t       *testing.T
	public  string // URL
	admin   string // URL
	broken  atomic.Bool
	keeps   atomic.Bool   // the service's responses stay fresh for long and are never refreshed
	calls   atomic.Int64  // to the service
	left    chan struct{} // receives one value for each canceled call of /reports/slow
	process *os.Process
	stopped chan struct{} // closed when the process has ended
}

// open starts a house. token is the console's token, empty for none.
func open(t *testing.T, token string) *house {
	t.Helper()
	return openWith(t, token, "")
}

// openWith is open with one more setting of the section admin.
func openWith(t *testing.T, token, admin string) *house {
	t.Helper()
	s := &house{t: t, left: make(chan struct{}, 100), stopped: make(chan struct{})}
	service := httptest.NewServer(s)
	t.Cleanup(service.Close)
	dir := t.TempDir()
	config, access := filepath.Join(dir, "weir.yaml"), ""
	if admin != "" {
		access = ", " + admin
	}
	if token != "" {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		access += ", token_file: '" + file + "'"
	}
	text := fmt.Sprintf(`
listen: [{address: '127.0.0.1:0'}]
admin: {address: '127.0.0.1:0'%s}
upstreams: [{name: shop, servers: ['%s'], adaptive: true}]
routes:
  - {name: pages, path: /pages, upstream: shop}
  - {name: reports, path: /reports, upstream: shop, async: {}}
jobs: {dir: '%s'}
`, access, service.URL, filepath.Join(dir, "jobs"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "proxy", "--config", config)
	cmd.Env = append(os.Environ(), asWeir+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = cmd.Process
	lines := make(chan string, 1)
	var all strings.Builder // used only by the goroutine until it is done
	go func() {             // ends with the process
		for in := bufio.NewScanner(stderr); in.Scan(); {
			fmt.Fprintln(&all, in.Text())
			if strings.Contains(in.Text(), `"msg":"ready"`) {
				lines <- in.Text()
			}
		}
		_ = cmd.Wait()
		close(s.stopped)
	}()
	t.Cleanup(func() {
		defer func() {
			if t.Failed() {
				t.Logf("weir's output:\n%s", &all)
			}
		}()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.stopped:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-s.stopped
			t.Error("weir has not ended within 30 s of SIGTERM, with a console open")
		}
	})
	var ready struct {
		Listen []string
		Admin  string
	}
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &ready); err != nil {
			t.Fatal(err)
		}
	case <-s.stopped:
		t.Fatal("weir has not started")
	}
	s.public, s.admin = ready.Listen[0], ready.Admin
	return s
}

// end ends weir and waits for its end.
func (s *house) end() {
	s.t.Helper()
	if err := s.process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.stopped:
	case <-time.After(30 * time.Second):
		s.t.Fatal("weir has not ended within 30 s of SIGTERM")
	}
}

// ServeHTTP implements the service.
func (s *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	if s.broken.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path == "/reports/slow" {
		<-r.Context().Done()
		s.left <- struct{}{}
		return
	}
	w.Header().Set("Cache-Control", "max-age=2, stale-while-revalidate=2, stale-if-error=600")
	if s.keeps.Load() {
		w.Header().Set("Cache-Control", "max-age=600")
	}
	w.Header().Set("Cache-Tag", "shelf")
	fmt.Fprintf(w, "%s, call %d\n", r.URL.Path, s.calls.Load())
}

// visit requests n pages, some far more often than others, and waits for all
// responses.
func (s *house) visit(n int) {
	s.t.Helper()
	for i := range n {
		resp, err := http.Get(fmt.Sprintf("%s/pages/%d?secret=swordfish", s.public, i%7*(i%3)))
		if err != nil {
			s.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// busy visits pages until stop is called.
func (s *house) busy() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
				s.visit(5)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// stats returns the numbers of the route pages from /stats.
func (s *house) stats(token string) (pages struct{ Requests, Hits, Calls, Stale, Joined uint64 }) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.admin+"/stats", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct {
		Routes map[string]struct{ Requests, Hits, Calls, Stale, Joined uint64 }
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		s.t.Fatal(err)
	}
	return v.Routes["pages"]
}
