package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A shop is an origin that waits. It counts the requests that it has finished by
// Idempotency-Key.
type shop struct {
	*httptest.Server
	came chan string // paths
	left chan string // paths of requests whose client disconnected while they waited
	may  chan struct{}

	mu   sync.Mutex
	done map[string]int // guarded by mu
}

func newShop(t *testing.T) *shop {
	s := &shop{came: make(chan string, 1000), left: make(chan string, 1000), may: make(chan struct{}), done: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		s.came <- r.URL.Path
		if strings.HasPrefix(r.URL.Path, "/slow") {
			select {
			case <-s.may:
			case <-r.Context().Done():
				s.left <- r.URL.Path
				return
			}
		}
		s.mu.Lock()
		s.done[r.Header.Get("Idempotency-Key")]++
		s.mu.Unlock()
		fmt.Fprintf(w, "%s attempt %s", r.URL.Path, r.Header.Get("Weir-Job-Attempt"))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) arrives(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-s.came:
		case <-time.After(patience):
			t.Fatal("no request arrived")
		}
	}
}

// jobsConfig writes a configuration with a route whose requests can become jobs.
func jobsConfig(t *testing.T, dir, origin, more, async string) string {
	t.Helper()
	file := filepath.Join(dir, "weir.yaml")
	text := `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
drain: {timeout: 1s}
upstreams: [{name: a, servers: ["` + origin + `"]}]
routes: [{name: all` + async + `}]
jobs: {dir: jobs` + more + `}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const brief = ", async: {lease: 1s, backoff: 100ms}"

// A jobAnswer is the response to a request that can have become a job.
type jobAnswer struct {
	answer
	header http.Header
	doc    struct {
		ID, State, Durability, Error string
		Attempt                      int
	}
}

func jobCall(t *testing.T, method, url, body string, fields ...string) (a jobAnswer) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.example" // the port changes with a restart
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a.answer, a.header = answer{resp.StatusCode, string(b), resp.Close, err}, resp.Header
	_ = json.Unmarshal(b, &a.doc) // if it is JSON
	return a
}

// later submits a job, and returns its path.
func later(t *testing.T, url string, fields ...string) string {
	t.Helper()
	a := jobCall(t, "POST", url, "in", append(fields, "Prefer: respond-async")...)
	if a.status != http.StatusAccepted || a.doc.Durability != "disk" {
		t.Fatalf("POST %s = %+v; want 202, durable on disk", url, a)
	}
	return a.header.Get("Location")
}

// result waits for a job's result.
func result(t *testing.T, base, path string) (a jobAnswer) {
	t.Helper()
	until(t, "the result of "+path, func() bool {
		a = jobCall(t, "GET", base+path+"/result", "", "Prefer: wait=5")
		return a.status != http.StatusAccepted
	})
	return a
}

func TestH23_AKillLosesNothingThatWasAccepted(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	file := jobsConfig(t, dir, s.URL, ", concurrency: 4", brief)
	p := start(t, "--config", file)
	if line := p.await(`"msg":"ready"`, 1); !strings.Contains(line, `"durability":"disk"`) || !strings.Contains(line, filepath.Join(dir, "jobs")) {
		t.Errorf("the line at startup is %s; want the durability and the folder", line)
	}
	const n = 20
	var paths []string
	for i := range n {
		paths = append(paths, later(t, fmt.Sprint(p.listen[0], "/slow/", i), fmt.Sprint("Idempotency-Key: k", i)))
	}
	s.arrives(t, 4)
	p.signal(syscall.SIGKILL)
	<-p.exited
	for range 4 { // otherwise a request whose handler has not noticed the kill yet would be finished, too
		select {
		case <-s.left:
		case <-time.After(patience):
			t.Fatal("the killed proxy's calls have not ended")
		}
	}

	p = start(t, "--config", file)
	close(s.may)
	again := jobCall(t, "POST", p.listen[0]+"/slow/0", "in", "Idempotency-Key: k0", "Prefer: respond-async, wait=20")
	if again.status != 200 {
		t.Errorf("the same key after the kill is %+v; want the job's result", again)
	}
	for i, path := range paths {
		if a := result(t, p.listen[0], path); a.status != 200 || !strings.HasPrefix(a.body, fmt.Sprint("/slow/", i, " attempt ")) {
			t.Errorf("the result of %d = %+v; want the origin's response", i, a)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if done := s.done[fmt.Sprint("k", i)]; done != 1 {
			t.Errorf("request %d was finished %d times; want 1", i, done)
		}
	}
}

func TestH23_WhatIsNotSentTwiceDiesWithAKill(t *testing.T) {
	s := newShop(t)
	file := jobsConfig(t, t.TempDir(), s.URL, "", brief)
	p := start(t, "--config", file)
	path := later(t, p.listen[0]+"/slow")
	s.arrives(t, 1)
	p.signal(syscall.SIGKILL)
	<-p.exited
	p = start(t, "--config", file)
	if a := result(t, p.listen[0], path); a.status != http.StatusBadGateway {
		t.Errorf("the result = %+v; want 502", a)
	}
	if a := jobCall(t, "GET", p.listen[0]+path, ""); a.doc.State != "dead" || a.doc.Attempt != 1 {
		t.Errorf("the job is %+v; want dead after one attempt", a)
	}
	if len(s.came) != 0 {
		t.Error("the request was sent twice")
	}
}

func TestH23_WorkersApart(t *testing.T) {
	t.Parallel() // it mostly waits
	s, dir := newShop(t), t.TempDir()
	addr := free(t)
	file := jobsConfig(t, dir, s.URL, ", workers: false, token_file: token, listen: \""+addr+"\"", brief)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--config", file)
	path := later(t, p.listen[0]+"/slow", "Idempotency-Key: k")
	if a := jobCall(t, "GET", p.listen[0]+path, "", "Prefer: wait=1"); a.doc.State != "queued" {
		t.Errorf("without a worker the job is %+v; want queued", a)
	}
	worker := func() *process {
		w := run(t, nil, "worker", "--config", file, "--concurrency", "2")
		if line := w.await(`"msg":"ready"`, 1); !strings.Contains(line, addr) {
			t.Errorf("the worker logs %s; want the address of its jobs", line)
		}
		return w
	}
	w := worker()
	s.arrives(t, 1)
	w.signal(syscall.SIGKILL)
	<-w.exited
	began := time.Now()
	w = worker()
	s.arrives(t, 1)
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("a killed worker's job was started again after %v; want the lease", took)
	}
	w.signal(syscall.SIGTERM) // it has one second, and hands the job back
	w.ends(0)
	w = worker()
	s.arrives(t, 1)
	close(s.may)
	if a := result(t, p.listen[0], path); a.status != 200 || a.body != "/slow attempt 3" {
		t.Errorf("the result = %+v; want that of the third attempt", a)
	}

	p.signal(syscall.SIGKILL) // the worker outlives the proxy and its job server
	<-p.exited
	p = start(t, "--config", file)
	if a := result(t, p.listen[0], later(t, p.listen[0]+"/quick")); a.status != 200 {
		t.Errorf("after the proxy came back: %+v; want 200", a)
	}
	w.signal(syscall.SIGTERM)
	w.ends(0)
	if strings.Contains(p.stderr()+w.stderr(), "0123456789abcdef") {
		t.Error("a log contains the token")
	}
}

func TestH23_WorkerWithoutAnythingToDoDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	file := jobsConfig(t, dir, "http://127.0.0.1:1", "", "")
	w := run(t, nil, "worker", "--config", file)
	w.ends(2)
	if text := w.stderr(); !strings.Contains(text, "no route has async") {
		t.Errorf("stderr is %s; want the reason", text)
	}
	file = jobsConfig(t, dir, "http://127.0.0.1:1", "", brief)
	w = run(t, nil, "worker", "--config", file)
	w.ends(2)
	if text := w.stderr(); !strings.Contains(text, "jobs.listen is missing") {
		t.Errorf("stderr is %s; want the reason", text)
	}
}

// A proxy that cannot reach its job servers names them: the error of the client does not.
func TestH4_UnreachableJobServersAreNamed(t *testing.T) {
	t.Parallel() // it mostly waits
	addr, file := free(t), filepath.Join(t.TempDir(), "weir.yaml")
	config(t, file, "http://127.0.0.1:1", "listen: [{address: '127.0.0.1:0'}]\njobs: {nats: ['nats://"+addr+"']}\nroutes: [{name: r, async: {}}]")
	p := run(t, nil, "proxy", "--config", file)
	p.ends(1)
	if text := p.stderr(); !strings.Contains(text, addr) {
		t.Errorf("stderr is %s; want the address %s", text, addr)
	}
}

func TestH23_ReloadOfJobs(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	file := jobsConfig(t, dir, s.URL, "", "")
	p := start(t, "--config", file)
	if a := jobCall(t, "POST", p.listen[0]+"/quick", "", "Prefer: respond-async"); a.status != 200 || a.header.Get("Vary") != "" {
		t.Errorf("a route without async: %+v; want the response", a)
	}
	jobsConfig(t, dir, s.URL, ", concurrency: 2, namespace: other", brief)
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	p.await("this setting changes with a restart only", 1)
	path := later(t, p.listen[0]+"/slow", "Idempotency-Key: k")
	s.arrives(t, 1)

	jobsConfig(t, dir, s.URL, ", concurrency: 3", ", async: {lease: 1s, budget: 1ms, max_wait: 7s}")
	p.signal(syscall.SIGHUP) // the job continues
	p.await(`"msg":"reloaded"`, 2)
	if a := jobCall(t, "POST", p.listen[0]+"/slow", ""); a.status != http.StatusAccepted {
		t.Errorf("beyond the new budget: %+v; want 202", a)
	}
	s.arrives(t, 1)
	close(s.may)
	if a := result(t, p.listen[0], path); a.status != 200 || a.body != "/slow attempt 1" {
		t.Errorf("the job from before the reload: %+v; want the first attempt's result", a)
	}
	if a := jobCall(t, "GET", p.listen[0]+path, "", "Prefer: wait=1000"); a.header.Get("Preference-Applied") != "wait=7" {
		t.Errorf("Preference-Applied = %q; want the new max_wait", a.header.Get("Preference-Applied"))
	}
	if stats := get(p.admin + "/stats").body; !strings.Contains(stats, `"submitted"`) {
		t.Errorf("/stats = %s; want job counters", stats)
	}

	jobsConfig(t, dir, s.URL, ", workers: false", ", async: {lease: 1s, max_wait: 1h}")
	p.signal(syscall.SIGHUP)
	p.await("invalid configuration; keeping", 1)
	if a := jobCall(t, "GET", p.listen[0]+path, ""); a.status != 200 {
		t.Errorf("after a bad reload: %+v; want 200", a)
	}
	jobsConfig(t, dir, s.URL, "", "")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 3)
	if a := jobCall(t, "POST", p.listen[0]+"/quick", "", "Prefer: respond-async"); a.status != 200 {
		t.Errorf("a route that is no longer async: %+v; want the response", a)
	}
}

func TestH23_TheDrainAnswersThoseWhoWait(t *testing.T) {
	s := newShop(t)
	file := jobsConfig(t, t.TempDir(), s.URL, "", brief)
	p := start(t, "--config", file)
	path := later(t, p.listen[0]+"/slow", "Idempotency-Key: k")
	s.arrives(t, 1)
	waits := make(chan jobAnswer, 2)
	go func() { waits <- jobCall(t, "GET", p.listen[0]+path, "", "Prefer: wait=30") }()
	go func() {
		waits <- jobCall(t, "POST", p.listen[0]+"/slow", "in", "Prefer: respond-async, wait=30", "Idempotency-Key: k")
	}()
	stream, err := http.Get(p.listen[0] + path + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data:") {
	}
	until(t, "both wait", func() bool {
		var v struct{ Process struct{ Requests int } }
		return json.Unmarshal([]byte(get(p.admin+"/stats").body), &v) == nil && v.Process.Requests == 3
	})
	p.signal(syscall.SIGTERM)
	for range 2 {
		if a := <-waits; a.status != 200 && a.status != 202 || a.doc.State != "running" {
			t.Errorf("a waiting client gets %+v; want the job's status", a)
		}
	}
	for lines.Scan() { // the stream ends
	}
	p.ends(0)
	p = start(t, "--config", file)
	s.arrives(t, 1)
	close(s.may)
	if a := result(t, p.listen[0], path); a.status != 200 {
		t.Errorf("the job that was handed back: %+v; want 200", a)
	}
}

// A body whose announced length is too large is refused without reading it. Of a body
// that turns out to be too large, the rest is not read. Both hold with and without
// jobs.
func TestH23_HugeBodiesAreRefused(t *testing.T) {
	s := newShop(t)
	for _, async := range []string{", async: {max_body: 1KiB}", ", max_body: 1KiB"} {
		p := start(t, "--config", jobsConfig(t, t.TempDir(), s.URL, "", async))
		for _, head := range []string{"Content-Length: 10737418240\r\nExpect: 100-continue", "Content-Length: 10737418240", "Transfer-Encoding: chunked"} {
			c, err := net.Dial("tcp", strings.TrimPrefix(p.listen[0], "http://"))
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(patience))
			fmt.Fprintf(c, "POST /quick HTTP/1.1\r\nHost: a\r\nPrefer: respond-async\r\n%s\r\n\r\n", head)
			if strings.Contains(head, "chunked") {
				go func() { // ends when the connection is closed
					chunk := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"
					for _, err := io.WriteString(c, chunk); err == nil; _, err = io.WriteString(c, chunk) {
					}
				}()
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("%s with %q: %v", async, head, err)
			}
			if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
				t.Errorf("%s with %q is %d, closing %v; want 413 and the end of the connection", async, head, resp.StatusCode, resp.Close)
			}
			c.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.done) > 0 {
		t.Error("the origin got a request")
	}
}

func TestProxyWithoutItsServersDoesNotStart(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("it waits for 15 s")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	text := `
listen: [{address: 127.0.0.1:0}]
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}]
routes: [{name: all, async: {}}]
jobs: {nats: ["nats://` + free(t) + `"]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := run(t, nil, "proxy", "--config", file)
	select {
	case <-p.exited:
	case <-time.After(2 * patience):
		t.Fatalf("the program does not exit:\n%s", p.stderr())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.stderr(), "jobs: nats: no servers available") {
		t.Errorf("exit code %d: %s; want 1 and the reason", code, p.stderr())
	}
}
