package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// pausedFor is the longest pause: the server wants an end.
const pausedFor = 100 * 365 * 24 * time.Hour

// Pause stops a queue: none of its jobs starts, in any program, until Resume. It holds
// across restarts of the programs and of the server, and Workers of older versions obey
// it, because the server delivers no jobs. Running jobs finish, and jobs that a Worker
// has received but not started when Pause returns may still start. Submit accepts jobs
// as before; MaxQueued and MaxAge apply. A paused queue can be paused again. The error is
// ErrNotFound if no program has used the queue, or ErrUnavailable or ErrClosed.
func (s *Store) Pause(ctx context.Context, queue string) error {
	return s.setPause(ctx, queue, s.journal.Now().Add(pausedFor))
}

// Resume starts a queue again that was paused. If it is not, Resume does nothing. Its
// errors are those of Pause.
func (s *Store) Resume(ctx context.Context, queue string) error {
	return s.setPause(ctx, queue, time.Time{})
}

func (s *Store) setPause(ctx context.Context, queue string, until time.Time) error {
	if !queueForm.MatchString(queue) {
		return ErrNotFound
	}
	err := s.journal.Pause(ctx, queue, until)
	if errors.Is(err, journal.ErrNoQueue) {
		return ErrNotFound
	}
	return outward(ctx, err)
}
