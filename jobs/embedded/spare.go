package embedded

import (
	"errors"
	"sync"
	"syscall"

	"github.com/weir-go/weir/jobs/embedded/internal/writable"
)

// spare is how many descriptors must be free for a new job to be accepted. As many are
// held, and released for the ends of accepted jobs once fewer are free.
const spare = 16

// spares holds descriptors. The zero spares holds none.
type spares struct {
	mu   sync.Mutex
	held writable.Held // guarded by mu; nil: none
}

// check returns an error while the process has too few descriptors for new jobs.
func (s *spares) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		held, err := writable.Hold(2 * spare)
		if err != nil {
			return err
		}
		held[:spare].Release()
		s.held = held[spare:]
		return nil
	}
	err := writable.Descriptors(spare)
	if err != nil {
		s.held.Release()
		s.held = nil
	}
	return err
}

// release makes the descriptors available. It reports whether there were any.
func (s *spares) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.held != nil
	s.held.Release()
	s.held = nil
	return had
}

// isShort reports whether an error is a lack of descriptors.
func isShort(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
