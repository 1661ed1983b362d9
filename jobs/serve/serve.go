// Package serve is for programs that run the NATS server of a [jobs.Store]
// themselves, as package embedded does. It provides what such a server does for its
// clients' stores in addition to JetStream. Clients do not need it.
package serve

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/journal"
)

// FlushSubject receives requests to flush a stream. A request is the stream's name;
// the response is empty, or the reason of a failure. One flush serves all requests
// that arrived before it began.
const FlushSubject = journal.FlushSubject

// RoomSubject receives requests that ask whether the server accepts new jobs. The response
// is the reason why it does not, or it is empty, with a [RoomLeft].
const RoomSubject = journal.RoomSubject

// RoomLeft is the header field of how many bytes the server can store before it refuses new
// jobs, as a decimal number. Without one there is no bound.
const RoomLeft = journal.RoomLeft

// A Flusher flushes the streams of a server in this process. It is safe for concurrent
// use.
type Flusher = journal.Flusher

// A Roomer is a Flusher that also says whether its server accepts new jobs.
type Roomer = journal.Roomer

// Locally makes this process's stores on the server with this ID call f instead of
// sending requests to [FlushSubject], and to [RoomSubject] if f is a [Roomer]. end removes
// f again.
func Locally(serverID string, f Flusher) (end func()) { return journal.ServeLocally(serverID, f) }

// EnsureStream creates the stream of a namespace, on one server, if there is none.
func EnsureStream(ctx context.Context, nc *nats.Conn, namespace string) error {
	j, err := journal.Open(ctx, nc, journal.Options{
		Namespace: namespace, Replicas: 1, MaxBytes: jobs.DefaultMaxBytes, Timeout: jobs.DefaultTimeout,
	})
	if err != nil {
		return err
	}
	return j.Close(ctx)
}

// EnsureConsumer creates the consumer of a queue if there is none, on a server that
// has the stream of its namespace. A lease of 0 means [jobs.DefaultLease].
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, namespace, queue string, lease time.Duration) error {
	if lease <= 0 {
		lease = jobs.DefaultLease
	}
	return journal.EnsureConsumer(ctx, js, namespace, queue, lease)
}
