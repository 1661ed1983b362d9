package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// outageConfig writes a configuration with jobs in a folder, and with routes with and
// without jobs.
func outageConfig(t *testing.T, dir, origin, more string) string {
	t.Helper()
	file := filepath.Join(dir, "weir.yaml")
	text := `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
drain: {timeout: 1s}
upstreams: [{name: a, servers: ["` + origin + `"]}]
routes:
  - {name: later, path: /later/, async: {lease: 1s, backoff: 100ms}}
  - {name: budget, path: /budget/, async: {budget: 1s}}
  - {name: plain}
jobs: {dir: jobs` + more + `}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// operatorsGet sends a GET request to the admin listener, which requires its own Host.
func operatorsGet(t *testing.T, url string) answer {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(b), resp.Close, err}
}

// wantOutage fails the test unless jobs are refused, /readyz reports why, and
// everything else is served.
func (p *process) wantOutage(t *testing.T, why ...string) {
	t.Helper()
	base := p.listen[0]
	if a := jobCall(t, "POST", base+"/later/x", "in", "Prefer: respond-async"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("a job gets status %d; want 503 with Retry-After", a.status)
	}
	if a := jobCall(t, "GET", base+"/budget/x", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("a request for a route with a budget gets status %d; want 503", a.status)
	}
	if a := jobCall(t, "GET", base+"/.weir/jobs/"+strings.Repeat("0", 32), ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("a request for a job's status gets %d; want 503", a.status)
	}
	for _, path := range []string{"/plain", "/later/now"} {
		if a := jobCall(t, "GET", base+path, ""); a.status != http.StatusOK {
			t.Errorf("%s, which is not a job, gets status %d; want 200", path, a.status)
		}
	}
	ready := operatorsGet(t, p.admin+"/readyz")
	if ready.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz = %d %s; want 503", ready.status, ready.body)
	}
	for _, part := range append(why, "jobs") {
		if !strings.Contains(ready.body, part) {
			t.Errorf("/readyz is %q; want it to contain %q", ready.body, part)
		}
	}
	if a := operatorsGet(t, p.admin+"/healthz"); a.status != http.StatusOK {
		t.Errorf("/healthz = %d; want 200", a.status)
	}
}

func TestH23_DamagedJobsAreRefusedUntilTheyAreRepaired(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	file := outageConfig(t, dir, s.URL, "")
	p := start(t, "--config", file)
	var paths []string
	for i := range 6 {
		paths = append(paths, later(t, fmt.Sprint(p.listen[0], "/later/", i), fmt.Sprint("Idempotency-Key: k", i)))
	}
	for _, path := range paths {
		result(t, p.listen[0], path)
	}
	p.signal(syscall.SIGKILL)
	<-p.exited
	blocks, _ := filepath.Glob(filepath.Join(dir, "jobs/jetstream/$G/streams/*/msgs/*.blk"))
	if len(blocks) == 0 {
		t.Fatal("there are no block files")
	}
	text, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(text)
	damaged[len(text)/2] ^= 4
	if err := os.WriteFile(blocks[0], damaged, 0o600); err != nil {
		t.Fatal(err)
	}

	p = start(t, "--config", file)
	p.wantOutage(t, "damaged", "Nothing has been changed", "weir jobs repair --dir")
	if now, _ := os.ReadFile(blocks[0]); !bytes.Equal(now, damaged) {
		t.Error("the damaged file was changed")
	}
	repair := run(t, nil, "jobs", "repair", "--config", file)
	<-repair.exited
	if code := repair.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("weir jobs repair ended with %d; want 0", code)
	}
	p.signal(syscall.SIGHUP)
	until(t, "/readyz is 200", func() bool { return operatorsGet(t, p.admin+"/readyz").status == http.StatusOK })
	path := later(t, p.listen[0]+"/later/again")
	if a := result(t, p.listen[0], path); a.status != http.StatusOK {
		t.Errorf("a job after the repair = %+v; want 200", a)
	}
	whole := 0
	for _, path := range paths {
		if a := jobCall(t, "GET", p.listen[0]+path+"/result", ""); a.status == http.StatusOK {
			whole++
		}
	}
	if whole < len(paths)-1 {
		t.Errorf("%d of %d jobs exist after the repair; want all but one", whole, len(paths))
	}
}

func TestH23_AFolderThatVanishesUnderTheProxyIsTold(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	p := start(t, "--config", outageConfig(t, dir, s.URL, ""))
	result(t, p.listen[0], later(t, p.listen[0]+"/later/1"))
	if err := os.RemoveAll(filepath.Join(dir, "jobs")); err != nil {
		t.Fatal(err)
	}
	until(t, "/readyz is 503", func() bool {
		return operatorsGet(t, p.admin+"/readyz").status == http.StatusServiceUnavailable
	})
	p.wantOutage(t, "vanished")
	p.signal(syscall.SIGKILL)
	<-p.exited
	p = start(t, "--config", filepath.Join(dir, "weir.yaml"))
	p.wantOutage(t, "missing", "weir jobs repair")
}

func TestH23_WithLittleDiskOnlyJobsAreRefused(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	p := start(t, "--config", outageConfig(t, dir, s.URL, ", min_free: 1TiB"))
	p.wantOutage(t, "full", "free")
}

func TestH23_AFolderThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	in := filepath.Join(dir, "jobs")
	if err := os.WriteFile(in, nil, 0o600); err != nil { // which root cannot use either
		t.Fatal(err)
	}
	p := start(t, "--config", outageConfig(t, dir, s.URL, ""))
	p.wantOutage(t, in)
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	until(t, "/readyz is 200", func() bool { return operatorsGet(t, p.admin+"/readyz").status == http.StatusOK })
	if a := result(t, p.listen[0], later(t, p.listen[0]+"/later/1")); a.status != http.StatusOK {
		t.Errorf("a job = %+v; want 200", a)
	}
}

// Whatever keeps the jobs from being opened, everything else is served, and the jobs are
// accepted once it is gone.
func TestH23_AStoreThatCannotBeOpenedEndsNoOtherRoute(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, c := range map[string]struct {
		more   string // of the section jobs
		hinder func(t *testing.T, dir string) (undo func())
		why    string
	}{
		"another process uses the folder": {hinder: func(t *testing.T, dir string) func() {
			if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(filepath.Join(dir, "jobs", "weir.lock"), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if err := flock(f); err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		}, why: "in use"},
		"another process has the port": {more: ", listen: 'PORT'", hinder: func(t *testing.T, dir string) func() {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "weir.yaml")
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, bytes.Replace(text, []byte("PORT"), []byte(l.Addr().String()), 1), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() { l.Close() }
		}, why: "address already in use"},
		"a foreign folder": {hinder: func(t *testing.T, dir string) func() {
			foreign := filepath.Join(dir, "jobs", "jetstream", "foreign")
			if err := os.MkdirAll(foreign, 0o700); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(foreign) }
		}, why: "not a file of the jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newShop(t), t.TempDir()
			file := outageConfig(t, dir, s.URL, c.more)
			undo := c.hinder(t, dir)
			p := start(t, "--config", file)
			p.wantOutage(t, c.why)
			undo()
			until(t, "/readyz is 200", func() bool { return operatorsGet(t, p.admin+"/readyz").status == http.StatusOK })
			if a := result(t, p.listen[0], later(t, p.listen[0]+"/later/1")); a.status != http.StatusOK {
				t.Errorf("a job = %+v; want 200", a)
			}
		})
	}
}

// A block that cannot be written to is noticed without a submit.
func TestH23_ABlockThatCannotBeWrittenIsNoticed(t *testing.T) {
	s, dir := newShop(t), t.TempDir()
	p := start(t, "--config", outageConfig(t, dir, s.URL, ""))
	result(t, p.listen[0], later(t, p.listen[0]+"/later/1"))
	blocks, err := filepath.Glob(filepath.Join(dir, "jobs/jetstream/$G/streams/*/msgs/*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("Glob = %v, %v; want blocks", blocks, err)
	}
	block := blocks[len(blocks)-1]
	if out, err := exec.Command("chattr", "+a", block).CombinedOutput(); err != nil {
		t.Skipf("WITHOUT chattr: %v, %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-a", block).Run() }) // or the folder could not be removed
	until(t, "/readyz names the block", func() bool {
		ready := operatorsGet(t, p.admin+"/readyz")
		return ready.status == http.StatusServiceUnavailable && strings.Contains(ready.body, filepath.Base(block))
	})
	began := time.Now()
	if a := jobCall(t, "POST", p.listen[0]+"/later/2", "in", "Prefer: respond-async"); a.status != http.StatusServiceUnavailable {
		t.Errorf("a job gets status %d; want 503", a.status)
	}
	t.Logf("it was refused after %v", time.Since(began))
	if a := jobCall(t, "GET", p.listen[0]+"/plain", ""); a.status != http.StatusOK {
		t.Errorf("/plain gets status %d; want 200", a.status)
	}
	if out, err := exec.Command("chattr", "-a", block).CombinedOutput(); err != nil {
		t.Fatalf("chattr: %v, %s", err, out)
	}
	until(t, "/readyz is 200", func() bool { return operatorsGet(t, p.admin+"/readyz").status == http.StatusOK })
	if a := result(t, p.listen[0], later(t, p.listen[0]+"/later/3")); a.status != http.StatusOK {
		t.Errorf("a job = %+v; want 200", a)
	}
}
