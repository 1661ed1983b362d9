package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// renamedConfig writes a configuration with one route with jobs, with this name and
// these settings.
func renamedConfig(t *testing.T, dir, origin, route, async, jobs string) string {
	t.Helper()
	file := filepath.Join(dir, "weir.yaml")
	text := `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0, console: true}
drain: {timeout: 1s}
upstreams: [{name: a, servers: ["` + origin + `"]}]
routes: [{name: ` + route + `, concurrency: 1, queue: none, async: {lease: 1s, backoff: 100ms` + async + `}}]
jobs: {dir: jobs` + jobs + `}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const noRoute = "no route has these jobs"

// If there are jobs without a route at startup, the log names them and the setting with
// which a route takes them over. With that setting they are available again, unchanged.
func TestH23_JobsOfARenamedRouteAreNamedAndAdopted(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	file := renamedConfig(t, dir, s.URL, "old", "", "")
	p := start(t, "--config", file)
	done := later(t, p.listen[0]+"/quick", "Idempotency-Key: done")
	result(t, p.listen[0], done)
	p.signal(syscall.SIGTERM)
	p.ends(0)
	renamedConfig(t, dir, s.URL, "old", "", ", workers: false") // after a reload a worker could take one more
	p = start(t, "--config", file)
	var waiting []string
	for i := range 3 {
		waiting = append(waiting, later(t, fmt.Sprint(p.listen[0], "/quick/", i), fmt.Sprint("Idempotency-Key: k", i)))
	}
	waiting = append(waiting, later(t, p.listen[0]+"/quick/once"))
	p.signal(syscall.SIGTERM)
	p.ends(0)
	if strings.Contains(p.stderr(), noRoute) {
		t.Errorf("with the route that owns the jobs the log is:\n%s", p.stderr())
	}

	renamedConfig(t, dir, s.URL, "new", "", "")
	p = start(t, "--config", file)
	for i, want := range []string{
		`"queue":"old","queued":3,"started":0,"dead":0,"finished":1,"setting":"async: {formerly: [old]}"`,
		`"queue":"old-once","queued":1,"started":0,"dead":0,"finished":0,"setting":"async: {formerly: [old]}"`,
	} {
		if line := p.await(noRoute, i+1); !strings.Contains(line, `"level":"WARN"`) || !strings.Contains(line, want) {
			t.Errorf("the warning is %s; want %s", line, want)
		}
	}
	if a := get(p.admin + "/readyz"); a.status != http.StatusOK {
		t.Errorf("/readyz = %+v; want 200", a)
	}
	until(t, "the console shows that the jobs have no route", func() bool {
		return strings.Count(get(p.admin+"/console/api/snapshot").body, `"orphan":{"queued":`) == 2
	})
	if a := jobCall(t, "GET", p.listen[0]+done, ""); a.status != http.StatusNotFound {
		t.Errorf("a job without a route = %+v; want 404", a)
	}
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	p.await(noRoute, 3) // and again at each reload

	renamedConfig(t, dir, s.URL, "new", ", formerly: [old]", "")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 2)
	for _, path := range append(waiting, done) {
		if a := result(t, p.listen[0], path); a.status != http.StatusOK {
			t.Errorf("the result of %s = %+v; want 200", path, a)
		}
	}
	if a := jobCall(t, "POST", p.listen[0]+"/quick", "in", "Prefer: respond-async", "Idempotency-Key: done"); a.status != http.StatusOK || a.body != "/quick attempt 1" {
		t.Errorf("the same key = %+v; want the job's result", a)
	}
	until(t, "the console shows that the jobs have a route", func() bool {
		return !strings.Contains(get(p.admin+"/console/api/snapshot").body, `"orphan":`)
	})
	if n := strings.Count(p.stderr(), noRoute); n != 4 {
		t.Errorf("the log has %d warnings; want 4: about two queues, at startup and at the first reload", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.done {
		if n != 1 {
			t.Errorf("the request with the key %q was finished %d times; want 1", key, n)
		}
	}
}

// A reload that renames a route does not cut off any job: neither a running one, nor
// one that a worker holds while it waits for the route's limit.
func TestH23_AReloadThatRenamesARouteKeepsItsJobsRunning(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	file := renamedConfig(t, dir, s.URL, "old", "", "")
	p := start(t, "--config", file)
	running := later(t, p.listen[0]+"/slow/1", "Idempotency-Key: k1")
	s.arrives(t, 1)
	refused := later(t, p.listen[0]+"/slow/2", "Idempotency-Key: k2")
	until(t, "a worker to take the second job", func() bool {
		return jobCall(t, "GET", p.listen[0]+refused, "").doc.State == "running"
	})
	renamedConfig(t, dir, s.URL, "new", ", formerly: [old]", "")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	close(s.may)
	if a := result(t, p.listen[0], running); a.status != http.StatusOK || !strings.HasSuffix(a.body, " attempt 1") {
		t.Errorf("the result of the job that ran = %+v; want that of the first attempt", a)
	}
	// The other job had not begun: the workers of the old name hand it back.
	if a := result(t, p.listen[0], refused); a.status != http.StatusOK {
		t.Errorf("the result of the job that was refused = %+v; want 200", a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{"k1", "k2"} {
		if n := s.done[key]; n != 1 {
			t.Errorf("the request with the key %q was finished %d times; want 1", key, n)
		}
	}
	if strings.Contains(p.stderr(), noRoute) {
		t.Errorf("with the jobs adopted the log is:\n%s", p.stderr())
	}
}
