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

	proc   *proc.Process
	folder *folder
	quit   syscall.Signal // ends the engine at once, its children included
	stop   func() error
}

func newServer(name, url string, p *proc.Process, f *folder, quit syscall.Signal) *Server {
	s := &Server{Name: name, URL: url, proc: p, folder: f, quit: quit}
	s.stop = sync.OnceValue(func() error {
		s.proc.Stop(s.quit, 10*time.Second)
		return s.folder.remove()
	})
	return s
}

// Pid returns the id of the engine's main process.
func (s *Server) Pid() int { return s.proc.Pid() }

// Stop ends the engine, waits until its process is gone, and removes its
// folder. It does not save anything. A second Stop does nothing and returns
// what the first one returned.
func (s *Server) Stop() error { return s.stop() }

// Start starts the engine called name ("postgres", "cassandra"; see
// [Startable]) with the options meant for tests. ctx bounds the start, not the
// engine's life: Stop ends that.
func Start(ctx context.Context, name string) (*Server, error) {
	if start := starts[name]; start != nil {
		return start(ctx)
	}
	if _, ok := known[name]; ok {
		return nil, fmt.Errorf("engine: start %s: it is a program to run, and does not start by its name alone", name)
	}
	return nil, unknown(name)
}

// Env returns the name of the environment variable in which tests look for
// the address of the engine called name: WEIR_TEST_POSTGRES for "postgres".
func Env(name string) string { return "WEIR_TEST_" + strings.ToUpper(name) }
