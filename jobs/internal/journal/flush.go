package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// FlushSubject is where a server receives requests to flush a stream. A request is
// the stream's name; the response is empty, or the reason of a failure. Package
// embedded serves it: one flush serves all requests that arrived before it began.
const FlushSubject = "weir.jobs-flush." + version

// A Flusher flushes the streams of a server in this process.
type Flusher interface {
	// Flush returns when everything acknowledged before the call is on the disk.
	Flush(ctx context.Context, stream string) error
	// Begin starts the same flush without waiting for it.
	Begin(stream string)
}

// local has the servers that run in this process, by their ID: they are called
// without a message.
var local sync.Map // string to Flusher

// ServeLocally registers f for the server with this ID: connections from this process
// call f to flush. The returned function removes it.
func ServeLocally(server string, f Flusher) (end func()) {
	local.Store(server, f)
	return func() { local.Delete(server) }
}

// localFlusher returns the server's Flusher; nil if the server is in another process.
func (j *Journal) localFlusher() Flusher {
	if f, ok := local.Load(j.nc.ConnectedServerId()); ok {
		return f.(Flusher)
	}
	return nil
}

// Flush returns when everything acknowledged before the call is on the disk. If the
// server does not accept flush requests, it flushes before it acknowledges, and Flush
// does nothing.
func (j *Journal) Flush(ctx context.Context) error {
	if !j.flushes {
		return nil
	}
	ctx, cancel := j.bound(ctx)
	defer cancel()
	return j.flush(ctx)
}

func (j *Journal) flush(ctx context.Context) error {
	if f := j.localFlusher(); f != nil {
		if err := f.Flush(ctx, j.names.stream()); err != nil {
			return fmt.Errorf("%w: flushing: %w", ErrUnavailable, err)
		}
		return nil
	}
	answer, err := j.nc.RequestWithContext(ctx, FlushSubject, []byte(j.names.stream()))
	if err != nil {
		return j.mapError(err)
	}
	if len(answer.Data) > 0 {
		return fmt.Errorf("%w: flushing: %s", ErrUnavailable, answer.Data)
	}
	return nil
}

// findFlush checks whether the server accepts flush requests.
func (j *Journal) findFlush(ctx context.Context) error {
	if !j.o.Flushed {
		return nil
	}
	_, err := j.nc.RequestWithContext(ctx, FlushSubject, []byte(j.names.stream()))
	j.flushes = !errors.Is(err, nats.ErrNoResponders)
	if err != nil && j.flushes {
		return j.mapError(err)
	}
	return nil
}
