package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weir-go/weir/jobs/internal/wait"
)

// Options of a Journal. All are required.
type Options struct {
	Namespace string
	Replicas  int
	MaxBytes  int64
	Timeout   time.Duration // of each operation

	// Flushed requires each write to be on the disk when Put returns. If the server
	// accepts flush requests (FlushSubject), they are sent; otherwise it is assumed
	// to flush on its own.
	Flushed bool
}

// The errors of a Journal.
var (
	// ErrStale: the job's revision is not the one that the write was to follow.
	ErrStale = errors.New("the revision has changed")
	// ErrFull: the stream has reached MaxBytes, or the server has no space.
	ErrFull = errors.New("no space")
	// ErrTooLarge: the message is larger than the server accepts.
	ErrTooLarge = errors.New("message too large for the server")
	// ErrUnavailable: the server did not respond. The request may have taken effect.
	ErrUnavailable = errors.New("no response from the server")
	// ErrNoQueue: the queue has no consumer.
	ErrNoQueue = errors.New("no such queue")
	// ErrClosed: the Journal is closed.
	ErrClosed = errors.New("closed")
)

// A Journal holds the jobs of a namespace. It is safe for concurrent use.
type Journal struct {
	names
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	o      Options

	clock   clock
	waker   waker
	posts   poster
	flushes bool // flush requests are sent to the server; written by Open only
	rooms   bool // the server says whether it accepts new jobs; written by Open only

	stop context.CancelFunc
	done sync.WaitGroup
	life context.Context
}

// clockEvery is how often the server's time is read.
const clockEvery = 10 * time.Second

// Open opens a namespace, and creates its stream if there is none.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Journal, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.Timeout))
	if err != nil {
		return nil, err
	}
	j := &Journal{names: names{o.Namespace}, nc: nc, js: js, o: o}
	j.life, j.stop = context.WithCancel(context.Background())
	for _, step := range [...]func(context.Context) error{j.openStream, j.readClock, j.findFlush, j.findRoom} {
		if err := j.patiently(ctx, step); err != nil {
			j.stop()
			return nil, err
		}
	}
	if err := j.posts.start(j); err != nil {
		j.stop()
		return nil, j.mapError(err)
	}
	j.waker.start(j)
	j.done.Go(j.keepClock)
	return j, nil
}

// Close ends the Journal's goroutines, and waits for them until ctx ends. Calls in
// progress end with ErrClosed.
func (j *Journal) Close(ctx context.Context) error {
	j.stop()
	return wait.For(ctx, func() {
		j.posts.close()
		j.done.Wait()
		j.waker.close()
	})
}

// MaxPayload is the size of the largest message that the server accepts, including its
// headers.
func (j *Journal) MaxPayload() int { return int(j.nc.MaxPayload()) }

// openStream finds the stream or creates it. Programs that create it at the same time
// use the same configuration, and JetStream treats their requests as one.
func (j *Journal) openStream(ctx context.Context) error {
	s, err := j.js.Stream(ctx, j.names.stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = j.js.CreateStream(ctx, j.config())
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		s, err = j.js.Stream(ctx, j.names.stream())
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", j.names.stream(), j.mapError(err))
	}
	if c := s.CachedInfo().Config; c.Replicas != j.o.Replicas {
		return fmt.Errorf("stream %s has %d replicas, not %d", c.Name, c.Replicas, j.o.Replicas)
	} else if c.MaxBytes != j.o.MaxBytes {
		c.MaxBytes = j.o.MaxBytes
		if s, err = j.js.UpdateStream(ctx, c); err != nil {
			return fmt.Errorf("stream %s: max_bytes: %w", c.Name, j.mapError(err))
		}
	}
	j.stream = s
	return nil
}

func (j *Journal) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              j.names.stream(),
		Description:       "jobs of weir, namespace " + j.o.Namespace,
		Subjects:          []string{j.subject("*", "*", "*")},
		Retention:         jetstream.WorkQueuePolicy,
		Discard:           jetstream.DiscardNew,
		MaxBytes:          j.o.MaxBytes,
		MaxMsgs:           -1,
		MaxMsgsPerSubject: 1,
		Storage:           jetstream.FileStorage,
		Replicas:          j.o.Replicas,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		RePublish: &jetstream.RePublish{
			Source:      j.subject("*", "*", State),
			Destination: j.changed("{{wildcard(1)}}", "{{wildcard(2)}}"),
			HeadersOnly: true,
		},
	}
}

// patiently retries a step that got no response, until ctx ends or the Journal's
// timeout has passed. A server that has just started, or a cluster without a leader,
// loses requests.
func (j *Journal) patiently(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, j.try())
		err := step(try)
		cancel()
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// bound returns a context with the Journal's timeout, which also ends with the
// Journal.
func (j *Journal) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, j.o.Timeout)
	stop := context.AfterFunc(j.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// mapError maps errors of the client to ours.
func (j *Journal) mapError(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case j.life != nil && j.life.Err() != nil:
		return ErrClosed
	case errors.As(err, &api):
		return mapAPIError(api)
	case errors.Is(err, nats.ErrMaxPayload):
		return ErrTooLarge
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return err
}

// Codes of the server's errors for which nats.go has no name.
const (
	codeNoResources       = 10023
	codeStorageExceeded   = 10047
	codeAccountResources  = 10002
	codeTooLarge          = 10054
	codeStoreFailed       = 10077
	codeNotAvailable      = 10008
	codeWrongLastConstant = 10164
	codeMemoryExceeded    = 10028
)

// tooLarge is the description if the store refuses a message for its size. The
// error's code says only that the store has failed.
const tooLarge = "message too large"

func mapAPIError(api *jetstream.APIError) error {
	if api.ErrorCode == codeStoreFailed && api.Description == tooLarge {
		return ErrTooLarge
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, codeWrongLastConstant:
		return ErrStale
	case codeNoResources, codeStorageExceeded, codeAccountResources, codeStoreFailed, codeMemoryExceeded:
		return fmt.Errorf("%w: %s", ErrFull, api.Description)
	case codeTooLarge:
		return ErrTooLarge
	case codeNotAvailable:
		return fmt.Errorf("%w: %s", ErrUnavailable, api.Description)
	}
	if api.Code == 503 {
		return fmt.Errorf("%w: %s", ErrUnavailable, api.Description)
	}
	return api
}
