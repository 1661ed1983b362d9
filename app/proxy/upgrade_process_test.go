package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs/embedded"
)

// An upgrade is rolled out and rolled back under load. Three proxies with one Redis,
// one JetStream and one configuration change from the earlier version to this one, one
// after another, and then back. Every request gets the origin's response, no accepted
// job is lost, each version can read the other's results, and a purge at one proxy
// reaches the others.
func TestVersionsUpgradeAndRollBackUnderLoad(t *testing.T) {
	before := previous(t)
	f := openFlotilla(t, before)
	f.holds("all at the earlier version")
	for i := range f.proxies {
		f.replace(i, os.Args[0])
		f.holds(fmt.Sprintf("upgraded %d of %d", i+1, len(f.proxies)))
	}
	for i := range f.proxies {
		f.replace(i, before)
		f.holds(fmt.Sprintf("rolled back %d of %d", i+1, len(f.proxies)))
	}
	f.ends()
}

// A flotilla is three proxies with the same configuration, under load.
type flotilla struct {
	t       *testing.T
	file    string
	ports   []string
	proxies []*process // used only by the test's goroutine

	origin *ledgerOrigin
	stop   chan struct{} // closed when the load ends
	load   sync.WaitGroup
	served atomic.Int64 // requests with the expected response
	faults atomic.Int64 // all other requests

	mu   sync.Mutex
	live []string // guarded by mu; URLs of the proxies that receive requests
	jobs []string // guarded by mu; paths of the accepted jobs, by number
}

// steady is the interval at which the load sends a request of each kind.
const steady = 20 * time.Millisecond

