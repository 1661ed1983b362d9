package jobs_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// The tests in this file stop a worker's process (SIGSTOP) before one of the messages
// that it sends, let another worker have its job, and then continue the first worker.
// They do this for each message in turn, so that every instant between two writes is
// covered.

// pausedVariable tells the test binary to be the worker that is stopped. It contains
// the server's address and the name of a pauseCase.
const pausedVariable = "WEIR_JOBS_PAUSED_WORKER"

func init() {
	beAnother = func() bool {
		config := os.Getenv(pausedVariable)
		if config == "" {
			return false
		}
		if err := pausedWorker(config); err != nil {
			fmt.Fprintln(os.Stderr, "paused worker:", err)
			os.Exit(1)
		}
		return true
	}
}

// pauseLease is long enough for a heartbeat on a busy machine.
const pauseLease = 3 * time.Second

// A pauseCase is one way in which the first worker handles a job.
type pauseCase struct {
	name   string
	queue  jobs.QueueOptions
	submit jobs.SubmitOptions
	// messages is how many messages are tried. If the worker sends fewer, the
	// remaining tries stop nothing.
	messages int
	// handle is what the stopped worker does in its nth attempt, counted from 1.
	handle func(ctx context.Context, n int) error
}

func pauseCases() []pauseCase {
	quick := func(context.Context, int) error { return nil }
	delayed := jobs.SubmitOptions{Delay: 300 * time.Millisecond}
	return []pauseCase{
		{name: "delayed", messages: 5, queue: jobs.QueueOptions{MaxAttempts: 5}, submit: delayed, handle: quick},
		{name: "delayed once", messages: 5, queue: jobs.QueueOptions{MaxAttempts: 1}, submit: delayed, handle: quick},
		{name: "plain", messages: 4, queue: jobs.QueueOptions{MaxAttempts: 5}, handle: quick},
		{name: "serial", messages: 5, queue: jobs.QueueOptions{MaxAttempts: 5}, submit: jobs.SubmitOptions{Serial: "one"}, handle: quick},
		{name: "fails first", messages: 7, queue: jobs.QueueOptions{MaxAttempts: 5, RetryInitial: 100 * time.Millisecond},
			handle: func(_ context.Context, n int) error {
				if n == 1 {
					return errors.New("not yet")
				}
				return nil
			}},
		{name: "long", messages: 12, queue: jobs.QueueOptions{MaxAttempts: 5}, handle: func(ctx context.Context, _ int) error {
			select {
			case <-ctx.Done():
			case <-time.After(pauseLease * 3 / 2):
			}
			return context.Cause(ctx)
		}},
	}
}

func (c pauseCase) options() jobs.QueueOptions {
	o := c.queue
	o.Lease = pauseLease
	return o
}

// pausedWorker is the main function of the process that is stopped.
func pausedWorker(config string) error {
	addr, rest, _ := strings.Cut(config, " ")
	namespace, name, _ := strings.Cut(rest, " ")
	nc, err := nats.Connect(addr, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := jobs.Open(ctx, nc, jobs.StoreOptions{Namespace: namespace, MaxBytes: 64 << 20})
	if err != nil {
		return err
	}
	for _, c := range pauseCases() {
		if c.name != name {
			continue
		}
		q, err := jobs.NewQueue[string, string](ctx, s, "fault", c.options())
		if err != nil {
			return err
		}
		var calls atomic.Int32
		_, err = q.Work(func(ctx context.Context, _ *faultJob) (string, error) {
			return "of the first", c.handle(ctx, int(calls.Add(1)))
		}, jobs.WorkerOptions{})
		if err != nil {
			return err
		}
		io.Copy(io.Discard, os.Stdin) // until the test ends
		return nil
	}
	return fmt.Errorf("no case %q", name)
}

// A pauseProxy is a proxy between the worker and the server. It counts the worker's
// writes to the stream and its replies to deliveries. It holds back message n and all
// later ones until they are released.
type pauseProxy struct {
	l      net.Listener
	server string
	n      int32
	seen   atomic.Int32
	held   chan struct{} // closed when message n arrives
	once   sync.Once
	letGo  chan struct{}
}

func newPauseProxy(t *testing.T, url string, n int) *pauseProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pauseProxy{l: l, server: strings.TrimPrefix(url, "nats://"), n: int32(n), held: make(chan struct{}), letGo: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	go func() { // ends when the listener is closed
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", p.server)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				defer client.Close()
				defer server.Close()
				io.Copy(client, server)
			}()
			go func() {
				defer client.Close()
				defer server.Close()
				p.forward(server, client)
			}()
		}
	}()
	return p
}

