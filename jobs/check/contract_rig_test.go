package jobs_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// The files contract_*_test.go check package jobs against its contract
// (docs/goals.md), point by point: TestJ1 is about J1. Each test runs against a
// separate real server. If a worker must die, it runs in another process.

// patience is how long a test waits for something that must happen. An idle machine
// takes a fraction of that.
//
// If a job must not be started twice, its lease is longer than the longest delay of a
// heartbeat on a busy machine. A worker that is not heard of for a whole lease may
// lose its job to another.
const patience = 30 * time.Second

// A contractRig is a server with a store, for one test.
type contractRig struct {
	*testing.T
	server *embedded.Server // nil: it is in a separate process
	apart  *contractChild
	addr   string
	o      embedded.Options
	store  *jobs.Store
}

type (
	stringQueue  = jobs.Queue[string, string]
	stringHandle = jobs.Handle[string]
	stringJob    = jobs.Job[string]
)

// contract starts a server for the test. It uses level process, which is the fastest.
func contract(t *testing.T) *contractRig { return contractOf(t, jobs.DurabilityProcess) }

func contractOf(t *testing.T, d jobs.Durability) *contractRig {
	t.Helper()
	t.Parallel()
	return contractWith(t, d)
}

// contractInOneTest starts a server for a test that needs several.
func contractInOneTest(t *testing.T) *contractRig {
	t.Helper()
	return contractWith(t, jobs.DurabilityProcess)
}

func contractWith(t *testing.T, d jobs.Durability) *contractRig {
	t.Helper()
	r := &contractRig{T: t, o: embedded.Options{Dir: t.TempDir(), Durability: d, Listen: "127.0.0.1:0"}}
	r.start()
	r.addr = r.server.Addr()
	r.o.Listen = strings.TrimPrefix(r.addr, "nats://") // the same after a restart
	t.Cleanup(func() { r.server.Close(context.Background()) })
	r.store = r.open(jobs.StoreOptions{})
	return r
}

// contractWithServerApart runs the server in another process.
func contractWithServerApart(t *testing.T) *contractRig {
	t.Helper()
	r := &contractRig{T: t, o: embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess, Listen: "127.0.0.1:0"}}
	r.startApart()
	r.store = r.open(jobs.StoreOptions{})
	return r
}

func (r *contractRig) startApart() {
	r.Helper()
	r.apart = r.child(childTask{Do: "serve", Server: r.o})
	r.addr = r.apart.line("serving")
	r.o.Listen = strings.TrimPrefix(r.addr, "nats://")
}

// killServer kills the server in the other process, and starts it again.
func (r *contractRig) killServer() {
	r.Helper()
	r.apart.kill()
	r.startApart()
}

func (r *contractRig) start() {
	r.Helper()
	s, err := embedded.Start(r.o)
	if err != nil {
		r.Fatalf("embedded.Start = %v; want a server", err)
	}
	r.server = s
}

// restart stops the server and starts it again with the same folder and port.
func (r *contractRig) restart() {
	r.Helper()
	if err := r.server.Close(context.Background()); err != nil {
		r.Fatalf("Close of the server = %v; want nil", err)
	}
	r.start()
}

// open returns a store with a separate connection, as another program would have.
func (r *contractRig) open(o jobs.StoreOptions) *jobs.Store {
	r.Helper()
	store, end, err := contractOpen(r.addr, o, r.o.Durability)
	if err != nil {
		r.Fatalf("Open = %v; want a store", err)
	}
	r.Cleanup(end)
	return store
}

func contractOpen(addr string, o jobs.StoreOptions, d jobs.Durability) (*jobs.Store, func(), error) {
	nc, err := nats.Connect(addr, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	if o.Durability == 0 {
		o.Durability = d
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := jobs.Open(ctx, nc, o)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return s, func() { s.Close(context.Background()); nc.Close() }, nil
}

// queue returns a queue of strings with short times.
func (r *contractRig) queue(o jobs.QueueOptions) *stringQueue {
	r.Helper()
	return r.queueOn(r.store, o)
}

func (r *contractRig) queueOn(s *jobs.Store, o jobs.QueueOptions) *stringQueue {
	r.Helper()
	if o.RetryInitial == 0 {
		o.RetryInitial = 10 * time.Millisecond
	}
	ctx, cancel := r.soon()
	defer cancel()
	q, err := jobs.NewQueue[string, string](ctx, s, "q", o)
	if err != nil {
		r.Fatalf("NewQueue = %v; want a queue", err)
	}
	return q
}

// work starts a worker, and stops it at the end of the test.
func (r *contractRig) work(q *stringQueue, o jobs.WorkerOptions, h jobs.Handler[string, string]) *jobs.Worker {
	r.Helper()
	w, err := q.Work(h, o)
	if err != nil {
		r.Fatalf("Work = %v; want a worker", err)
	}
	r.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // Stop does not wait for jobs that the test left running
		w.Close(ctx)
	})
	return w
}

func (r *contractRig) submit(q *stringQueue, in string, o jobs.SubmitOptions) *stringHandle {
	r.Helper()
	ctx, cancel := r.soon()
	defer cancel()
	h, err := q.Submit(ctx, in, o)
	if err != nil {
		r.Fatalf("Submit(%q, %+v) = %v; want a job", in, o, err)
	}
	return h
}

func (r *contractRig) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// wait calls Wait, for as long as a test has patience.
func (r *contractRig) wait(h *stringHandle) (string, error) {
	ctx, cancel := r.soon()
	defer cancel()
	return h.Wait(ctx)
}

