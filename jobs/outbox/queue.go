package outbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A Queue enqueues jobs with an input of type In. It needs no connection to the server
// of the jobs. It is safe for concurrent use.
type Queue[In any] struct {
	*queue
	codec jobs.Codec[In]
}

// A queue is the part of a Queue that does not depend on the type.
type queue struct {
	name string
	o    QueueOptions
	sql  statements

	start    time.Time
	notified atomic.Int64 // time of the last NOTIFY since start, plus 1; an atomic, because a lost race costs only a second NOTIFY
}

// NewQueue returns the queue with a name of up to 64 letters, digits, - and _: the name
// of the jobs.Queue that runs its jobs. Inputs are JSON, unless WithCodec sets another
// codec.
func NewQueue[In any](name string, o QueueOptions) (*Queue[In], error) {
	o = o.withDefaults()
	if err := o.validate(name); err != nil {
		return nil, err
	}
	return &Queue[In]{
		queue: &queue{name: name, o: o, sql: newStatements(o.Schema), start: time.Now()},
		codec: jobs.JSON[In](),
	}, nil
}

// WithCodec returns the same queue with another codec, which must be the one of the
// jobs.Queue.
func (q *Queue[In]) WithCodec(c jobs.Codec[In]) *Queue[In] {
	return &Queue[In]{queue: q.queue, codec: c}
}

// Name returns the queue's name.
func (q *queue) Name() string { return q.name }

// Enqueue inserts a row in the caller's transaction, and returns the row's ID. If the
// transaction commits, the row becomes one job, whose key is that ID:
// jobs.Queue.KeyID returns the job's ID. If it is rolled back, there is no job.
//
// The errors are ErrTooLarge, those of the encoding and the options, which leave the
// transaction usable, and those of PostgreSQL.
func (q *Queue[In]) Enqueue(ctx context.Context, tx Tx, in In, o EnqueueOptions) (id string, err error) {
	if err := o.validate(); err != nil {
		return "", err
	}
	data, err := q.codec.Encode(in)
	if err != nil {
		return "", fmt.Errorf("outbox: queue %q: input: %w", q.name, err)
	}
	return q.enqueue(ctx, tx, data, o)
}

// enqueue inserts an encoded input.
func (q *queue) enqueue(ctx context.Context, tx Tx, data []byte, o EnqueueOptions) (string, error) {
	if len(data) > q.o.MaxInput {
		return "", fmt.Errorf("outbox: %w: the input has %d bytes; queue %q accepts %d", ErrTooLarge, len(data), q.name, q.o.MaxInput)
	}
	if data == nil {
		data = []byte{} // not NULL
	}
	if o.ID == "" {
		o.ID = randomID()
	}
	args := []any{q.name, o.ID, data, q.o.Version}
	query := q.sql.insert
	if o != (EnqueueOptions{ID: o.ID}) {
		query = q.sql.insertAll
		args = append(args, o.Serial, o.Owner, o.Fingerprint, o.Delay.Microseconds(), o.Deadline.Microseconds())
	}
	if q.notifies() {
		query = notifying(query)
	}
	if err := tx.exec(ctx, query, args...); err != nil {
		return "", fmt.Errorf("outbox: queue %q: %w", q.name, err)
	}
	return o.ID, nil
}

// notifies reports whether this row's transaction sends a NOTIFY. PostgreSQL holds one
// lock for all databases from there to the end of the commit, including the flush of its
// log, so frequent notifications would serialize all commits.
//
// A row that sends none is found anyway. Its relay was woken by an earlier row, at most
// NotifyEvery before, and has been polling since, with waits that double from MinPoll.
func (q *queue) notifies() bool {
	if q.o.NotifyEvery < 0 {
		return false
	}
	now := int64(time.Since(q.start)) + 1
	last := q.notified.Load()
	if last != 0 && now-last < int64(q.o.NotifyEvery) {
		return false
	}
	return q.notified.CompareAndSwap(last, now)
}

// randomID returns 128 random bits. A number from a sequence would not do: after
// PostgreSQL was restored to an earlier point, sequences repeat numbers, and the new
// row would be mistaken for a job that is known.
func randomID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
