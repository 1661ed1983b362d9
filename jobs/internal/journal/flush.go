package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// FlushSubject is where a server receives requests to flush a stream, whose
// name is the request. The answer is empty, or why it could not. Package
// embedded serves it: one flush is for all who have asked before it began.
const FlushSubject = "weir.jobs-flush." + version

// A Flusher flushes the streams of a server in this process.
type Flusher interface {
	// Flush returns when all that was acknowledged before is on the disk.
	Flush(ctx context.Context, stream string) error
	// Begin has that done, and does not wait for it.
	Begin(stream string)
}

// local are the servers that run in this process, by their ID: they are called
// without a message.
var local sync.Map // string to Flusher

// ServeLocally makes f whom connections from this process to the server with this
// ID ask. It returns what ends that.
func ServeLocally(server string, f Flusher) (end func()) {
	local.Store(server, f)
	return func() { local.Delete(server) }
}

// localFlusher returns that of the server; nil if it is in another process.
func (j *Journal) localFlusher() Flusher {
	if f, ok := local.Load(j.nc.ConnectedServerId()); ok {
		return f.(Flusher)
	}
	return nil
}

// Flush returns when all that was acknowledged before is on the disk. A server
// that was never heard to answer flushes by itself, before it acknowledges.
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

// findFlush asks whether there is somebody to flush.
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