func (r *contractRig) wantResult(h *stringHandle, want string) {
	r.Helper()
	if got, err := r.wait(h); got != want || err != nil {
		r.Fatalf("Wait(%s) = %q, %v; want %q, nil", h.ID(), got, err, want)
	}
}

// wantError waits for a job that fails or dies.
func (r *contractRig) wantError(h *stringHandle, want jobs.State) *jobs.JobError {
	r.Helper()
	_, err := r.wait(h)
	var job *jobs.JobError
	if !errors.As(err, &job) || job.State != want || job.ID != h.ID() {
		r.Fatalf("Wait(%s) = %v; want a *JobError that is %v", h.ID(), err, want)
	}
	return job
}

func (r *contractRig) status(h *stringHandle) jobs.Status {
	r.Helper()
	ctx, cancel := r.soon()
	defer cancel()
	s, err := h.Status(ctx)
	if err != nil {
		r.Fatalf("Status(%s) = %v; want a Status", h.ID(), err)
	}
	return s
}

func (r *contractRig) cancel(h *stringHandle) error {
	ctx, cancel := r.soon()
	defer cancel()
	return h.Cancel(ctx)
}

// eventually waits until ok returns true.
func (r *contractRig) eventually(what string, ok func() bool) {
	r.Helper()
	late := time.After(patience)
	for !ok() {
		select {
		case <-late:
			r.Fatalf("after %v it is still not true that %s", patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// pass waits in real time, while something must not happen.
func (r *contractRig) pass(d time.Duration) { <-time.After(d) }

// A contractLog records what handlers have seen.
type contractLog struct {
	mu   sync.Mutex
	seen []stringJob // guarded by mu
	at   []time.Time // guarded by mu
}

func (l *contractLog) add(j *stringJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.at = append(l.seen, *j), append(l.at, time.Now())
}

func (l *contractLog) all() []stringJob {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// count returns how many attempts of jobs with this input there were.
func (l *contractLog) count(in string) (n int) {
	for _, j := range l.all() {
		if j.Input == in {
			n++
		}
	}
	return n
}

// echo logs the job and returns its input.
func (l *contractLog) echo(_ context.Context, j *stringJob) (string, error) {
	l.add(j)
	return j.Input, nil
}

// A contractChild is another process: this test binary, started again.
type contractChild struct {
	r     *contractRig
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // lines of its output
}

// A childTask says what the child does.
type childTask struct {
	Do         string // "work", "limited", "wait" or "serve"
	Server     embedded.Options
	Addr       string
	ID         string // of the job to wait for
	Durability jobs.Durability
	Lease      time.Duration
	KeyLimit   jobs.KeyLimit
}

const childVariable = "WEIR_JOBS_CONTRACT"

// The child's part runs before flags are parsed and before any test.
func init() {
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	var task childTask
	err := json.Unmarshal([]byte(text), &task)
	if err == nil {
		err = task.run()
	}
	if err != nil {
		fmt.Println("error:", err)
	}
	os.Exit(0)
}

func (task childTask) run() error {
	if task.Do == "serve" {
		s, err := embedded.Start(task.Server)
		if err != nil {
			return err
		}
		fmt.Println("serving", s.Addr())
		select {} // until it is killed
	}
	store, end, err := contractOpen(task.Addr, jobs.StoreOptions{}, task.Durability)
	if err != nil {
		return err
	}
	defer end()
	if task.Do == "limited" {
		return task.workLimited(store)
	}
	q, err := jobs.NewQueue[string, string](context.Background(), store, "q", jobs.QueueOptions{Lease: task.Lease, RetryInitial: 10 * time.Millisecond, KeyLimit: task.KeyLimit})
	if err != nil {
		return err
	}
	if task.Do == "wait" {
		fmt.Println("waiting")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		result, err := q.Job(task.ID).Wait(ctx)
		fmt.Printf("result %q %v\n", result, err)
		return nil
	}
	// An attempt prints that it has started, and ends when it reads a line, whatever
	// happens to its context.
	told := bufio.NewScanner(os.Stdin)
	_, err = q.Work(func(ctx context.Context, j *stringJob) (string, error) {
		fmt.Println("attempt", j.Attempt, j.Fence)
		told.Scan()
		return "of the child", nil
	}, jobs.WorkerOptions{Concurrency: 1, Observer: onEnd{end: func(e attemptEnd) { fmt.Println("event", e.Kind) }}})
	if err != nil {
		return err
	}
	fmt.Println("working")
	select {} // until it is killed
}

func (r *contractRig) child(task childTask) *contractChild {
	r.Helper()
	task.Addr, task.Durability = r.addr, r.o.Durability
	text, err := json.Marshal(task)
	if err != nil {
		r.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	c := &contractChild{r: r, cmd: exec.Command(exe), lines: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		r.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() { // ends when the child's output ends
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	r.Cleanup(c.kill)
	return c
}

// kill kills the child. It may be called more than once.
func (c *contractChild) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// line waits for a line with this prefix, and returns the rest of it.
func (c *contractChild) line(prefix string) string {
	c.r.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-c.lines:
			if rest, found := strings.CutPrefix(line, prefix); found {
				return strings.TrimSpace(rest)
			}
			if !ok {
				c.r.Fatalf("the other process ended without printing %q", prefix)
			}
		case <-late:
			c.r.Fatalf("after %v the other process has not printed %q", patience, prefix)
		}
	}
}

// contractID returns the ID of a job with a key, in the queue that all these tests
// use: the first 128 bits of the SHA-256 of the namespace, the queue and the key.
func contractID(key string) string {
	sum := sha256.Sum256([]byte(jobs.DefaultNamespace + "\x00q\x00" + key))
	return hex.EncodeToString(sum[:16])
}
