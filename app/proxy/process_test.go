package proxy_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestTermFinishesWhatIsInFlight(t *testing.T) {
	o := newOrigin(t, "slow")
	p := start(t, "--upstream", o.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	answered := going(p.listen[0] + "/wait")
	<-o.came
	p.signal(syscall.SIGTERM)
	p.await("draining", 1)
	if a := get(p.admin + "/readyz"); a.status != 503 || a.body != "not ready: draining\n" {
		t.Errorf("readyz while draining = %+v; want 503", a)
	}
	refused := false
	for end := time.Now().Add(patience); !refused && time.Now().Before(end); {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.listen[0], "http://"))
		if refused = errors.Is(err, syscall.ECONNREFUSED); err == nil {
			c.Close()
		}
	}
	if !refused {
		t.Error("connections are still accepted while the last requests finish")
	}
	close(o.may)
	if a := <-answered; a.status != 200 || a.body != "slow" {
		t.Errorf("the request in flight got %+v; want its response", a)
	}
	p.ends(0)
	p.await(`"msg":"stopped"`, 1)
}

// During the delay the proxy reports that it is not ready, but still accepts
// connections. The delay that the test observes is longer than any machine needs for
// that; a second, short one ends on its own.
func TestDrainDelayGoesOnAccepting(t *testing.T) {
	o := newOrigin(t, "origin")
	p := start(t, "--upstream", o.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", "10m")
	p.signal(syscall.SIGINT)
	p.await("draining", 1)
	if a := get(p.admin + "/readyz"); a.status != 503 {
		t.Errorf("readyz in the delay = %+v; want 503", a)
	}
	if a := get(p.listen[0] + "/"); a.status != 200 || !a.closes {
		t.Errorf("a new request in the delay got %+v; want a response that closes the connection", a)
	}
	p = start(t, "--upstream", o.URL, "--listen", "127.0.0.1:0", "--drain-delay", "100ms")
	p.signal(syscall.SIGINT)
	p.ends(0)
}

func TestDrainTimeoutCutsAndSaysSo(t *testing.T) {
	o := newOrigin(t, "origin")
	p := start(t, "--upstream", o.URL, "--listen", "127.0.0.1:0", "--drain-timeout", "200ms")
	answered := going(p.listen[0] + "/wait")
	<-o.came
	p.signal(syscall.SIGTERM)
	p.ends(1)
	p.await("the drain timeout of 200ms was over: 1 request was cut", 1)
	if a := <-answered; a.err == nil && a.status == 200 {
		t.Errorf("the request that was cut off got %+v; want no response", a)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	o := newOrigin(t, "origin")
	p := start(t, "--upstream", o.URL, "--listen", "127.0.0.1:0")
	going(p.listen[0] + "/wait")
	<-o.came
	p.signal(syscall.SIGTERM)
	p.await("draining", 1)
	p.signal(syscall.SIGTERM)
	p.ends(1)
	p.await("interrupted again", 1)
}

func TestReloadUnderTrafficDropsNothing(t *testing.T) {
	a, b := newOrigin(t, "a"), newOrigin(t, "b")
	file := filepath.Join(t.TempDir(), "weir.yaml")
	listeners := "listen: [{address: '127.0.0.1:0'}]\n"
	config(t, file, a.URL, listeners)
	p := start(t, "--config", file)

	slow := going(p.listen[0] + "/wait")
	<-a.came
	quit, names := make(chan struct{}), []string{"a", "b"}
	var served [4][2]atomic.Int64 // responses that each client got from a and from b
	var clients sync.WaitGroup
	for i := range served {
		clients.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				r := get(p.listen[0] + "/")
				n := slices.Index(names, r.body)
				if r.err != nil || r.status != 200 || n < 0 {
					t.Errorf("a request got %+v (%v)", r, r.err)
					return
				}
				served[i][n].Add(1)
			}
		})
	}
	// goesOn waits until each client has received one more response from an origin.
	goesOn := func(name string) {
		t.Helper()
		n := slices.Index(names, name)
		for i := range served {
			before := served[i][n].Load()
			until(t, fmt.Sprintf("client %d served by %s", i, name), func() bool { return served[i][n].Load() > before })
		}
	}
	goesOn("a")
	origins := []*origin{b, a, b, a, b}
	for i, o := range origins {
		// The limits of the listener change, so that its server is replaced as well.
		config(t, file, o.URL, listeners+fmt.Sprintf("server: {idle_timeout: %ds}", 50+i))
		p.signal(syscall.SIGHUP)
		p.await(`"msg":"reloaded"`, i+1)
		if r := get(p.listen[0] + "/"); r.body != string("ba"[i%2]) {
			t.Errorf("after reload %d: %+v (%v); want the new upstream's", i+1, r, r.err)
		}
		goesOn(string("ba"[i%2]))
	}
	close(a.may)
	if r := <-slow; r.body != "a" {
		t.Errorf("the request from before the reloads got %+v; want the old upstream's response", r)
	}
	close(quit)
	clients.Wait()
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func TestBadReloadKeepsTheOldAndSaysWhy(t *testing.T) {
	o := newOrigin(t, "origin")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	const listeners = "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\n"
	config(t, file, o.URL, listeners)
	p := start(t, "--config", file)
	for i, tt := range []struct{ rest, want string }{
		{listeners + "server: {idle_timeout: 0}\nfrobnicate: 1", "frobnicate"},
		{"listen: [{address: '127.0.0.1:0'}, {address: '" + taken.Addr().String() + "'}]", "the address is in use"},
	} {
		config(t, file, "http://127.0.0.1:1", tt.rest)
		p.signal(syscall.SIGHUP)
		p.await(tt.want, 1)
		if line := p.await("keeping the current one", i+1); !strings.Contains(line, file) {
			t.Errorf("the log is %s; want the file's name", line)
		}
		if r := get(p.listen[0] + "/"); r.body != "origin" {
			t.Errorf("after a bad reload: %+v; want the old upstream's response", r)
		}
	}
	var stats struct {
		Process struct {
			State   string
			Reloads struct{ Done, Failed int }
		}
	}
	if err := json.Unmarshal([]byte(get(p.admin+"/stats").body), &stats); err != nil || stats.Process.Reloads.Failed != 2 || stats.Process.Reloads.Done != 0 || stats.Process.State != "ready" {
		t.Errorf("stats = %+v, %v; want two failed reloads, and ready", stats, err)
	}
	config(t, file, o.URL, listeners+"cache: {memory: 2MiB}")
	p.signal(syscall.SIGHUP)
	if line := p.await("a restart only", 1); !strings.Contains(line, "cache.memory") {
		t.Errorf("the log is %s; want the name of the setting", line)
	}
	p.await(`"msg":"reloaded"`, 1)
}

