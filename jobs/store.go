package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Store keeps jobs on JetStream: on an embedded server, or on those that a
// connection leads to. It is safe for concurrent use.
type Store struct {
	o       StoreOptions
	journal *journal.Journal
	room    room // in the Store

	mu      sync.Mutex
	queues  map[string]*backlog    // guarded by mu; by name
	workers map[*Worker]bool       // guarded by mu; that were not stopped
	past    map[string]WorkerStats // guarded by mu; of those that were, by queue
}

// Open returns the Store of a namespace, which it makes where there is none. The
// connection stays the caller's, and must outlive the Store. It should
// reconnect without end (nats.MaxReconnects(-1)).
func Open(ctx context.Context, nc *nats.Conn, o StoreOptions) (*Store, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	j, err := journal.Open(ctx, nc, journal.Options{
		Namespace: o.Namespace, Replicas: o.Replicas, MaxBytes: o.MaxBytes, Timeout: o.Timeout,
		Flushed: o.Durability == DurabilityDisk,
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: open: %w", outward(ctx, err))
	}
	s := &Store{o: o, journal: j, queues: make(map[string]*backlog),
		workers: make(map[*Worker]bool), past: make(map[string]WorkerStats)}
	s.room.store = s
	return s, nil
}

// Close ends the Store's own goroutines and subscriptions, and waits for them until
// ctx ends, and then returns its cause. Workers must be closed before. Calls that wait
// return ErrClosed. It may be called again.
func (s *Store) Close(ctx context.Context) error { return s.journal.Close(ctx) }

// Durability is what an accepted job survives.
func (s *Store) Durability() Durability { return s.o.Durability }

// Namespace is the one that was opened.
func (s *Store) Namespace() string { return s.o.Namespace }

// Ping returns nil if the server answers.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.journal.Bytes(ctx)
	return outward(ctx, err)
}

// outward makes an error of the journal one of this package. The caller's own
// deadline stays the caller's.
func outward(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, journal.ErrUnavailable) || errors.Is(err, context.Canceled)):
		return context.Cause(ctx)
	case errors.Is(err, journal.ErrClosed):
		return ErrClosed
	case errors.Is(err, journal.ErrTooLarge):
		return fmt.Errorf("%w: %v", ErrTooLarge, err)
	case errors.Is(err, journal.ErrUnavailable), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return err
}
