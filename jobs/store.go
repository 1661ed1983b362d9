package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A Store keeps jobs on JetStream, on an embedded server or on the servers of a
// connection. It is safe for concurrent use.
type Store struct {
	o       StoreOptions
	journal *journal.Journal
	room    room // space left in the Store

	mu      sync.Mutex
	queues  map[string]*backlog    // guarded by mu; by name
	workers map[*Worker]bool       // guarded by mu; the ones not closed
	past    map[string]WorkerStats // guarded by mu; of the closed ones, by queue
}

// Open returns the Store of a namespace, and creates the namespace if it does not
// exist. The caller keeps ownership of the connection, which must outlive the Store.
// It should reconnect without limit (nats.MaxReconnects(-1)).
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

// Close ends the Store's goroutines and subscriptions. It waits for them until ctx
// ends, and then returns its cause. Close the Workers first. Calls that are waiting
// return ErrClosed. Close can be called again.
func (s *Store) Close(ctx context.Context) error { return s.journal.Close(ctx) }

// Durability is what an accepted job survives.
func (s *Store) Durability() Durability { return s.o.Durability }

// Namespace returns the namespace of the Store.
func (s *Store) Namespace() string { return s.o.Namespace }

// Ping returns nil if the server responds.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.journal.Bytes(ctx)
	return outward(ctx, err)
}

// outward converts an error of the journal to one of this package. If the caller's
// context has ended, it returns that context's cause.
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
