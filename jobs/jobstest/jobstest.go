package jobstest

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/trial"
)

// DefaultQueue is the default name of the queue.
const DefaultQueue = "test"

// Options say how jobs are run. The zero Options are the defaults of a queue and a
// worker.
type Options struct {
	// Queue is the name of the queue. Default: DefaultQueue.
	Queue string

	// QueueOptions are those of the queue. Lease, ResultTTL, DeadTTL, MaxQueued and
	// MaxAge have no effect.
	QueueOptions jobs.QueueOptions

	// Middleware is that of the Worker. Nil: none.
	Middleware []jobs.Middleware
}

// A Kit runs one handler. It is safe for concurrent use if the handler is.
type Kit[In, Out any] struct {
	handler jobs.Handler[In, Out]
	o       Options
	in      jobs.Codec[In]
	out     jobs.Codec[Out]
}

// New returns a Kit for a handler, which must not be nil. Inputs and results are JSON,
// unless WithCodecs sets other codecs.
func New[In, Out any](h jobs.Handler[In, Out], o Options) *Kit[In, Out] {
	if h == nil {
		panic("jobstest: New without a handler")
	}
	if o.Queue == "" {
		o.Queue = DefaultQueue
	}
	return &Kit[In, Out]{handler: h, o: o, in: jobs.JSON[In](), out: jobs.JSON[Out]()}
}

// WithCodecs returns a Kit for the same handler with other codecs.
func (k *Kit[In, Out]) WithCodecs(in jobs.Codec[In], out jobs.Codec[Out]) *Kit[In, Out] {
	return &Kit[In, Out]{handler: k.handler, o: k.o, in: in, out: out}
}

// Submit returns a new job, or the error of the options, or the one that Submit of a
// Queue returns for such an input: jobs.ErrTooLarge, or that of the encoding.
func (k *Kit[In, Out]) Submit(in In, o jobs.SubmitOptions) (*Job[Out], error) {
	j, err := trial.New(k.handler, trial.Spec{
		Queue: k.o.Queue, Options: k.o.QueueOptions, Middleware: k.o.Middleware,
		In: k.in, Out: k.out, Input: in, Submit: o,
	})
	if err != nil {
		return nil, err
	}
	return &Job[Out]{j}, nil
}

// A Job is a job in memory. It is not safe for concurrent use.
type Job[Out any] struct{ j trial.Job }

// An Attempt is what became of one attempt.
type Attempt[Out any] struct {
	// Kind is how the attempt ended: EventSucceeded, EventRetried, EventEnded (the job
	// failed or is dead), EventSnoozed, EventHandedBack or EventDropped (the job was
	// canceled, or the lease lost).
	Kind jobs.EventKind

	// State is that of the job after the attempt.
	State jobs.State

	// Result is the result of a job that is done, as a caller of Wait gets it: encoded
	// and decoded.
	Result Out

	// Err is what the handler returned, through the Middleware; nil if the job is done. A
	// panic is a *jobs.PanicError. For EventDropped it is the cause.
	Err error

	// RetryIn is the wait before the next attempt, if the State is StateRetrying. Waits
	// after a failure have a random share.
	RetryIn time.Duration

	// Progress are all reports of the attempt, in order.
	Progress []jobs.Progress
}

// Attempt runs the handler once. The wait before the attempt, or the Delay before the
// first one, is skipped. It panics if the job is over.
func (j *Job[Out]) Attempt(ctx context.Context) Attempt[Out] {
	end := j.j.Attempt(ctx)
	a := Attempt[Out]{Kind: end.Kind.(jobs.EventKind), State: j.Status().State, Err: end.Err, RetryIn: end.RetryIn}
	a.Result, _ = end.Result.(Out) // nil: there is none
	for _, p := range end.Progress {
		a.Progress = append(a.Progress, p.(jobs.Progress))
	}
	return a
}

// maxHandedBack bounds Finish: attempts that are handed back count for no other bound.
const maxHandedBack = 1000

// Finish runs attempts until the job is over, and returns them all. It returns early if
// ctx ends. It panics if a thousand attempts in a row are handed back.
func (j *Job[Out]) Finish(ctx context.Context) []Attempt[Out] {
	var all []Attempt[Out]
	for back := 0; ctx.Err() == nil && !j.Status().State.Terminal(); {
		a := j.Attempt(ctx)
		all = append(all, a)
		if back++; a.Kind != jobs.EventHandedBack {
			back = 0
		}
		if back == maxHandedBack {
			panic(fmt.Sprintf("jobstest: the last %d attempts were handed back: %v", back, a.Err))
		}
	}
	return all
}

// Status returns the job's Status. Its times are those of the job's clock, which has
// skipped the waits.
func (j *Job[Out]) Status() jobs.Status { return j.j.Status().(jobs.Status) }
