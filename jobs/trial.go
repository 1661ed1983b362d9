package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs/internal/trial"
	"github.com/weir-go/weir/limit"
)

func init() {
	trial.New = func(handler any, s trial.Spec) (trial.Job, error) { return handler.(trier).trial(s) }
}

// A trier is a Handler of any type.
type trier interface {
	trial(s trial.Spec) (trial.Job, error)
}

// trial returns a job in memory, for package jobstest. Codecs, Middleware, the bounds
// and the decision about the job are those of a Worker.
func (h Handler[In, Out]) trial(s trial.Spec) (trial.Job, error) {
	all, so := s.Middleware.([]Middleware), s.Submit.(SubmitOptions)
	o := s.Options.(QueueOptions).withDefaults()
	if err := o.validate(s.Queue); err != nil {
		return nil, err
	}
	if err := (WorkerOptions{Concurrency: 1, Middleware: all}).validate(); err != nil {
		return nil, err
	}
	q := &Queue[In, Out]{
		queue: &queue{name: s.Queue, o: o, store: &Store{}},
		in:    s.In.(Codec[In]), out: s.Out.(Codec[Out]),
	}
	if err := so.validate(); err != nil {
		return nil, err
	}
	in, _ := s.Input.(In) // nil, if In is an interface
	data, err := q.in.Encode(in)
	if err != nil {
		return nil, fmt.Errorf("jobs: queue %q: input: %w", q.name, err)
	}
	if err := q.fits(data); err != nil {
		return nil, err
	}
	t := &triedJob{
		q: q.queue, id: idOf(DefaultNamespace, q.name, so.Key), input: data,
		handle: handler(q, through(all, h)),
		decode: func(data []byte) (any, error) { return q.out.Decode(data, o.Version) },
	}
	t.record = record{item: q.item(data, so), State: StateQueued, Submitted: t.now()}
	t.due = t.Submitted.Add(so.Delay)
	return t, nil
}

// A triedJob is a job in memory.
type triedJob struct {
	record
	q       *queue
	id      string
	input   []byte
	handle  func(context.Context, *attempt) ([]byte, error)
	decode  func([]byte) (any, error)
	skipped time.Duration // of the waits between attempts
	due     time.Time     // of the next attempt
	at      time.Time     // of the current state
}

func (t *triedJob) now() time.Time { return time.Now().Add(t.skipped) }

// Status implements trial.Job.
func (t *triedJob) Status() any {
	s := Status{
		ID: t.id, Queue: t.q.name, State: t.State, Key: t.Key, Owner: t.Owner, Headers: t.Headers,
		Durability: DurabilityProcess, Attempt: t.record.Attempt, Snoozes: t.Snoozes, Fence: t.Fence, Progress: t.Progress,
		Submitted: t.Submitted, Started: t.Started, Error: t.Error, History: t.History, Log: t.Log, Logged: t.Logged, Revision: t.Fence,
	}
	switch {
	case t.State.Terminal():
		s.Finished = t.at
	case t.due.After(t.at):
		s.NotBefore = t.due
	}
	return s
}

// Attempt implements trial.Job.
func (t *triedJob) Attempt(ctx context.Context) trial.End {
	if t.State.Terminal() {
		panic(fmt.Sprintf("jobstest: the job is %v already", t.State))
	}
	if wait := t.due.Sub(t.now()); wait > 0 {
		t.skipped += wait
	}
	r := t.record
	r.State, r.Progress, r.Error, r.RetryIn = StateRunning, nil, "", 0
	r.Attempt++
	r.Spent++
	r.Fence++
	r.Started, r.Begun = t.now(), true

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d := t.q.o.AttemptTimeout; d > 0 {
		defer time.AfterFunc(d, func() { cancel(ErrTimeout) }).Stop()
	}
	var mu sync.Mutex
	var end trial.End // guarded by mu while the handler runs
	a := &attempt{
		record: r, w: &Worker{queue: t.q, handle: t.handle}, id: t.id, input: t.input, fence: r.Fence, begun: t.Begun, cancel: cancel,
		clock: t.now,
		reported: func(p Progress) {
			mu.Lock()
			defer mu.Unlock()
			end.Progress = append(end.Progress, p)
		},
	}
	data, err := a.call(ctx, limit.Permit{})
	a.quiet()
	mu.Lock()
	defer mu.Unlock()
	cause := context.Cause(ctx)
	e := a.decide(t.now(), cause, errors.Is(cause, ErrStopping), data, err)
	end.Kind, end.Err = e.Kind, err
	t.record, t.at = a.record, t.now()
	switch {
	case e.Kind == EventDropped:
		end.Err = cause
		t.dropped(cause)
	case t.State == StateRetrying:
		end.RetryIn = t.RetryIn
	case t.State == StateDone:
		if end.Result, err = t.decode(data); err != nil {
			end.Err = fmt.Errorf("jobs: result of job %s: %w", t.id, err)
		}
	}
	t.due = t.at.Add(t.RetryIn)
	return end
}

// dropped sets what a job becomes whose attempt was canceled, or has lost its lease to
// the next one.
func (t *triedJob) dropped(cause error) {
	if errors.Is(cause, ErrCanceled) {
		t.State, t.Error = StateCanceled, ErrCanceled.Error()
		return
	}
	t.State = StateRetrying
	t.fail(t.at, errWorkerLost, "")
}
