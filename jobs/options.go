package jobs

import (
	"encoding/json"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// Defaults and bounds of the options.
const (
	DefaultNamespace      = "default"
	DefaultMaxBytes       = 8 << 30
	DefaultTimeout        = 5 * time.Second
	DefaultLease          = 10 * time.Second
	DefaultMaxAttempts    = 25
	DefaultMaxCrashes     = 5
	DefaultAttemptTimeout = time.Hour
	DefaultRetryInitial   = time.Second
	DefaultRetryMax       = time.Hour
	DefaultResultTTL      = 24 * time.Hour
	DefaultDeadTTL        = 7 * 24 * time.Hour
	DefaultMaxQueued      = 100_000
	DefaultMaxAge         = 24 * time.Hour
	DefaultMaxInput       = 512 << 10
	DefaultMaxResult      = 512 << 10
	DefaultConcurrency    = 16

	MaxKey      = 1 << 10              // bytes of SubmitOptions.Key, Serial and Owner
	MaxDelay    = 30 * 24 * time.Hour  // of SubmitOptions.Delay and retries
	MaxKeep     = 366 * 24 * time.Hour // of ResultTTL and DeadTTL
	MaxPayload  = 31 << 20             // of MaxInput and MaxResult; JetStream takes 32 MiB with all headers
	MaxAttempts = 1000                 // of QueueOptions.MaxAttempts
)

// None, as a ResultTTL, keeps no result: the job is an event, and nothing is
// left of it soon after it is done, when it can be delivered by mistake no more:
// after three leases and a second.
const None time.Duration = -1

// StoreOptions say where jobs are kept. The zero StoreOptions are of a single
// server.
type StoreOptions struct {
	// Namespace keeps the jobs of services apart that share servers: up to 32
	// letters, digits, - and _. Default: DefaultNamespace.
	Namespace string

	// Replicas is on how many servers each job is kept: 1, 3 or 5. Default: 1.
	// Open refuses a namespace that has another number.
	Replicas int

	// Durability is what an acknowledged write to these servers survives, which
	// they do not tell by themselves. Default: Majority with Replicas above 1,
	// else Process. Disk is true of embedded.Start's default, and of a server that
	// is set to sync_interval: always.
	Durability Durability

	// MaxBytes bounds what all jobs of the namespace take, with their results.
	// At nine tenths of it Submit refuses, the rest is for results. At least
	// 1 MiB. The last program that opens the namespace decides. Default:
	// DefaultMaxBytes.
	MaxBytes int64

	// Timeout bounds each operation on the server, with its repetitions. From
	// 10 ms to a minute. Default: DefaultTimeout.
	Timeout time.Duration
}

// QueueOptions say what becomes of the jobs of one queue. All programs that use
// the queue should have the same ones; where they do not, each acts by its own.
type QueueOptions struct {
	// Lease is how long after the last heartbeat a job of a dead worker is
	// started again. The first program that uses the queue decides; the others
	// adopt it. From 100 ms to an hour. Default: DefaultLease.
	Lease time.Duration

	// MaxAttempts is how many attempts a job has before it is dead, including
	// those whose worker died. 1: no attempt is repeated, so that what the job
	// does happens at most once, and a Worker that has to stop fails it. Up to the
	// constant MaxAttempts. Default: DefaultMaxAttempts, which with the default
	// waits keeps a job for more than ten hours.
	MaxAttempts int

	// MaxCrashes is how many attempts of a job may lose their worker before the
	// job is dead. It is lower than MaxAttempts because an input that kills its
	// worker takes down whatever runs beside it. From 1 to MaxAttempts. Default:
	// DefaultMaxCrashes, or MaxAttempts if that is lower.
	MaxCrashes int

	// AttemptTimeout bounds one attempt. After it its context ends; if the
	// handler does not return then, it keeps its permit, and the job goes on
	// without it. Default: DefaultAttemptTimeout. Negative: none.
	AttemptTimeout time.Duration

	// RetryInitial and RetryMax bound the wait before the next attempt: it
	// doubles from one to the next, and up to a fifth of it is taken off at
	// random. From 1 ms to MaxDelay. Defaults: DefaultRetryInitial, and
	// DefaultRetryMax, or RetryInitial if that is more.
	RetryInitial, RetryMax time.Duration

	// Classify says what an error of the handler means. weir.ClassPermanent and
	// weir.ClassNotFound fail the job at once, all others are retried. Errors by
	// Permanent and RetryIn, and refusals by a limiter, are not asked about. Nil:
	// all are retried. It must not block or panic.
	Classify func(error) weir.Class

	// ResultTTL is how long results, and canceled and failed jobs, are kept. As
	// long, the same key is the same job. It is at least three leases and a
	// second, also where less is given; from 1 s to MaxKeep. Default:
	// DefaultResultTTL. None: as short as that, but failed jobs for DeadTTL.
	ResultTTL time.Duration

	// DeadTTL is how long dead jobs are kept, with the same least. Default:
	// DefaultDeadTTL.
	DeadTTL time.Duration

	// MaxQueued bounds how many jobs are not over. It is looked at every 100 ms
	// by each program that submits; in between several of them can go beyond it
	// by what the others have submitted. At least 1. Default: DefaultMaxQueued.
	MaxQueued int

	// MaxAge rejects new jobs while the oldest job that no worker has taken has
	// waited longer than this. The default is longer than the default retries
	// last, so that an outage of the source alone does not reach it. Default:
	// DefaultMaxAge. Negative: no bound.
	MaxAge time.Duration

	// MaxInput and MaxResult bound an encoded input and result, in bytes, from 1
	// to MaxPayload. The server's max_payload does too. Defaults: DefaultMaxInput,
	// DefaultMaxResult.
	MaxInput, MaxResult int

	// Version is that of the input's form. A worker hands jobs of a higher one
	// back, for a newer worker; those of lower ones it decodes. From 0.
	Version int
}

// SubmitOptions are of one job.
type SubmitOptions struct {
	// Key names the job: as long as one with this key is not over, or is kept as
	// done, Submit joins it. A key of a job that failed, died or was canceled
	// is free again. Empty: each is a job of its own. At most MaxKey bytes.
	Key string

	// Restart begins a job anew that is done. One that is not over is joined all
	// the same.
	Restart bool

	// Once keeps the key of a finished job taken, however the job ended, until the
	// job is forgotten: Submit joins a job that failed, died or was canceled, and
	// nothing runs again. Restart has no effect then. Without a Key it has none.
	Once bool

	// Delay is how long the first attempt waits. Zero: not at all. At most
	// MaxDelay.
	Delay time.Duration

	// Deadline is how long after the acceptance the first attempt may start at
	// the latest; above Delay. A job that is too late fails with ErrExpired. Zero:
	// whenever.
	Deadline time.Duration

	// Serial, if not empty, lets jobs of the queue with the same Serial run one
	// after another, in no order. At most MaxKey bytes.
	Serial string

	// Fingerprint says, with a Key, which inputs are the same: a job with the same
	// Key and another Fingerprint is refused with ErrConflict. Empty: the encoded
	// input. At most MaxKey bytes.
	Fingerprint string

	// Owner is handed back in the Status. At most MaxKey bytes.
	Owner string
}

// WorkerOptions are of one Worker.
type WorkerOptions struct {
	// Name is the worker's, in the history of attempts. Default: host and
	// process.
	Name string

	// Concurrency is how many jobs the worker has at once, from 1 to 4096.
	// Default: DefaultConcurrency.
	Concurrency int

	// Limiter admits attempts beside that, as it does loads of a Guard, with
	// which it may be shared. A job that it refuses is handed back until its
	// RetryAfter, and the attempt does not count. Nil: there is none.
	Limiter limit.Limiter

	// Observer is notified of attempts and of what happens beside them. Nil: there is
	// none. See [Observers] for several.
	Observer Observer
}

// A Codec makes bytes of values and back. Decode gets the Version that the
// bytes were written with.
type Codec[T any] struct {
	Encode func(T) ([]byte, error)
	Decode func(data []byte, version int) (T, error)
}

// JSON is the Codec of queues that name none.
func JSON[T any]() Codec[T] {
	return Codec[T]{
		Encode: func(v T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(data []byte, _ int) (v T, err error) {
			err = json.Unmarshal(data, &v)
			return v, err
		},
	}
}
