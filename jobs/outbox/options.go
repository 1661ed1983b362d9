package outbox

import (
	"context"
	"time"

	"github.com/weir-go/weir/jobs"
)

// Defaults and bounds of the options.
const (
	DefaultNotifyEvery   = 100 * time.Millisecond // QueueOptions.NotifyEvery
	DefaultBatch         = 100                    // of RelayOptions.Batch
	DefaultMaxBatchBytes = 8 << 20                // of RelayOptions.MaxBatchBytes
	DefaultParallel      = 16                     // of RelayOptions.Parallel
	DefaultLease         = 10 * time.Second       // of RelayOptions.Lease
	DefaultPoll          = 5 * time.Second        // of RelayOptions.Poll
	DefaultMinPoll       = 100 * time.Millisecond // of RelayOptions.MinPoll
	DefaultUnknownAfter  = 15 * time.Minute       // of RelayOptions.UnknownAfter
	DefaultMaxTries      = 10                     // of RelayOptions.MaxTries
	DefaultListLimit     = 100                    // ParkedFilter.Limit

	MaxQueues    = 64      // of RelayOptions.Queues
	MaxBatch     = 1000    // of RelayOptions.Batch
	MaxParallel  = 256     // of RelayOptions.Parallel
	MaxListLimit = 1000    // of ParkedFilter.Limit
	MaxDetail    = 1 << 10 // bytes of ParkedRow.Detail
	MaxCounted   = 10_000  // of QueueBacklog.Rows and Parked: larger numbers are not counted exactly

	// maxLease and maxWait bound the durations in the options.
	maxLease = time.Hour
	maxWait  = time.Hour
)

// QueueOptions configure a [Queue], the side that enqueues. The zero QueueOptions are
// the defaults.
type QueueOptions struct {
	// Schema is the schema of the table: letters, digits and _. Empty: the connection's
	// search path.
	Schema string

	// Version is the version of the input's format, see jobs.QueueOptions. From 0.
	Version int

	// MaxInput bounds the encoded input, in bytes, from 1 to jobs.MaxPayload. It should
	// not exceed the relay's jobs.QueueOptions.MaxInput. Default: jobs.DefaultMaxInput.
	MaxInput int

	// NotifyEvery is the shortest time between two transactions of this Queue that send
	// a NOTIFY. PostgreSQL commits such transactions one at a time, in all of its
	// databases. A relay that was woken polls more often for some seconds, so it also
	// finds the rows without a NOTIFY. Default: DefaultNotifyEvery. At most 1 hour.
	// Negative: no NOTIFY; relays find the rows by polling.
	NotifyEvery time.Duration
}

// EnqueueOptions configure one row and its job.
type EnqueueOptions struct {
	// ID is the row's ID, which becomes the job's key (jobs.SubmitOptions.Key). Rows
	// with the same ID become one job; a row whose input differs from the job's is
	// parked. Empty: a random ID. At most jobs.MaxKey bytes.
	ID string

	// Delay is the wait before the first attempt, from the call of Enqueue. Zero: none.
	// At most jobs.MaxDelay.
	Delay time.Duration

	// Deadline is the latest start of the first attempt, as a time after the call of
	// Enqueue; above Delay. A row that cannot be submitted before it is parked. Zero:
	// none.
	Deadline time.Duration

	// Serial, Owner and Fingerprint are those of jobs.SubmitOptions.
	Serial, Owner, Fingerprint string
}

// RelayOptions configure a [Relay]. Queues is required.
type RelayOptions struct {
	// Queues are the queues whose rows the Relay submits, with the options of the
	// queue's workers: ResultTTL, DeadTTL, MaxQueued, MaxAge and MaxInput apply at the
	// submission. Version is not used: each row has its version. From 1 to MaxQueues.
	Queues map[string]jobs.QueueOptions

	// Listen opens a connection on which notifications arrive; see package outboxpgx.
	// Through PgBouncer it must be a direct connection to PostgreSQL. Nil: the Relay
	// only polls.
	Listen func(context.Context) (Listener, error)

	// Poll is the longest wait between two looks at a queue, also while it is full. A
	// look costs one indexed query. From 10 ms to 1 hour. Default: DefaultPoll.
	Poll time.Duration

	// MinPoll is the wait after a row was found or a notification has arrived. It
	// doubles up to Poll while the queue is empty. At most Poll. Default:
	// DefaultMinPoll, or Poll if that is shorter.
	MinPoll time.Duration

	// Batch is the number of rows of a queue that are claimed at once, from 1 to
	// MaxBatch. Default: DefaultBatch.
	Batch int

	// MaxBatchBytes bounds the inputs of a batch, in bytes; a batch has at least one
	// row. At least 1. Default: DefaultMaxBatchBytes.
	MaxBatchBytes int

	// Parallel is the number of rows of a queue that are looked up and submitted at the
	// same time, from 1 to MaxParallel: rows that a relay has tried before, and all rows
	// while the queue is full. The others of a batch are submitted with one write.
	// Default: DefaultParallel.
	Parallel int

	// Lease is how long a claim holds. The rows of a relay that was killed are submitted
	// by another one after it. From 100 ms to 1 hour, and at most half of what each
	// queue remembers (jobs.Queue.Remembers). Default: DefaultLease.
	Lease time.Duration

	// UnknownAfter is the age at which a row is parked if its queue is not in Queues.
	// The default leaves time for a deployment of relays that have the queue. At most 1
	// hour; at least 1 s. Default: DefaultUnknownAfter. Negative: never, for relays that
	// serve only some of the queues.
	UnknownAfter time.Duration

	// MaxTries is the number of tries after which a row is parked whose submission
	// fails with an error other than a full queue or a server that does not respond.
	// At least 1. Default: DefaultMaxTries.
	MaxTries int

	// ResubmitDoubtful submits a row again although its job could have been run and
	// forgotten: at least once instead of at most once. See the package comment. False:
	// such a row is parked.
	ResubmitDoubtful bool

	// Observer is notified of rows and of trouble. Nil: none.
	Observer Observer
}

// A Listener receives notifications. Its methods are called by one goroutine at a
// time.
type Listener interface {
	// Wait returns the payload of the next notification on Channel. After an error the
	// Relay closes the Listener and opens another.
	Wait(ctx context.Context) (payload string, err error)

	// Close closes the connection.
	Close(ctx context.Context) error
}

// Channel is the name of the notifications' channel. Their payload is the name of a
// queue.
const Channel = "weir_outbox"
