package jobs

import (
	"encoding/json"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// Defaults and bounds of the options.
const (
	DefaultNamespace      = "default"          // of StoreOptions.Namespace
	DefaultMaxBytes       = 8 << 30            // of StoreOptions.MaxBytes
	DefaultTimeout        = 5 * time.Second    // of StoreOptions.Timeout
	DefaultLease          = 10 * time.Second   // of QueueOptions.Lease
	DefaultMaxAttempts    = 25                 // of QueueOptions.MaxAttempts
	DefaultMaxCrashes     = 5                  // of QueueOptions.MaxCrashes
	DefaultMaxSnoozes     = 1000               // of QueueOptions.MaxSnoozes
	DefaultAttemptTimeout = time.Hour          // of QueueOptions.AttemptTimeout
	DefaultRetryInitial   = time.Second        // of QueueOptions.RetryInitial
	DefaultRetryMax       = time.Hour          // of QueueOptions.RetryMax
	DefaultResultTTL      = 24 * time.Hour     // of QueueOptions.ResultTTL
	DefaultDeadTTL        = 7 * 24 * time.Hour // of QueueOptions.DeadTTL
	DefaultMaxQueued      = 100_000            // of QueueOptions.MaxQueued
	DefaultMaxAge         = 24 * time.Hour     // of QueueOptions.MaxAge
	DefaultMaxInput       = 512 << 10          // of QueueOptions.MaxInput, in bytes
	DefaultMaxResult      = 512 << 10          // of QueueOptions.MaxResult, in bytes
	DefaultConcurrency    = 16                 // of WorkerOptions.Concurrency

	MaxKey          = 1 << 10              // bytes of SubmitOptions.Key, Serial, LimitKey, Fingerprint and Owner, and of WorkerOptions.Name
	MaxLabel        = 256                  // bytes of SubmitOptions.Label
	MaxHeaders      = 32                   // of SubmitOptions.Headers
	MaxHeader       = 64                   // bytes of the name of one of SubmitOptions.Headers
	MaxHeadersBytes = 4 << 10              // of all names and values of SubmitOptions.Headers
	MaxDelay        = 30 * 24 * time.Hour  // of SubmitOptions.Delay and retries
	MaxKeep         = 366 * 24 * time.Hour // of ResultTTL and DeadTTL
	MaxPayload      = 31 << 20             // of MaxInput and MaxResult; JetStream accepts 32 MiB including headers
	MaxAttempts     = 1000                 // of QueueOptions.MaxAttempts
	MaxSnoozes      = 1_000_000            // of QueueOptions.MaxSnoozes
)

// None, as a ResultTTL, keeps no result: the job is an event. Its record disappears
// soon after it is done, once it can no longer be redelivered: after three leases and
// one second.
const None time.Duration = -1

// StoreOptions say where jobs are kept. The zero StoreOptions are for a single
// server.
type StoreOptions struct {
	// Namespace separates the jobs of services that share servers: up to 32 letters,
	// digits, - and _. Default: DefaultNamespace.
	Namespace string

	// Replicas is the number of servers that store each job: 1, 3 or 5. Open refuses
	// a namespace that has a different number. Default: 1.
	Replicas int

	// Durability is what an acknowledged write to these servers survives; the servers
	// do not report it. Default: Majority with Replicas above 1, else Process. Disk
	// is correct for the default of embedded.Start, and for a server with
	// sync_interval: always.
	Durability Durability

	// MaxBytes bounds the space for all jobs of the namespace with their results.
	// Submit refuses jobs above nine tenths of it; the rest is for results. At least
	// 1 MiB. The last program that opens the namespace sets it. Default:
	// DefaultMaxBytes.
	MaxBytes int64

	// Timeout bounds each operation on the server, including its retries. From 10 ms
	// to 1 minute. Default: DefaultTimeout.
	Timeout time.Duration
}

// QueueOptions configure the jobs of one queue. All programs that use the queue
// should have the same options; if they differ, each program follows its own.
type QueueOptions struct {
	// Lease is the time after its worker's last heartbeat at which a job is started
	// again. The first program that uses the queue sets it; the others adopt it. From
	// 100 ms to 1 hour. Default: DefaultLease.
	Lease time.Duration

	// MaxAttempts is the number of attempts after which a job is dead, including
	// those whose worker died. With 1 no attempt is repeated: the job's effects
	// happen at most once, and a Worker that has to stop fails the job. At most the
	// constant MaxAttempts. Default: DefaultMaxAttempts, which with the default waits
	// retries a job for more than ten hours.
	MaxAttempts int

	// MaxCrashes is the number of attempts that can lose their worker before the job
	// is dead. It is lower than MaxAttempts because an input that kills its worker
	// also kills the jobs that run with it. From 1 to MaxAttempts. Default:
	// DefaultMaxCrashes, or MaxAttempts if that is lower.
	MaxCrashes int

	// MaxSnoozes is the number of times that a job's handler can return Snooze. From
	// then on a Snooze is a failed attempt, so that a job that is never ready ends on
	// the dead list. At most the constant MaxSnoozes. Default: DefaultMaxSnoozes.
	// Negative: none, every Snooze is a failed attempt.
	MaxSnoozes int

	// AttemptTimeout bounds one attempt. After it the attempt's context ends. A
	// handler that still does not return keeps its permit, and the job continues
	// without it. Default: DefaultAttemptTimeout. Negative: none.
	AttemptTimeout time.Duration

	// RetryInitial and RetryMax bound the wait before the next attempt: it doubles
	// after each attempt, less a random share of up to a fifth. From 1 ms to
	// MaxDelay. Defaults: DefaultRetryInitial; DefaultRetryMax, or RetryInitial if
	// that is larger.
	RetryInitial, RetryMax time.Duration

	// Classify returns the class of a handler's error. weir.ClassPermanent and
	// weir.ClassNotFound fail the job at once; all others are retried. It is not
	// called for errors by Permanent and RetryIn, or for a limiter's refusals. Nil:
	// all errors are retried. It must not block or panic.
	Classify func(error) weir.Class

	// ResultTTL is how long results, and canceled and failed jobs, are kept. During
	// that time a submission with the same key joins the job. From 1 s to MaxKeep;
	// values below three leases and one second count as that. Default:
	// DefaultResultTTL. None: that minimum, but DeadTTL for failed jobs.
	ResultTTL time.Duration

	// DeadTTL is how long dead jobs are kept, with the same minimum. Default:
	// DefaultDeadTTL.
	DeadTTL time.Duration

	// MaxQueued bounds the number of unfinished jobs. Each program that submits
	// checks it every 100 ms; in between, several programs together can exceed it by
	// what the others have submitted. At least 1. Default: DefaultMaxQueued.
	MaxQueued int

	// MaxAge rejects new jobs while the oldest job that no worker has taken has
	// waited longer than this. The default is longer than the default retries last,
	// so an outage of the source alone does not reach it. Default: DefaultMaxAge.
	// Negative: no bound.
	MaxAge time.Duration

	// MaxInput and MaxResult bound the encoded input and result, in bytes, from 1 to
	// MaxPayload. The server's max_payload bounds them too, and an input has to leave
	// 64 KiB of it for the history of the job's attempts. Defaults: DefaultMaxInput,
	// DefaultMaxResult.
	MaxInput, MaxResult int

	// KeyLimit bounds the jobs with one SubmitOptions.LimitKey, for example those of a
	// tenant, over all Workers of the fleet. KeyLimits has other limits for single
	// keys, at most MaxKeyLimits. A running job whose lease was lost, and a handler that
	// does not return after its context has ended, can run beside the next one. Default:
	// no bound.
	KeyLimit  KeyLimit
	KeyLimits map[string]KeyLimit

	// Version is the version of the input's format. A worker decodes jobs of lower
	// versions, and hands those of higher versions back to a newer worker. From 0.
	Version int
}

// SubmitOptions configure one job.
type SubmitOptions struct {
	// Key names the job: while a job with this key is unfinished, or is kept as done,
	// Submit joins it. The key of a job that failed, died or was canceled is free
	// again. Empty: each submission is a separate job. At most MaxKey bytes of UTF-8
	// without a zero byte.
	Key string

	// Restart runs a job again that is done. An unfinished job is still joined.
	Restart bool

	// Once keeps the key of a finished job taken, whatever its outcome, until the job
	// is forgotten: Submit joins a job that failed, died or was canceled, and nothing
	// runs again. Restart then has no effect. Without a Key, Once has none.
	Once bool

	// Delay is the wait before the first attempt. Zero: none. At most MaxDelay.
	Delay time.Duration

	// Deadline is the latest start of the first attempt, as a time after the job was
	// accepted; above Delay. A job that has not started by then fails with
	// ErrExpired. Zero: none.
	Deadline time.Duration

	// Serial, if not empty, makes the jobs of the queue with the same Serial run one
	// at a time, in no particular order. At most MaxKey bytes of UTF-8.
	Serial string

	// LimitKey, if not empty, counts the job for the QueueOptions.KeyLimit of that key,
	// for example a tenant. At most MaxKey bytes of UTF-8.
	LimitKey string

	// Fingerprint, with a Key, decides which inputs are the same: a job with the same
	// Key and a different Fingerprint is refused with ErrConflict. Empty: a hash of
	// the encoded input. At most MaxKey bytes of UTF-8: encode a binary hash, as
	// hexadecimal digits for example.
	Fingerprint string

	// Owner is returned in the Status. At most MaxKey bytes of UTF-8.
	Owner string

	// Label says in a few words what the job does, for lists of jobs: "POST /reports".
	// It identifies nothing, and it must not be secret. At most MaxLabel bytes of UTF-8
	// without control characters.
	Label string

	// Headers are metadata for the handler and for operators, such as a trace context
	// or a tenant. They are not part of the input: a submission that joins a job does
	// not change the job's Headers, and different Headers are no conflict. Operators can
	// read them, so they must not hold secrets. At most MaxHeaders; a name is 1 to
	// MaxHeader letters, digits, - . and _, and distinguishes upper and lower case; a
	// value is UTF-8 without control characters; all together have at most
	// MaxHeadersBytes.
	Headers map[string]string
}

// WorkerOptions configure one Worker.
type WorkerOptions struct {
	// Name is the worker's name in the history of attempts. Default: host and process
	// ID.
	Name string

	// Concurrency is the number of jobs that the worker runs at once, from 1 to 4096.
	// Default: DefaultConcurrency.
	Concurrency int

	// Limiter also has to admit each attempt. It can be shared with a Guard, whose
	// loads it admits. A job that it refuses is handed back until its RetryAfter, and
	// the attempt does not count. Nil: none.
	Limiter limit.Limiter

	// Middleware is called around the handler for each attempt; the first is the
	// outermost. The input has been decoded by then, and the result is encoded
	// afterwards. Nil: none.
	Middleware []Middleware

	// Observer is notified of attempts and of the Worker's other events. Nil: none.
	// See [Observers] for several.
	Observer Observer
}

// A Codec encodes and decodes values. Decode receives the Version that the bytes were
// written with.
type Codec[T any] struct {
	Encode func(T) ([]byte, error) // encodes an input or a result
	Decode func(data []byte, version int) (T, error)
}

// JSON is the default Codec of a queue. It refuses strings that are not UTF-8, which
// encoding/json would change: Submit returns an error for such an input, and a job with such
// a result fails.
func JSON[T any]() Codec[T] {
	return Codec[T]{
		Encode: func(v T) ([]byte, error) { return marshal(v) },
		Decode: func(data []byte, _ int) (v T, err error) {
			err = json.Unmarshal(data, &v)
			return v, err
		},
	}
}