func TestReloadSaysWhatChanged(t *testing.T) {
	file, o := filepath.Join(t.TempDir(), "weir.yaml"), newOrigin(t, "a")
	const listen = "listen: [{address: '127.0.0.1:0'}]\n"
	config(t, file, o.URL, listen+"routes: [{name: a}, {name: b, path: /b}]")
	p := start(t, "--config", file)
	config(t, file, o.URL, listen+"log: {slow: 2s}\nroutes: [{name: a, request: {set: {x-key: sesame}}}, {name: c, path: /c}]")
	p.signal(syscall.SIGHUP)
	line := p.await(`"msg":"reloaded"`, 1)
	for _, want := range []string{`"added":["routes[c]"]`, `"removed":["routes[b]"]`, `"changed":["log.slow","routes[a].request.set"]`} {
		if !strings.Contains(line, want) {
			t.Errorf("reloaded = %s; want %s in it", line, want)
		}
	}
	p.signal(syscall.SIGHUP)
	if line := p.await(`"msg":"reloaded"`, 2); !strings.Contains(line, `"changed":"nothing"`) {
		t.Errorf("reloaded = %s; want it to report no change", line)
	}
	if strings.Contains(p.stderr(), "sesame") {
		t.Errorf("the log contains a secret: %s", p.stderr())
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

// An operator who replaces a secret or a certificate, and sends SIGHUP, learns whether it
// took effect: the name of the setting is either among the files that changed, or in a
// warning as well. Without that, a rotated password of Redis fails days later, at the next
// connection.
func TestH4_ReloadSaysWhichFilesChanged(t *testing.T) {
	dir := t.TempDir()
	file, o := filepath.Join(dir, "weir.yaml"), newOrigin(t, "a")
	secrets := []string{"redis", "sentinel", "admin", "jobs", "otlp", "upstream"}
	rotate := func(suffix string) {
		t.Helper()
		for _, name := range secrets {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("sesame-of-"+name+suffix+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	rotate("-0123456789")
	config(t, file, o.URL, fmt.Sprintf(`
listen: [{address: '127.0.0.1:0'}]
admin: {address: '127.0.0.1:0', token_file: admin}
fleet: {redis: {addresses: [%q], password_file: redis, sentinel: {master: m, password_file: sentinel}}}
jobs: {dir: jobs.d, listen: '127.0.0.1:0', token_file: jobs}
telemetry: {otlp: {endpoint: %q, headers_from_file: {api-key: otlp}}}
routes: [{name: r, async: {}, request: {set_from_file: {x-key: upstream}}}]
`, free(t), "http://"+free(t)))
	p := start(t, "--config", file)
	p.signal(syscall.SIGHUP)
	if line := p.await(`"msg":"reloaded"`, 1); !strings.Contains(line, `"changed":"nothing"`) {
		t.Errorf("reloaded = %s; want it to report no change", line)
	}
	rotate("-9876543210")
	p.signal(syscall.SIGHUP)
	line := p.await(`"msg":"reloaded"`, 2)
	want := `"files":["admin.token_file","fleet.redis.password_file","fleet.redis.sentinel.password_file","jobs.token_file",` +
		`"routes[r].request.set_from_file.X-Key","telemetry.otlp.headers_from_file.Api-Key"]`
	if !strings.Contains(line, want) || strings.Contains(line, "nothing") {
		t.Errorf("reloaded = %s; want %s in it", line, want)
	}
	for i, setting := range []string{"fleet.redis.password_file", "fleet.redis.sentinel.password_file", "jobs.token_file", "telemetry.otlp.headers_from_file.Api-Key"} {
		if line := p.await("a restart only", i+1); !strings.Contains(line, `"setting":"`+setting+`"`) {
			t.Errorf("warning %d = %s; want one about %s", i, line, setting)
		}
	}
	if text := p.stderr(); strings.Contains(text, "sesame") || strings.Count(text, "a restart only") != 4 {
		t.Errorf("the log has a secret, or another number of warnings than 4:\n%s", text)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func TestReloadMovesAListener(t *testing.T) {
	o := newOrigin(t, "origin")
	file := filepath.Join(t.TempDir(), "weir.yaml")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next := free.Addr().String()
	free.Close()
	config(t, file, o.URL, "listen: [{address: '127.0.0.1:0'}]")
	p := start(t, "--config", file)
	old := strings.TrimPrefix(p.listen[0], "http://")
	kept, err := net.Dial("tcp", old)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	answers := bufio.NewReader(kept)
	ask := func() *http.Response {
		t.Helper()
		io.WriteString(kept, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		r, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("a connection of the old listener: %v", err)
		}
		io.Copy(io.Discard, r.Body)
		return r
	}
	ask()

	config(t, file, o.URL, "listen: [{address: '"+next+"'}]")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	if r := get("http://" + next + "/"); r.body != "origin" {
		t.Errorf("the new listener: %+v", r)
	}
	// A moment after the new socket is open, the old one is closed and its clients get
	// Connection: close. Until then their requests are answered as before.
	until(t, "a response that closes a connection of the old listener", func() bool {
		r := ask()
		if r.StatusCode != 200 {
			t.Errorf("a connection of the old listener: %d; want 200", r.StatusCode)
		}
		return r.Close
	})
	until(t, "the old address to be closed", func() bool {
		c, err := net.Dial("tcp", old)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := run(t, nil, "proxy", "--upstream", "http://127.0.0.1:1", "--listen", taken.Addr().String())
	p.ends(1)
	if want := "weir: listen on " + taken.Addr().String() + ": the address is in use"; p.stderr() != want {
		t.Errorf("stderr = %q; want %q", p.stderr(), want)
	}
}

func TestAllConfigurationFaultsAtOnce(t *testing.T) {
	for _, args := range [][]string{{"proxy"}, {"proxy", "check"}} {
		p := run(t, nil, append(args, "--upstream", "nowhere", "--listen", "x", "--admin", "0.0.0.0:1")...)
		p.ends(2)
		for _, want := range []string{"--upstream", "--listen", "--admin", "token_file"} {
			if !strings.Contains(p.stderr(), want) {
				t.Errorf("%v: stderr = %s; want a fault about %s", args, p.stderr(), want)
			}
		}
	}
}

func TestServiceManagerIsTold(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	told := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		for {
			socket.SetReadDeadline(time.Now().Add(patience))
			n, err := socket.Read(b)
			if err != nil {
				t.Fatalf("the service manager did not receive %q: %v", want, err)
			}
			if got := string(b[:n]); strings.HasPrefix(got, want) {
				return
			} else if got != "WATCHDOG=1" {
				t.Fatalf("the service manager received %q; want %q", got, want)
			}
		}
	}
	p := startWith(t, []string{"NOTIFY_SOCKET=" + name, "WATCHDOG_USEC=200000"}, "--upstream", newOrigin(t, "o").URL, "--listen", "127.0.0.1:0")
	told("READY=1\nSTATUS=serving 1 ")
	told("WATCHDOG=1")
	p.signal(syscall.SIGHUP)
	told("RELOADING=1\nMONOTONIC_USEC=")
	told("READY=1")
	p.signal(syscall.SIGTERM)
	told("STOPPING=1")
	p.ends(0)
}

// A request that is still arriving when the shutdown begins is answered.
func TestTermWaitsForARequestThatArrives(t *testing.T) {
	o := newOrigin(t, "origin")
	p := start(t, "--upstream", o.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	c, err := net.Dial("tcp", strings.TrimPrefix(p.listen[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\n")
	for end := time.Now().Add(patience); !strings.Contains(get(p.admin+"/stats").body, `"connections": 1`); {
		if time.Now().After(end) {
			t.Fatal("the connection was not accepted")
		}
	}
	p.signal(syscall.SIGTERM)
	p.await("draining", 1)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		probe, err := net.Dial("tcp", strings.TrimPrefix(p.listen[0], "http://"))
		if err != nil {
			break // the socket is closed
		}
		probe.Close()
	}
	io.WriteString(c, "Host: a\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("the request that was arriving was dropped: %v\n%s", err, p.stderr())
	}
	if b, _ := io.ReadAll(r.Body); string(b) != "origin" {
		t.Errorf("it got %q; want its answer", b)
	}
	p.ends(0)
}
