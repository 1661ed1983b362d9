package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/internal/proc"
)

// A Server is a running engine. Its methods may be called from any goroutine.
type Server struct {
	Name string // as in [Start]
	URL  string // where it listens

	Secure string // where it listens with TLS; empty: nowhere
	Admin  string // where weir's listener for operators is; empty for all others

	launch launch // how it was started, with its ports
	stop   func() error

	mu     sync.Mutex
	proc   *proc.Process // guarded by mu
	folder *folder       // guarded by mu
	ended  bool          // guarded by mu: set by Stop
}

func newServer(l launch, p *proc.Process, f *folder) *Server {
	s := &Server{Name: l.name, URL: fmt.Sprintf(l.url, l.fixed[0]), launch: l, proc: p, folder: f}
	s.stop = sync.OnceValue(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
		return s.endLocked()
	})
	return s
}

// endLocked ends the process, even if it is paused, and removes the folder. s.mu must
// be held.
func (s *Server) endLocked() error {
	s.proc.SignalGroup(syscall.SIGCONT) //nolint:errcheck // it has ended already
	s.proc.Stop(s.launch.quit, 10*time.Second)
	return s.folder.remove()
}

// Pid returns the id of the engine's main process.
func (s *Server) Pid() int { return s.process().Pid() }

func (s *Server) process() *proc.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Stop ends the engine, waits until its process is gone, and removes its folder. It
// does not save anything. A second Stop does nothing and returns the result of the
// first.
func (s *Server) Stop() error { return s.stop() }

// Start starts the engine called name ("postgres", "cassandra"; see
// [Startable]) with the options meant for tests. ctx bounds only the start; the
// engine runs until Stop.
func Start(ctx context.Context, name string) (*Server, error) {
	if start := starts[name]; start != nil {
		return start(ctx)
	}
	if _, ok := known[name]; ok {
		return nil, fmt.Errorf("engine: start %s: it is a program to run, and cannot be started by its name alone", name)
	}
	return nil, unknown(name)
}

// Env returns the name of the environment variable in which tests look for
// the address of the engine called name: WEIR_TEST_POSTGRES for "postgres".
func Env(name string) string { return "WEIR_TEST_" + strings.ToUpper(name) }