func openFlotilla(t *testing.T, program string) *flotilla {
	f := &flotilla{t: t, origin: newLedgerOrigin(t), stop: make(chan struct{})}
	redis, addr := redisServer(t), free(t)
	startRedis(t, redis, addr, "secret-of-redis")
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(t.TempDir(), "jobs"), Listen: "127.0.0.1:0", MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(context.Background()) })

	dir := t.TempDir()
	f.file = filepath.Join(dir, "weir.yaml")
	for name, text := range map[string]string{
		"password": "secret-of-redis\n",
		"weir.yaml": `
admin: {address: 127.0.0.1:0}
drain: {timeout: 20s}
upstreams: [{name: shop, servers: ["` + f.origin.URL + `"]}]
routes:
  - {name: orders, path: /orders, async: {lease: 2s, backoff: 100ms}}
  - {name: pages, cache: {stale_if_error: 1h}}
fleet:
  redis: {addresses: ["` + addr + `"], password_file: password}
  deadline: 5s # the usual one is not kept by a machine that runs all tests at once
  rate_failure: closed
jobs: {nats: ["` + server.Addr() + `"]}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		f.ports = append(f.ports, free(t))
		f.proxies = append(f.proxies, nil)
	}
	for i := range f.proxies {
		f.start(i, program)
	}
	for range 4 {
		f.load.Go(func() { f.every(f.read) })
	}
	f.load.Go(func() { f.every(f.submit) })
	t.Cleanup(func() {
		f.halt()
		if t.Failed() {
			for i, p := range f.proxies {
				t.Logf("proxy %d:\n%s", i, p.stderr())
			}
		}
	})
	return f
}

func (f *flotilla) start(i int, program string) {
	f.t.Helper()
	f.proxies[i] = runProgram(f.t, program, nil, "proxy", "--config", f.file, "--listen", f.ports[i]).ready()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = append(f.live, "http://"+f.ports[i])
}

// replace stops a proxy, as a load balancer and a service manager do, and starts
// another program instead.
func (f *flotilla) replace(i int, program string) {
	f.t.Helper()
	f.mu.Lock()
	var live []string
	for _, u := range f.live {
		if u != "http://"+f.ports[i] {
			live = append(live, u)
		}
	}
	f.live = live
	f.mu.Unlock()
	f.proxies[i].signal(syscall.SIGTERM)
	f.proxies[i].ends(0)
	f.start(i, program)
}

func (f *flotilla) every(do func(n int)) {
	for n := 0; ; n++ {
		select {
		case <-f.stop:
			return
		case <-time.After(steady):
			do(n)
		}
	}
}

func (f *flotilla) halt() {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	f.load.Wait()
}

// any returns a proxy that receives requests.
func (f *flotilla) any(n int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[n%len(f.live)]
}

func (f *flotilla) fault(format string, args ...any) {
	if f.faults.Add(1) <= 10 {
		f.t.Errorf(format, args...)
	}
}

// read requests one of a few pages. If the connection ends without a response, it sends
// the request to another proxy, as every load balancer does.
func (f *flotilla) read(n int) {
	path := fmt.Sprintf("/pages/%d", n%7)
	var a answer
	for try := range 3 {
		if a, _ = ask(f.any(n+try)+path, ""); a.err == nil {
			break
		}
	}
	if a.err != nil || a.status != http.StatusOK || !strings.HasPrefix(a.body, path+" v") {
		f.fault("GET %s = %+v; want a version of it", path, a)
		return
	}
	f.served.Add(1)
}

// submit sends an order as a job. It sends it again, with the same key, until it is
// accepted.
func (f *flotilla) submit(n int) {
	for try := range 5 {
		r, _ := http.NewRequest("POST", f.any(n+try)+fmt.Sprintf("/orders/%d", n), strings.NewReader("in"))
		r.Host = "shop.example"
		r.Header.Set("Prefer", "respond-async")
		r.Header.Set("Idempotency-Key", fmt.Sprintf("order-%d", n))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			f.fault("POST /orders/%d = %d; want 202", n, resp.StatusCode)
			return
		}
		f.mu.Lock()
		f.jobs = append(f.jobs, resp.Header.Get("Location"))
		f.mu.Unlock()
		f.served.Add(1)
		return
	}
	f.fault("no proxy accepted order %d", n)
}

// holds waits until the load has made progress, and checks that the running versions
// agree.
func (f *flotilla) holds(phase string) {
	t := f.t
	t.Helper()
	t.Logf("%s: %d requests so far", phase, f.served.Load())
	target := f.served.Load() + 100
	until(t, phase+": progress", func() bool { return f.served.Load() >= target || f.faults.Load() > 0 })

	// One load per page for all instances.
	cold := "/cold/" + strings.ReplaceAll(phase, " ", "-")
	var crowd sync.WaitGroup
	for _, p := range f.proxies {
		for range 4 {
			crowd.Go(func() {
				if a, h := ask(p.listen[0]+cold, ""); a.err != nil || a.body != cold+" v0" {
					t.Errorf("%s: a cold page is %+v, %v", phase, a, h)
				}
			})
		}
	}
	crowd.Wait()
	if got := f.origin.callsFor(cold); got != 1 {
		t.Errorf("%s: %d calls for a cold page; want 1", phase, got)
	}

	// A purge at each instance reaches all of them.
	for i, by := range f.proxies {
		version := f.origin.change(cold)
		if status, text := purged(t, by.admin, cold); status != http.StatusOK {
			t.Errorf("%s: the purge by %d is %d: %s", phase, i, status, text)
		}
		for j, p := range f.proxies {
			until(t, fmt.Sprintf("%s: the purge by %d at %d", phase, i, j), func() bool {
				a, _ := ask(p.listen[0]+cold, "")
				return a.body == fmt.Sprintf("%s v%d", cold, version)
			})
		}
	}

	// A result can be read at every instance.
	f.mu.Lock()
	last := f.jobs[len(f.jobs)-1]
	f.mu.Unlock()
	for i, p := range f.proxies {
		if a := result(t, p.listen[0], last); a.status != http.StatusOK || !strings.HasPrefix(a.body, "/orders/") {
			t.Errorf("%s: the result of %s at %d = %+v; want 200", phase, last, i, a)
		}
	}
}

// ends stops the load and reads the result of every job.
func (f *flotilla) ends() {
	t := f.t
	t.Helper()
	f.halt()
	f.mu.Lock()
	all := f.jobs
	f.mu.Unlock()
	bodies := map[string]bool{}
	for n, path := range all {
		a := result(t, f.proxies[n%len(f.proxies)].listen[0], path)
		if a.status != http.StatusOK || bodies[a.body] {
			t.Errorf("the result of %s = %+v; want 200, and a different order for each job", path, a)
		}
		bodies[a.body] = true
	}
	t.Logf("%d jobs, %d requests", len(all), f.served.Load())
}

// A ledgerOrigin answers page requests with the page's version, and orders with their
// path.
type ledgerOrigin struct {
	*httptest.Server
	mu       sync.Mutex
	calls    map[string]int // guarded by mu
	versions map[string]int // guarded by mu
}

func newLedgerOrigin(t *testing.T) *ledgerOrigin {
	o := &ledgerOrigin{calls: map[string]int{}, versions: map[string]int{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if strings.HasPrefix(r.URL.Path, "/cold/") {
			<-time.After(200 * time.Millisecond)
		}
		o.mu.Lock()
		o.calls[r.URL.Path]++
		version := o.versions[r.URL.Path]
		o.mu.Unlock()
		if r.Method == "POST" {
			io.WriteString(w, r.URL.Path)
			return
		}
		w.Header().Set("Cache-Control", "max-age=600")
		fmt.Fprintf(w, "%s v%d", r.URL.Path, version)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *ledgerOrigin) callsFor(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[path]
}

// change creates the next version of a page, and returns its number.
func (o *ledgerOrigin) change(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.versions[path]++
	return o.versions[path]
}

// J1: a proxy with its jobs in a folder is upgraded and rolled back. Jobs that are
// queued, running or finished at either step still exist after it, and none runs twice
// after an orderly stop.
func TestJ1_VersionsUpgradeAndRollBackAFolder(t *testing.T) {
	before := previous(t)
	s := newShop(t)
	file := jobsConfig(t, t.TempDir(), s.URL, ", concurrency: 2", brief)
	var paths []string
	for step, program := range []string{before, os.Args[0], before} {
		p := runProgram(t, program, nil, "proxy", "--config", file).ready()
		for _, path := range paths[:min(len(paths), 2*step)] {
			if a := result(t, p.listen[0], path); a.status != http.StatusOK {
				t.Errorf("step %d: the result of %s = %+v; want 200", step, path, a)
			}
		}
		for i := range 6 {
			key := fmt.Sprintf("k%d-%d", step, i)
			paths = append(paths, later(t, p.listen[0]+"/quick/"+key, "Idempotency-Key: "+key))
		}
		if step == 2 {
			for _, path := range paths {
				if a := result(t, p.listen[0], path); a.status != http.StatusOK {
					t.Errorf("the result of %s = %+v; want 200", path, a)
				}
			}
		}
		p.signal(syscall.SIGTERM)
		p.ends(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.done {
		if n != 1 {
			t.Errorf("order %s was executed %d times; want once", key, n)
		}
	}
	if len(s.done) != len(paths) {
		t.Errorf("%d orders were executed; want %d", len(s.done), len(paths))
	}
}

// J1: a folder that a newer version has written is neither opened nor changed. Job
// requests get 503, everything else is served, and the newer version still finds all
// its jobs.
func TestJ1_AFolderOfANewerVersionIsLeftAlone(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	file := outageConfig(t, dir, s.URL, "")
	p := start(t, "--config", file)
	path := later(t, p.listen[0]+"/later/1", "Idempotency-Key: k1")
	result(t, p.listen[0], path)
	p.signal(syscall.SIGTERM)
	p.ends(0)

	mark := filepath.Join(dir, "jobs.mark")
	known, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	newer := regexp.MustCompile(`"form": \d+`).ReplaceAll(known, []byte(`"form": 99`))
	if bytes.Equal(newer, known) {
		t.Fatalf("the mark contains no form: %s", known)
	}
	if err := os.WriteFile(mark, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, "--config", file)
	p.wantOutage(t, "newer version of weir", "format 99")
	p.signal(syscall.SIGTERM)
	p.ends(0)
	if now, _ := os.ReadFile(mark); !bytes.Equal(now, newer) {
		t.Errorf("the mark is now %s; want it unchanged", now)
	}

	if err := os.WriteFile(mark, known, 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, "--config", file)
	if a := result(t, p.listen[0], path); a.status != http.StatusOK {
		t.Errorf("the result = %+v; want it to still exist", a)
	}
}
