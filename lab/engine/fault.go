package engine

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// errEnded is returned by the fault methods of a stopped Server.
var errEnded = errors.New("it was stopped")

// signal sends sig to the engine's processes.
func (s *Server) signal(what string, sig syscall.Signal) error {
	if err := s.process().SignalGroup(sig); err != nil {
		return fmt.Errorf("engine: %s %s: %w", what, s.Name, err)
	}
	return nil
}

// Pause suspends the engine's processes with SIGSTOP. Connections stay open without
// responses. Stop still works.
func (s *Server) Pause() error { return s.signal("pause", syscall.SIGSTOP) }

// Continue resumes a paused engine.
func (s *Server) Continue() error { return s.signal("continue", syscall.SIGCONT) }

// Kill kills the engine's processes and waits until they are gone: its connections
// are reset, and new ones refused. Restart can start it again, and it must still be
// stopped.
func (s *Server) Kill() error {
	p := s.process()
	if err := s.signal("kill", syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Ended()
	return nil
}

// Restart starts the engine again, empty, on the same ports. If the engine still
// runs, Restart stops it first. A node of a cluster comes back without a cluster.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fmt.Errorf("engine: restart %s: %w", s.Name, errEnded)
	}
	if err := s.endLocked(); err != nil {
		return fmt.Errorf("engine: restart %s: %w", s.Name, err)
	}
	again, err := s.launch.start(ctx)
	if err != nil {
		return err
	}
	s.proc, s.folder = again.proc, again.folder
	return nil
}
