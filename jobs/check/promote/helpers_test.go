package promote_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/promote"
)

const (
	ms      = time.Millisecond
	patient = 30 * time.Second // longer than anything here should take
)

// within returns the test's context with a deadline, so that a hang fails the test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, tick := within(t), time.NewTicker(2*ms)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in %v: %s", patient, what)
		}
	}
}

// openIn opens the jobs in a folder. The returned function closes them, as happens
// when a process ends.
func openIn(t *testing.T, dir string) (*jobs.Store, func()) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: dir, Durability: jobs.DurabilityProcess})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	store, err := jobs.Open(within(t), nc, jobs.StoreOptions{Durability: server.Durability()})
	if err != nil {
		t.Fatal(err)
	}
	return store, func() {
		store.Close(context.Background())
		nc.Close()
		server.Close(context.Background())
	}
}

func open(t *testing.T) *jobs.Store {
	t.Helper()
	store, end := openIn(t, t.TempDir())
	t.Cleanup(end)
	return store
}

func newQueue(t *testing.T, s *jobs.Store, o jobs.QueueOptions) *jobs.Queue[string, string] {
	t.Helper()
	q, err := jobs.NewQueue[string, string](within(t), s, "calls", o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func newGuard(t *testing.T, s *source, o weir.Options) *weir.Guard[string, string] {
	t.Helper()
	g, err := weir.New(s.load, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(context.Background()) })
	return g
}

func newPromoter(t *testing.T, g *weir.Guard[string, string], q *jobs.Queue[string, string], o promote.Options[string]) *promote.Promoter[string, string] {
	t.Helper()
	p, err := promote.New(g, q, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

func work(t *testing.T, p *promote.Promoter[string, string]) *jobs.Worker {
	t.Helper()
	w, err := p.Work(jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopNow(w) })
	return w
}

// stopNow stops a worker at once, which hands back the jobs in progress.
func stopNow(w *jobs.Worker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.Close(ctx)
}

// A source completes each load when the test says so.
type source struct {
	loads   atomic.Int64
	left    atomic.Int64 // loads that were canceled
	started chan string  // the key of each
	answers chan func() (string, error)
}

func newSource() *source {
	return &source{started: make(chan string, 1000), answers: make(chan func() (string, error), 1000)}
}

func (s *source) load(ctx context.Context, key string) (string, error) {
	s.loads.Add(1)
	s.started <- key
	select {
	case answer := <-s.answers:
		return answer()
	case <-ctx.Done():
		s.left.Add(1)
		return "", context.Cause(ctx)
	}
}

// says completes one load.
func (s *source) says(value string, err error) {
	s.answers <- func() (string, error) { return value, err }
}

func (s *source) starts(t *testing.T) {
	t.Helper()
	select {
	case <-s.started:
	case <-within(t).Done():
		t.Fatal("no load started")
	}
}

// got checks the results of a Get.
func got(t *testing.T, v string, job *jobs.Handle[string], err error, want string) {
	t.Helper()
	if v != want || job != nil || err != nil {
		t.Errorf("Get = %q, %v, %v; want %q, no job, no error", v, job, err, want)
	}
}

// promoted calls Get with a short budget, and requires a job.
func promoted(t *testing.T, p *promote.Promoter[string, string], key string) *jobs.Handle[string] {
	t.Helper()
	v, job, err := p.GetWithin(within(t), key, 5*ms)
	if v != "" || job == nil || err != nil {
		t.Fatalf("GetWithin(%q, 5ms) = %q, %v, %v; want a job", key, v, job, err)
	}
	return job
}

// result waits for a job's result.
func result(t *testing.T, job *jobs.Handle[string], want string) {
	t.Helper()
	if v, err := job.Wait(within(t)); v != want || err != nil {
		t.Fatalf("Wait = %q, %v; want %q", v, err, want)
	}
}

func wantLoads(t *testing.T, s *source, want int64) {
	t.Helper()
	if n := s.loads.Load(); n != want {
		t.Errorf("%d loads; want %d", n, want)
	}
}
