package natstest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Options are the differences from the defaults of nats-server.
type Options struct {
	// Sync flushes each write before it is acknowledged (sync_always).
	Sync bool

	// MaxStore bounds JetStream's storage, in bytes. Zero: only the disk bounds it.
	MaxStore int64
}

// A Server is a NATS server in a separate process. Failures are reported to the test
// by Errorf, so all methods may be called from any goroutine.
type Server struct {
	t testing.TB

	mu     sync.Mutex
	c      config    // guarded by mu
	cmd    *exec.Cmd // guarded by mu; nil while no process runs
	in     io.Writer // guarded by mu; standard input of the process
	out    *bufio.Reader
	stderr tail // from all processes of this server
}

// Start starts a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(t, config{Name: "n0", Dir: t.TempDir(), Sync: o.Sync, MaxStore: o.MaxStore})
	if err != nil {
		t.Fatalf("natstest: starting a server: %v", err)
	}
	return s
}

func start(t testing.TB, c config) (*Server, error) {
	s := &Server{t: t, c: c}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.startLocked(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	t.Cleanup(func() {
		s.Kill()
		if said := s.stderr.String(); t.Failed() && said != "" {
			t.Logf("log of server %s:\n%s", c.Name, said)
		}
	})
	return s, nil
}

// startLocked starts the process, and waits until it is ready. s.mu must be held.
func (s *Server) startLocked() error {
	text, err := json.Marshal(s.c)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = &s.stderr
	cmd.SysProcAttr = processAttributes()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.in, s.out = cmd, in, bufio.NewReader(out)
	line, err := s.out.ReadString('\n')
	var port int
	if _, scanErr := fmt.Sscanf(line, "ready %d", &port); err != nil || scanErr != nil {
		s.endLocked(syscall.SIGKILL)
		return fmt.Errorf("the process printed %q, %v", strings.TrimSpace(line), err)
	}
	s.c.Port = port // keep this port from now on
	return nil
}

// endLocked sends a signal to the process, if there is one, and waits for its end.
// s.mu must be held.
func (s *Server) endLocked(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("natstest: ending %s: %v", s.c.Name, err)
	}
	_ = s.cmd.Wait() // the error only reports the signal
	s.cmd = nil
}

// URL returns the address for clients, which stays the same for the life of the
// Server.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("nats://127.0.0.1:%d", s.c.Port)
}

// Dir returns the folder with the server's data.
func (s *Server) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Dir
}

// Kill ends the process with SIGKILL, and returns when it has ended. If no process
// runs, it does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(syscall.SIGKILL)
}

// Stop ends the server with SIGTERM, as an operator does.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(syscall.SIGTERM)
}

// Restart restarts the server at the same address with its data. It kills the process
// first if one is running. It returns when clients can connect; a cluster may need a
// little longer to elect its leaders.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(syscall.SIGKILL)
	if err := s.startLocked(); err != nil {
		s.t.Errorf("natstest: restarting %s: %v", s.c.Name, err)
	}
}

// Pause stops the process (SIGSTOP) until Continue, Kill or Restart.
func (s *Server) Pause() {
	s.signal(syscall.SIGSTOP)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The signal has been sent but perhaps not received: for a moment, threads on
	// other processors may still respond.
	for end := time.Now().Add(10 * time.Second); s.cmd != nil && !stopped(s.cmd.Process.Pid); {
		if time.Now().After(end) {
			s.t.Errorf("natstest: %s still runs 10 s after SIGSTOP", s.c.Name)
			return
		}
		<-time.After(time.Millisecond)
	}
}

// stopped reports whether no thread of a process is running. (In proc(5), the state
// is the first field after the name, which ends with the last parenthesis.)
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return true // unknown on this system
	}
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if _, state, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" ")); err == nil && ok && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// Continue resumes a paused process.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Errorf("natstest: %v to %s, which is not running", sig, s.c.Name)
		return
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("natstest: %v to %s: %v", sig, s.c.Name, err)
	}
}

// LimitFiles limits the server's files to n bytes, until it is called with another n
// or the process ends. This simulates a disk that accepts no more writes. Linux only.
func (s *Server) LimitFiles(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Errorf("natstest: limiting the files of %s, which is not running", s.c.Name)
		return
	}
	_, err := fmt.Fprintln(s.in, n)
	line := ""
	if err == nil {
		line, err = s.out.ReadString('\n')
	}
	if err != nil || strings.TrimSpace(line) != "limited" {
		s.t.Errorf("natstest: limiting the files of %s: it printed %q, %v", s.c.Name, line, err)
	}
}

// Said returns the latest warnings and errors of the server.
func (s *Server) Said() string { return s.stderr.String() }

// Connect returns a connection that reconnects quickly and without limit, and is
// closed with the test. Options are added to these.
func (s *Server) Connect(options ...nats.Option) *nats.Conn {
	s.t.Helper()
	return connect(s.t, s.URL(), options)
}

func connect(t testing.TB, urls string, options []nats.Option) *nats.Conn {
	t.Helper()
	options = append([]nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
	}, options...)
	nc, err := nats.Connect(urls, options...)
	if err != nil {
		t.Fatalf("natstest: connecting to %s: %v", urls, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
}

const tailBytes = 16 << 10

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - tailBytes; over > 0 {
		b.buf = bytes.Clone(b.buf[over:])
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