// forward forwards what a NATS client sends, message by message.
func (p *pauseProxy) forward(to io.Writer, from io.Reader) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		message := line
		if bytes.HasPrefix(line, []byte("PUB ")) || bytes.HasPrefix(line, []byte("HPUB ")) {
			fields := strings.Fields(string(line))
			size, _ := strconv.Atoi(fields[len(fields)-1])
			payload := make([]byte, size+2)
			if _, err := io.ReadFull(r, payload); err != nil {
				return
			}
			message = append(line, payload...)
			// A write to the stream, or a reply to a delivery.
			if s := fields[1]; strings.HasPrefix(s, "weir.jobs.") || strings.HasPrefix(s, "$JS.ACK.") {
				p.hold()
			}
		}
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

func (p *pauseProxy) hold() {
	if p.seen.Add(1) < p.n {
		return
	}
	p.once.Do(func() { close(p.held) })
	<-p.letGo
}

// J11: a job is not started again while its worker is alive, whatever an earlier
// worker reports late.
func TestJ11_WorkerStoppedBetweenTwoWrites(t *testing.T) {
	for _, c := range pauseCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, natstest.Options{})
			var all sync.WaitGroup
			for n := 1; n <= c.messages; n++ {
				// These tests run side by side, not limited to one per processor,
				// because they mostly wait.
				all.Go(func() {
					t.Run(fmt.Sprint(n), func(t *testing.T) { c.stopAt(t, server, n) })
				})
			}
			all.Wait()
		})
	}
}

// stopAt stops the first worker before its message n, if the worker sends that many.
func (c pauseCase) stopAt(t *testing.T, server *natstest.Server, n int) {
	proxy := newPauseProxy(t, server.URL(), n)
	namespace := fmt.Sprint("message-", n)
	s := faultStore(t, server.Connect(), jobs.StoreOptions{Namespace: namespace})
	q := faultNewQueue(t, s, c.options())

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pausedVariable+"=nats://"+proxy.l.Addr().String()+" "+namespace+" "+c.name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); cmd.Wait() }()
	defer func() {
		cmd.Process.Signal(syscall.SIGCONT)
		in.Close()
		cmd.Process.Kill()
		<-ended
	}()

	h := faultSubmit(t, q, fmt.Sprintf("%s %d", c.name, n), c.submit)
	over := make(chan error, 1)
	go func() {
		_, err := faultWait(t, h)
		over <- err
	}()
	select {
	case <-proxy.held:
	case err := <-over:
		var job *jobs.JobError
		if err != nil && !errors.As(err, &job) {
			t.Errorf("Wait = %v; want an outcome", err)
		}
		return
	}
	cmd.Process.Signal(syscall.SIGSTOP)

	// Another worker gets the job after the lease, and has worked on it for longer
	// than a lease when the first worker continues.
	var alive, begun atomic.Int32
	go1, begins := make(chan struct{}), make(chan int, 10)
	faultWork(t, q, jobs.WorkerOptions{Concurrency: 4}, func(ctx context.Context, j *faultJob) (string, error) {
		if alive.Add(1) > 1 {
			t.Errorf("attempt %d began while another was alive", j.Attempt)
		}
		defer alive.Add(-1)
		begun.Add(1)
		begins <- j.Attempt
		select {
		case <-go1:
			return "of the other", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	select {
	case <-begins:
	case err := <-over: // the attempt must not be repeated, or the outcome was already stored
		if err == nil || c.queue.MaxAttempts == 1 {
			return
		}
		t.Fatalf("Wait = %v; want an attempt of the other worker", err)
	case <-time.After(faultPatience):
		t.Fatalf("the other worker has no attempt")
	}
	<-time.After(pauseLease * 5 / 4) // the marker is old, but its heartbeats are recent
	close(proxy.letGo)
	cmd.Process.Signal(syscall.SIGCONT)
	select {
	case err := <-over:
		t.Errorf("the job is over (%v) while its call runs", err)
		return
	case <-time.After(pauseLease / 2):
	}
	close(go1)
	if err := <-over; err != nil {
		t.Errorf("Wait = %v; want a result", err)
	}
	if b := begun.Load(); b != 1 {
		t.Errorf("%d attempts of the other worker; want 1", b)
	}
}
