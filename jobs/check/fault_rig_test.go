package jobs_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// The files fault_*_test.go break what jobs depend on: the server, its disk, the
// connection to it, clocks, programs of other versions, and handlers. They use real
// servers in separate processes.

func TestMain(m *testing.M) {
	if addr := os.Getenv(faultWorkerVariable); addr != "" {
		faultWorker(addr)
		return
	}
	if beAnother() {
		return
	}
	natstest.Main(m)
}

// beAnother is set by tests that need the test binary to act as another process. It
// reports whether it did.
var beAnother = func() bool { return false }

// faultPatience is how long a test waits for something that must happen, on a busy
// machine.
const faultPatience = 30 * time.Second

type (
	faultQueue  = jobs.Queue[string, string]
	faultHandle = jobs.Handle[string]
	faultJob    = jobs.Job[string]
)

// faultStore opens a store over a connection, for the duration of the test.
func faultStore(t *testing.T, nc *nats.Conn, o jobs.StoreOptions) *jobs.Store {
	t.Helper()
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	s, err := jobs.Open(t.Context(), nc, o)
	// The tests use a short Timeout, which can be too short on a slow machine.
	for tries := 0; errors.Is(err, jobs.ErrUnavailable) && tries < 20; tries++ {
		s, err = jobs.Open(t.Context(), nc, o)
	}
	if err != nil {
		t.Fatalf("Open(%+v) = %v; want a store", o, err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close = %v; want nil", err)
		}
	})
	return s
}

func faultNewQueue(t *testing.T, s *jobs.Store, o jobs.QueueOptions) *faultQueue {
	t.Helper()
	if o.RetryInitial == 0 {
		o.RetryInitial = 20 * time.Millisecond
	}
	if o.Lease == 0 {
		// A long lease, so that no job starts again because of a late heartbeat.
		// Tests that need a lease to expire set a shorter one.
		o.Lease = faultPatience
	}
	q, err := jobs.NewQueue[string, string](t.Context(), s, "fault", o)
	for tries := 0; errors.Is(err, jobs.ErrUnavailable) && tries < 20; tries++ {
		q, err = jobs.NewQueue[string, string](t.Context(), s, "fault", o)
	}
	if err != nil {
		t.Fatalf("NewQueue = %v; want a queue", err)
	}
	return q
}

// faultWork starts a worker that is stopped without waiting at the end of the test.
func faultWork(t *testing.T, q *faultQueue, o jobs.WorkerOptions, h jobs.Handler[string, string]) *jobs.Worker {
	t.Helper()
	w, err := q.Work(h, o)
	if err != nil {
		t.Fatalf("Work = %v; want a worker", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.Close(ctx) // the error only reports that Close did not wait
	})
	return w
}

func faultSubmit(t *testing.T, q *faultQueue, in string, o jobs.SubmitOptions) *faultHandle {
	t.Helper()
	h, err := q.Submit(t.Context(), in, o)
	for tries := 0; errors.Is(err, jobs.ErrUnavailable) && o.Key != "" && tries < 20; tries++ {
		h, err = q.Submit(t.Context(), in, o)
	}
	if err != nil {
		t.Fatalf("Submit(%.20q) = %v; want a job", in, err)
	}
	return h
}

// faultWantIdle waits until the only queue has nothing to do. That can be later than
// the last result: an acknowledgement that was lost with the server is repeated when
// the item is delivered again, after the lease.
func faultWantIdle(t *testing.T, s *jobs.Store) {
	t.Helper()
	end := time.After(faultPatience)
	for {
		q, err := s.Queues(t.Context())
		if err == nil && len(q) == 1 && q[0].Waiting+q[0].Taken == 0 {
			return
		}
		select {
		case <-end:
			t.Errorf("Queues = %+v, %v; want one with nothing to do", q, err)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func faultWait(t *testing.T, h *faultHandle) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), faultPatience)
	defer cancel()
	return h.Wait(ctx)
}

func faultWantResult(t *testing.T, h *faultHandle, want string) {
	t.Helper()
	if got, err := faultWait(t, h); got != want || err != nil {
		t.Errorf("Wait(%s) = %q, %v; want %q, nil", h.ID(), got, err, want)
	}
}

// faultWantDead waits until a job dies, and returns its status.
func faultWantDead(t *testing.T, h *faultHandle, attempts int, why string) jobs.Status {
	t.Helper()
	_, err := faultWait(t, h)
	var job *jobs.JobError
	if !errors.As(err, &job) || job.State != jobs.StateDead || job.Attempt != attempts || !strings.Contains(job.Message, why) {
		t.Errorf("Wait(%s) = %v; want a *JobError that is dead after %d attempts: %s", h.ID(), err, attempts, why)
	}
	return faultStatus(t, h)
}

