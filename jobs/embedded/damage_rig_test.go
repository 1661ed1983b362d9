package embedded_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// A ward is a store with jobs in all states, as a killed process leaves it.
type ward struct {
	dir   string            // contains the folder and its mark
	ids   map[string]string // of jobs, keyed by name: done-1, queued-7, unsafe-running-2
	fence uint64            // the highest fence so far

	unlisted bool // only the number of jobs is known, not which they were
}

const wardLease = 200 * time.Millisecond

// With wardSizes, the jobs fill several blocks of the stream.
const (
	wardBytes = 64 << 20
	wardInput = 250 << 10
)

func wardQueues(t *testing.T, s *embedded.Server) (safe, unsafe *jobs.Queue[string, string], store *jobs.Store) {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	store, err = jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: jobs.DurabilityDisk, MaxBytes: wardBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	open := func(name string, attempts int) *jobs.Queue[string, string] {
		q, err := jobs.NewQueue[string, string](t.Context(), store, name, jobs.QueueOptions{
			Lease: wardLease, MaxAttempts: attempts, RetryInitial: time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	return open("safe", 5), open("unsafe", 1), store
}

// newWard creates the store once, and returns a copy of it.
func newWard(t *testing.T) *ward {
	t.Helper()
	wardOnce.Do(func() { buildWard(t) })
	if wardMade == nil {
		t.Fatal("the store could not be created")
	}
	w := *wardMade
	w.dir = t.TempDir()
	copyTree(t, wardMade.dir, w.dir)
	return &w
}

var (
	wardOnce sync.Once
	wardMade *ward
	wardRoot string // removed by TestMain
)

func (w *ward) folder() string { return filepath.Join(w.dir, "jobs") }

func buildWard(t *testing.T) {
	t.Helper()
	live := t.TempDir()
	folder := filepath.Join(live, "jobs")
	s := start(t, embedded.Options{Dir: folder})
	safe, unsafe, _ := wardQueues(t, s)
	w := &ward{ids: map[string]string{}}
	block := make(chan struct{})
	running := make(chan uint64, 100)
	handler := func(ctx context.Context, j *jobs.Job[string]) (string, error) {
		if strings.HasPrefix(j.Input, "block") {
			running <- j.Fence
			select {
			case <-block:
			case <-ctx.Done():
			}
			return "", ctx.Err()
		}
		return j.Input, nil
	}
	submit := func(q *jobs.Queue[string, string], what, input string, o jobs.SubmitOptions) *jobs.Handle[string] {
		h, err := q.Submit(t.Context(), input+strings.Repeat("x", wardInput), o)
		if err != nil {
			t.Fatalf("Submit(%s) = %v; want nil", what, err)
		}
		w.ids[what] = h.ID()
		return h
	}
	work := func(q *jobs.Queue[string, string], n int) {
		worker, err := q.Work(handler, jobs.WorkerOptions{Concurrency: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = worker.Close(context.Background()) }) // a failure no longer matters
	}
	work(safe, 3)
	work(unsafe, 3)
	t.Cleanup(func() { close(block) }) // runs before the workers are stopped
	var done []*jobs.Handle[string]
	for i := range 4 {
		done = append(done, submit(safe, fmt.Sprint("done-", i), "go", jobs.SubmitOptions{}),
			submit(safe, fmt.Sprint("keyed-", i), "go", jobs.SubmitOptions{Key: fmt.Sprint("key", i)}),
			submit(unsafe, fmt.Sprint("unsafe-done-", i), "go", jobs.SubmitOptions{}))
	}
	for _, h := range done {
		if _, err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		submit(safe, fmt.Sprint("running-", i), "block", jobs.SubmitOptions{})
		submit(unsafe, fmt.Sprint("unsafe-running-", i), "block", jobs.SubmitOptions{})
	}
	for range 6 {
		w.fence = max(w.fence, <-running)
	}
	for i := range 4 { // occupies all slots
		submit(safe, fmt.Sprint("queued-", i), "go", jobs.SubmitOptions{})
		submit(unsafe, fmt.Sprint("unsafe-queued-", i), "go", jobs.SubmitOptions{})
	}
	eventually(t, "the mark beside the folder", func() bool { _, err := os.Stat(folder + ".mark"); return err == nil })
	root, err := os.MkdirTemp("", "weir-ward-")
	if err != nil {
		t.Fatal(err)
	}
	wardRoot = root
	// The ledger is copied before the stream that it describes, because both are
	// still being written.
	copyTree(t, filepath.Join(folder, "weir.ledger"), filepath.Join(root, "jobs", "weir.ledger"))
	copyTree(t, filepath.Join(folder, "jetstream"), filepath.Join(root, "jobs", "jetstream"))
	mark, err := os.ReadFile(folder + ".mark")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "jobs.mark"), mark, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.dir = root
	wardMade = w
}

// copyTree copies a folder. Files that change during the copy are copied in their
// current state, as a killed process would leave them.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// treeSum returns a checksum of a tree, without the file that names the process that
// uses the folder.
func treeSum(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "weir.lock" {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprintln(h, rel)
		if d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		h.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// fileSum returns a checksum of a file.
func fileSum(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// files returns the files in the folder that match the pattern.
func (w *ward) files(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(w.folder(), pattern))
	if err != nil || len(all) == 0 {
		t.Fatalf("Glob(%s) = %v, %v; want files", pattern, all, err)
	}
	return all
}

const (
	streamFiles = "jetstream/$G/streams/*"
	blockFiles  = streamFiles + "/msgs/*.blk"
)

// A stay is the outcome of starting a server on a store.
type stay struct {
	err  error
	logs string
}

// open starts a server on the store, and if that succeeds runs all jobs to their end.
// It fails the test in all cases but two: either all jobs are there and end, or the
// server does not start, has changed nothing, and says what to do.
func (w *ward) open(t *testing.T, what string) stay {
	t.Helper()
	before := treeSum(t, w.dir)
	var logs bytes.Buffer
	s, err := embedded.Start(embedded.Options{Dir: w.folder(), Log: slog.New(slog.NewTextHandler(&logs, nil))})
	if err != nil {
		if after := treeSum(t, w.dir); after != before {
			t.Errorf("%s: Start = %v, but it changed files", what, err)
		}
		w.wantAdvice(t, what, err)
		return stay{err: err}
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // if the test fails before it is closed
	w.wantAll(t, what, s, w.ids)
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("%s: Close = %v", what, err)
	}
	return stay{logs: logs.String()}
}

// wantAdvice fails the test unless an error says how much is missing, since when, and
// what to do.
func (w *ward) wantAdvice(t *testing.T, what string, err error) {
	t.Helper()
	var d *embedded.DamageError
	if !errors.As(err, &d) {
		t.Errorf("%s: Start = %v; want a DamageError", what, err)
		return
	}
	for _, part := range []string{w.folder(), "Nothing has been changed", "weir jobs repair --dir", "--dry-run"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: Start = %v; want it to contain %q", what, err, part)
		}
	}
	for _, s := range d.Report.Streams {
		if len(s.Missing) > 0 && (!strings.Contains(err.Error(), " of ") || !strings.Contains(err.Error(), "since 2")) {
			t.Errorf("%s: Start = %v; want how many jobs are missing, and since when", what, err)
		}
	}
}

// wantAll fails the test unless the jobs are there, and all end.
func (w *ward) wantAll(t *testing.T, what string, s *embedded.Server, ids map[string]string) {
	t.Helper()
	safe, unsafe, store := wardQueues(t, s)
	queueOf := func(name string) *jobs.Queue[string, string] {
		if strings.HasPrefix(name, "unsafe") {
			return unsafe
		}
		return safe
	}
	for name, id := range ids {
		st, err := queueOf(name).Job(id).Status(t.Context())
		if err != nil {
			t.Errorf("%s: job %s = %v; want the job", what, name, err)
			continue
		}
		want := jobs.StateQueued
		switch {
		case strings.Contains(name, "running"):
			want = jobs.StateRunning
		case strings.Contains(name, "done"), strings.Contains(name, "keyed"):
			want = jobs.StateDone
		}
		if st.State != want {
			t.Errorf("%s: job %s is %v; want %v", what, name, st.State, want)
		}
	}
	w.finish(t, what, safe, unsafe, store)
}

// finish runs workers until no job is left. No unsafe job that had begun may run
// again, and each fence must be higher than all before it.
func (w *ward) finish(t *testing.T, what string, safe, unsafe *jobs.Queue[string, string], store *jobs.Store) {
	t.Helper()
	had := map[string]bool{}
	for name, id := range w.ids {
		if strings.HasPrefix(name, "unsafe-running") || strings.HasPrefix(name, "unsafe-done") {
			had[id] = true
		}
	}
	handler := func(_ context.Context, j *jobs.Job[string]) (string, error) {
		if had[j.ID] {
			t.Errorf("%s: unsafe job %s ran again", what, j.ID)
		}
		if j.Fence <= w.fence {
			t.Errorf("%s: fence %d after fence %d", what, j.Fence, w.fence)
		}
		return "", nil
	}
	var workers []*jobs.Worker
	for _, q := range []*jobs.Queue[string, string]{safe, unsafe} {
		worker, err := q.Work(handler, jobs.WorkerOptions{Concurrency: 16})
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, worker)
	}
	eventually(t, what+": no job is queued or running", func() bool {
		all, err := store.Queues(t.Context())
		for _, q := range all {
			if q.Waiting+q.Taken > 0 {
				return false
			}
		}
		return err == nil
	})
	left, err := store.List(t.Context(), jobs.Filter{States: []jobs.State{jobs.StateQueued, jobs.StateRunning, jobs.StateRetrying}})
	if err != nil || len(left) > 0 {
		t.Errorf("%s: %d unfinished jobs, %v; want none", what, len(left), err)
	}
	var stops sync.WaitGroup
	for _, worker := range workers {
		stops.Go(func() {
			if err := worker.Close(t.Context()); err != nil {
				t.Errorf("%s: Stop = %v", what, err)
			}
		})
	}
	stops.Wait()
}

// repaired repairs the store. It fails the test unless the store then works, with all
// jobs that are not reported as missing.
func (w *ward) repaired(t *testing.T, what string, o embedded.RepairOptions) *embedded.Report {
	t.Helper()
	before := treeSum(t, w.dir)
	dry, err := embedded.Repair(w.folder(), embedded.RepairOptions{DryRun: true, Restored: o.Restored})
	if err != nil {
		t.Fatalf("%s: Repair with DryRun = %v; want nil", what, err)
	}
	if after := treeSum(t, w.dir); after != before || dry.Changed {
		t.Errorf("%s: Repair with DryRun changed files", what)
	}
	r, err := embedded.Repair(w.folder(), o)
	if err != nil {
		t.Fatalf("%s: Repair = %v; want nil", what, err)
	}
	lost := map[string]bool{}
	for i, s := range r.Streams {
		if len(s.Missing) != len(dry.Streams[i].Missing) {
			t.Errorf("%s: Repair reports %d missing; want %d, as in the dry run", what, len(s.Missing), len(dry.Streams[i].Missing))
		}
		for _, m := range s.Missing {
			lost[m.ID] = true
		}
	}
	whole := map[string]string{}
	for name, id := range w.ids {
		if !lost[id] && !w.unlisted {
			whole[name] = id
		}
	}
	s, err := embedded.Start(embedded.Options{Dir: w.folder()})
	if err != nil {
		t.Fatalf("%s: Start after Repair = %v; want nil", what, err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	w.wantAll(t, what+", repaired", s, whole)
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return r
}
