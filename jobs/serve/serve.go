// Package serve is for programs that run the NATS server of a [jobs.Store] themselves, as
// package embedded does: what the server does for the stores of its clients, beside
// JetStream. Clients need nothing of it.
package serve

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/journal"
)

// FlushSubject takes requests to flush a stream, whose name is the request.
// The response is empty, or says why it could not. One flush serves all requests that
// came before it began.
const FlushSubject = journal.FlushSubject

// A Flusher flushes the streams of a server in this process. It is safe for concurrent
// use.
type Flusher = journal.Flusher

// Locally has stores of this process that are connected to the server with this ID ask f
// instead of [FlushSubject]. end stops that.
func Locally(serverID string, f Flusher) (end func()) { return journal.ServeLocally(serverID, f) }

// EnsureStream makes the stream of a namespace, on one server, if there is none.
func EnsureStream(ctx context.Context, nc *nats.Conn, namespace string) error {
	j, err := journal.Open(ctx, nc, journal.Options{
		Namespace: namespace, Replicas: 1, MaxBytes: jobs.DefaultMaxBytes, Timeout: jobs.DefaultTimeout,
	})
	if err != nil {
		return err
	}
	return j.Close(ctx)
}

// EnsureConsumer makes the consumer of a queue if there is none, on a server that has the
// stream of its namespace. A lease of 0 means [jobs.DefaultLease].
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, namespace, queue string, lease time.Duration) error {
	if lease <= 0 {
		lease = jobs.DefaultLease
	}
	return journal.EnsureConsumer(ctx, js, namespace, queue, lease)
}
