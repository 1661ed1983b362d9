package proxy_test

import (
	"context"
	"fmt"
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

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// queuedJobs is how many jobs are queued when the restart is measured.
const queuedJobs = 100_000

// BenchmarkRestart starts weir proxy on a folder with queued jobs, after an orderly
// stop and after kill -9. It measures how long it takes until the first call of a job
// reaches the upstream, and the peak memory of the process until then and after some
// thousand calls. It needs /proc. One run is enough:
//
//	go test ./proxy -run '^$' -bench Restart -benchtime 1x
func BenchmarkRestart(b *testing.B) {
	var calls atomic.Int64
	called := make(chan struct{}, 1)
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n := calls.Add(1); n == 1 || n == 5000 {
			called <- struct{}{}
		}
	}))
	defer origin.Close()
	dir := b.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	text := fmt.Sprintf(`
listen: [{address: 127.0.0.1:0}]
upstreams: [{name: a, servers: [%q]}]
routes: [{name: all, async: {max_queued: 1000000}}]
jobs: {dir: jobs}
`, origin.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, end := range []struct {
		name string
		sig  syscall.Signal
	}{{"stopped", syscall.SIGTERM}, {"killed", syscall.SIGKILL}} {
		b.Run(end.name, func(b *testing.B) {
			first, atStart, atWork := time.Duration(0), 0, 0
			restart := func() {
				calls.Store(0)
				cmd := exec.Command(os.Args[0], "proxy", "--config", file)
				cmd.Env = append(os.Environ(), asWeir+"=1")
				began := time.Now()
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				<-called
				first += time.Since(began)
				atStart = max(atStart, peakOf(b, cmd.Process.Pid))
				<-called
				atWork = max(atWork, peakOf(b, cmd.Process.Pid))
				if err := cmd.Process.Signal(end.sig); err != nil {
					b.Fatal(err)
				}
				_ = cmd.Wait() // killed
			}
			fill(b, filepath.Join(dir, "jobs"))
			if end.sig == syscall.SIGKILL {
				restart() // so that the files are those that a kill leaves behind
				fill(b, filepath.Join(dir, "jobs"))
				restart()
				first = 0
			}
			for b.Loop() {
				restart()
			}
			b.ReportMetric(first.Seconds()/float64(b.N), "s/first-call")
			b.ReportMetric(float64(atStart)/1024, "MiB-at-first-call")
			b.ReportMetric(float64(atWork)/1024, "MiB-at-work")
		})
	}
}

// fill queues jobs until there are queuedJobs of them.
func fill(b *testing.B, dir string) {
	b.Helper()
	server, err := embedded.Start(embedded.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close(context.Background())
	nc, err := server.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	store, err := jobs.Open(b.Context(), nc, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close(context.Background())
	service, err := jobshttp.New(store, jobshttp.Options{})
	if err != nil {
		b.Fatal(err)
	}
	route, err := service.Route(b.Context(), "all", http.NotFoundHandler(), jobshttp.RouteOptions{Queue: jobs.QueueOptions{MaxQueued: 10 * queuedJobs}})
	if err != nil {
		b.Fatal(err)
	}
	have, err := store.Count(b.Context(), "all")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(have.Queued + have.Started))
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= queuedJobs; n = next.Add(1) {
				r := httptest.NewRequest("POST", fmt.Sprint("http://shop.example/reports/", n), strings.NewReader(strings.Repeat("x", 1000)))
				r.Header.Set("Prefer", "respond-async")
				r.Header.Set("Idempotency-Key", fmt.Sprint(time.Now().UnixNano(), "-", n))
				w := httptest.NewRecorder()
				if route.ServeHTTP(w, r); w.Code != http.StatusAccepted {
					b.Errorf("job %d = %d %s; want 202", n, w.Code, w.Body)
					return
				}
			}
		})
	}
	wg.Wait()
}

// peakOf returns the peak memory of a process, in KiB.
func peakOf(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skipf("there is no /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatalf("VmHWM: %v", err)
	}
	return kib
}