func faultStatus(t *testing.T, h *faultHandle) jobs.Status {
	t.Helper()
	st, err := h.Status(t.Context())
	if err != nil {
		t.Errorf("Status(%s) = %v; want nil", h.ID(), err)
	}
	return st
}

// faultWantFull fails the test unless err reports a full store.
func faultWantFull(t *testing.T, err error) {
	t.Helper()
	var full *jobs.FullError
	if !errors.As(err, &full) || !errors.Is(err, jobs.ErrFull) || full.Reason != jobs.FullStore || full.RetryAfter <= 0 || full.Queue != "fault" {
		t.Fatalf("Submit to a full store = %v; want a *FullError for the queue with Reason %q and a RetryAfter", err, jobs.FullStore)
	}
}

// faultWantJobs fails the test unless the queue has n jobs, in any state.
func faultWantJobs(t *testing.T, s *jobs.Store, n int) {
	t.Helper()
	list, err := s.List(t.Context(), jobs.Filter{Limit: n + 10})
	if err != nil || len(list) != n {
		t.Errorf("List = %d jobs, %v; want %d, nil", len(list), err, n)
	}
}

// faultEventually waits until holds returns true.
func faultEventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(faultPatience)
	for !holds() {
		select {
		case <-late:
			t.Fatalf("not within %v: %s", faultPatience, what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func faultEcho(_ context.Context, j *faultJob) (string, error) { return "of " + j.Input, nil }

// A faultProxy is a proxy between a connection and the server. It can be cut, and it
// can change the server's clock.
type faultProxy struct {
	t      testing.TB
	l      net.Listener
	server string

	years atomic.Int64 // years added to the server's clock
	lose  atomic.Int64 // how many of the next acknowledgements of writes are lost

	mu    sync.Mutex
	cut   bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu; both sides of each
	all   sync.WaitGroup
}

func newFaultProxy(t *testing.T, url string) *faultProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{t: t, l: l, server: strings.TrimPrefix(url, "nats://"), conns: make(map[net.Conn]struct{})}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		p.Cut()
		l.Close()
		p.all.Wait()
	})
	return p
}

// connect returns a connection through the proxy.
func (p *faultProxy) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+p.l.Addr().String(), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Cut cuts all connections through the proxy, and blocks new ones until Mend.
func (p *faultProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		c.Close()
	}
}

// Mend lets connections through again.
func (p *faultProxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *faultProxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil || !p.add(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.all.Go(func() { p.copy(server, client, nil) })
		p.all.Go(func() { p.copy(client, server, p.change) })
	}
}

func (p *faultProxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *faultProxy) copy(to, from net.Conn, change func([]byte) []byte) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	kept := 0 // bytes at the front that were read but not yet written
	for {
		n, err := from.Read(buf[kept:])
		out, rest := buf[:kept+n], []byte(nil)
		if change != nil && err == nil {
			rest = change(out)
		}
		if _, werr := to.Write(out[:len(out)-len(rest)]); werr != nil || err != nil {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
				p.t.Logf("proxy: %v", err)
			}
			return
		}
		kept = copy(buf, rest)
	}
}

// change changes what the server sends, see shift.
func (p *faultProxy) change(b []byte) []byte {
	for _, m := range faultAck.FindAllSubmatchIndex(b, -1) {
		if p.lose.Add(-1) < 0 {
			p.lose.Store(0)
			break
		}
		b[m[2]] = '!'
	}
	return p.shift(b)
}

// An acknowledgement of a write. Its response subject ends with a number; with another
// character there, the client gets it and knows no write that it belongs to.
var faultAck = regexp.MustCompile(`MSG _INBOX\.[^ ]*([0-9a-z]) [0-9]+ [0-9]+\r\n\{"stream":"[^"]*","seq":`)

// The server reports its time in the info of a stream, and nowhere else in this
// format. The digits of the year are changed in place, so that byte counts in the
// protocol stay correct.
var faultClock = regexp.MustCompile(`"ts":"([0-9]{4})-`)

// shift changes the years in b. It returns the length of the end of b that may be the
// beginning of another match.
func (p *faultProxy) shift(b []byte) []byte {
	years := int(p.years.Load())
	for _, m := range faultClock.FindAllSubmatchIndex(b, -1) {
		year, _ := strconv.Atoi(string(b[m[2]:m[3]])) // four digits
		copy(b[m[2]:m[3]], strconv.Itoa(year+years))
	}
	tail := b[max(0, len(b)-len(`"ts":"2026`)):]
	for i := range tail {
		if strings.HasPrefix(`"ts":"`, string(tail[i:])) || strings.HasPrefix(string(tail[i:]), `"ts":"`) {
			return tail[i:]
		}
	}
	return nil
}
