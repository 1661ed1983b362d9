package jobscheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/jobs"
)

// graceful is how long a stopping worker waits for its attempts.
const graceful = 300 * time.Millisecond

// An outcome is the error of an attempt that fails as planned.
type outcome struct{ how string }

func (o outcome) Error() string { return o.how + ": as planned" }

// classify is the queue's Classify function.
func classify(err error) weir.Class {
	var o outcome
	if errors.As(err, &o) {
		switch o.how {
		case classed:
			return weir.ClassPermanent
		case overload:
			return weir.ClassOverload
		}
	}
	return weir.ClassTransient
}

// runWorker is the main function of a worker process; it returns when the worker is
// stopped.
func runWorker(c config, j *journal, told <-chan command) error {
	q, end, err := openQueue(c)
	if err != nil {
		return err
	}
	defer end()
	w, err := q.Work(c.handler(j), jobs.WorkerOptions{Name: j.by, Concurrency: concurrency, Observer: notes{j: j}})
	if err != nil {
		return err
	}
	for t := range told {
		if t == tellStop {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), graceful)
	defer cancel()
	if err := w.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// A notes writes what a Worker reports to the journal. The handler logs the starts.
type notes struct {
	jobs.NopObserver
	j *journal
}

func (n notes) AttemptEnd(ctx context.Context, a jobs.AttemptInfo, end jobs.AttemptEnd) {
	n.Event(ctx, jobs.Event{Kind: end.Kind, ID: a.ID, Attempt: a.Attempt, Err: end.Err})
}

func (n notes) Event(_ context.Context, e jobs.Event) {
	note := event{What: said, ID: e.ID, Attempt: e.Attempt, Err: e.Kind.String()}
	switch {
	case e.Kind == jobs.EventSucceeded:
		note.What, note.Err = kept, ""
	case e.Err != nil:
		note.Err += ": " + e.Err.Error()
	}
	n.j.note(note)
}

// handler returns a handler that follows the plan, and logs when each attempt begins
// and ends.
func (c config) handler(j *journal) jobs.Handler[input, string] {
	return func(ctx context.Context, job *jobs.Job[input]) (string, error) {
		e := event{What: started, Name: job.Input.Name, ID: job.ID, Attempt: job.Attempt, Fence: job.Fence}
		j.note(e)
		e.From, e.What = now(), ended
		f := planOf(c.Seed, job.Input.Name, c.Lease).fates(job.Attempt)
		over := time.NewTimer(f.took)
		defer over.Stop()
		select {
		case <-ctx.Done():
			e.Err = fmt.Sprintf("%s: %v", stopped, context.Cause(ctx))
			j.note(e)
			return "", context.Cause(ctx)
		case <-over.C:
		}
		if f.how == fine {
			e.Result = fmt.Sprintf("%s/%d/%d/%s", job.Input.Name, job.Attempt, job.Fence, j.by)
			j.note(e)
			return e.Result, nil
		}
		err := outcome{f.how}
		e.Err = err.Error()
		j.note(e)
		switch f.how {
		case panics:
			panic(err)
		case permanent:
			return "", jobs.Permanent(err)
		case retryIn:
			return "", jobs.RetryIn(err, retryInitial)
		}
		return "", err
	}
}

// howOf returns the outcome that an ended event reports.
func howOf(e event) string {
	how, _, _ := strings.Cut(e.Err, ":")
	return how
}
