// Package front runs the same suite against a caching proxy and against weir proxy, each
// with the configuration shown in the documentation.
package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/engine"
)

// patience is how long a test waits for a condition, even on a busy machine.
const patience = 30 * time.Second

// An Origin responds to each request for a path with the number of that request.
type Origin struct {
	*httptest.Server
	Down atomic.Bool // respond with 500

	mu    sync.Mutex
	calls map[string]int // guarded by mu
}

// NewOrigin starts an Origin. A call takes 200 ms, and its response has no freshness
// information.
func NewOrigin(t *testing.T) *Origin {
	o := &Origin{calls: map[string]int{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.calls[r.URL.Path]++
		n := o.calls[r.URL.Path]
		o.mu.Unlock()
		<-time.After(200 * time.Millisecond)
		if o.Down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%s %d", r.URL.Path, n)
	}))
	t.Cleanup(o.Close)
	return o
}

// Calls returns how often path was called.
func (o *Origin) Calls(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[path]
}

// A Front is a proxy in front of an Origin.
type Front struct {
	URL   string
	Purge func(path string) error // nil: it cannot purge
}

func (f Front) get(path string, fields ...string) (status int, body string, err error) {
	r, err := http.NewRequest("GET", f.URL+path, nil)
	if err != nil {
		return 0, "", err
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// wants checks that the response for path is 200 with body.
func (f Front) wants(t *testing.T, path, body string, fields ...string) {
	t.Helper()
	if status, got, err := f.get(path, fields...); status != 200 || got != body || err != nil {
		t.Errorf("GET %s = %d %q, %v; want 200 %q", path, status, got, err, body)
	}
}

// Run runs the suite: concurrent requests make one call, hits and stale responses make
// none, a session cookie bypasses the cache, and clients do not notice an outage.
func Run(t *testing.T, open func(t *testing.T, origin string) Front) {
	o := NewOrigin(t)
	f := open(t, o.URL)
	t.Run("a crowd is one call", func(t *testing.T) {
		var crowd sync.WaitGroup
		for range 20 {
			crowd.Go(func() { f.wants(t, "/crowd", "/crowd 1") })
		}
		crowd.Wait()
		if n := o.Calls("/crowd"); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
	})
	t.Run("an expired response is served while it is refreshed", func(t *testing.T) {
		f.wants(t, "/old", "/old 1")
		<-time.After(1200 * time.Millisecond)
		f.wants(t, "/old", "/old 1")
		until(t, "the refresh", func() bool {
			_, body, _ := f.get("/old")
			return body != "/old 1"
		})
	})
	t.Run("an outage", func(t *testing.T) {
		f.wants(t, "/outage", "/outage 1")
		o.Down.Store(true)
		defer o.Down.Store(false)
		for range 3 {
			<-time.After(1200 * time.Millisecond)
			f.wants(t, "/outage", "/outage 1")
		}
	})
	t.Run("a session bypasses the cache", func(t *testing.T) {
		f.wants(t, "/me", "/me 1", "Cookie: session=ada")
		f.wants(t, "/me", "/me 2", "Cookie: session=bob")
	})
	t.Run("a purge", func(t *testing.T) {
		if f.Purge == nil {
			t.Log("this proxy cannot purge") // the difference
			return
		}
		f.wants(t, "/purged", "/purged 1")
		if err := f.Purge("/purged"); err != nil {
			t.Fatal(err)
		}
		f.wants(t, "/purged", "/purged 2")
	})
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// Config reads a configuration from the documentation, and fills in the given origin and
// addresses.
func Config(t *testing.T, file, origin string, listen ...string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(origin, "http://"))
	text := strings.NewReplacer("127.0.0.1:3000", net.JoinHostPort(host, port), `.port = "3000"`, `.port = "`+port+`"`).Replace(string(b))
	for i, own := range []string{"127.0.0.1:8080", "127.0.0.1:9090"} {
		if i < len(listen) {
			text = strings.ReplaceAll(text, own, listen[i])
		}
	}
	return text
}

// Weir starts weir proxy.
func Weir(t *testing.T, file, origin string) Front {
	t.Helper()
	dir := t.TempDir()
	program := os.Getenv("WEIR_TEST_PROGRAM") // built once for all tests by tools/gate
	if program == "" {
		program = filepath.Join(dir, "weir")
		if out, err := exec.Command("go", "build", "-o", program, "github.com/weir-go/weir/app/cmd/weir").CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	ports, err := engine.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	listen, admin := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	config := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(config, []byte(Config(t, file, origin, listen, admin)), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, exec.Command(program, "proxy", "--config", config), `"msg":"ready"`)
	f := Front{URL: "http://" + listen}
	f.Purge = func(path string) error {
		resp, err := http.Post("http://"+admin+"/purge", "application/json", strings.NewReader(`{"url": "`+f.URL+path+`"}`))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("purge: %s", resp.Status)
		}
		return nil
	}
	return f
}

// run starts a program and waits for a line of output that contains text. The program is
// stopped at the end of the test.
func run(t *testing.T, cmd *exec.Cmd, text string) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		out.Close()
	})
	ready := make(chan bool, 1)
	go func() { // ends with the program's output
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.Contains(s.Text(), text) {
				ready <- true
				break
			}
		}
		io.Copy(io.Discard, out)
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("%s ended without printing %q", cmd.Path, text)
		}
	case <-time.After(patience):
		t.Fatalf("%s did not print %q within %v", cmd.Path, text, patience)
	}
}

// Need skips the test if an engine is not installed, or fails it if engines are
// required.
func Need(t *testing.T, name string) {
	t.Helper()
	if err := engine.Installed(name); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// Nginx starts nginx with the file as its http block.
func Nginx(t *testing.T, file, origin string) Front {
	t.Helper()
	Need(t, "nginx")
	s, err := engine.Nginx(context.Background(), engine.NginxOptions{Config: func(listen string) string { return Config(t, file, origin, listen) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return Front{URL: s.URL}
}

// Varnish starts Varnish with the file as its VCL.
func Varnish(t *testing.T, file, origin string) Front {
	t.Helper()
	Need(t, "varnish")
	ports, err := engine.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	vcl := filepath.Join(dir, "pages.vcl")
	if err := os.WriteFile(vcl, []byte(Config(t, file, origin)), 0o644); err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
	cmd, err := engine.Command(context.Background(), "varnish", "-F", "-n", filepath.Join(dir, "work"), "-f", vcl, "-a", listen, "-T", "none", "-j", "none", "-s", "malloc,64m")
	if err != nil {
		t.Fatal(err)
	}
	run(t, cmd, "Child launched OK")
	f := Front{URL: "http://" + listen}
	until(t, "varnish listens", func() bool {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	f.Purge = func(path string) error {
		r, _ := http.NewRequest("PURGE", f.URL+path, nil)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("purge: %s", resp.Status)
		}
		return nil
	}
	return f
}
