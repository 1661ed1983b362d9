package jobsctl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir/jobs"
)

// atOnce is how many jobs are acted on at the same time.
const atOnce = 8

// An Outcome is what came of a verb.
type Outcome struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
	Did   string `json:"did,omitempty"`   // Verb.Past; empty: it failed
	Error string `json:"error,omitempty"` // why

	err error
}

// Act does v to all of the jobs, and says of each what came of it, in their
// order. done, if not nil, gets how many are through; it is called from
// several goroutines. The error is that of all which failed, each a sentence.
func Act(ctx context.Context, s Source, v Verb, all []jobs.Status, done func(int)) ([]Outcome, error) {
	out := make([]Outcome, len(all))
	var through atomic.Int64 // an atomic, as the goroutines share nothing else
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, j := range all {
		group.Go(func() error {
			out[i] = act(ctx, s, v, j)
			if n := int(through.Add(1)); done != nil {
				done(n)
			}
			return nil
		})
	}
	_ = group.Wait() // what failed is in out
	return out, joined(out)
}

func act(ctx context.Context, s Source, v Verb, j jobs.Status) Outcome {
	o := Outcome{Queue: j.Queue, ID: j.ID}
	if err := context.Cause(ctx); err != nil {
		o.err, o.Error = err, err.Error()
		return o
	}
	err := s.Do(ctx, v, j.Queue, j.ID)
	if err == nil {
		o.Did = v.Past()
		return o
	}
	o.err = explain(ctx, s, v, j, err)
	o.Error = o.err.Error()
	return o
}

// joined are the errors of the outcomes. Where nobody answers, once is enough.
func joined(out []Outcome) error {
	var faults []error
	told := map[string]bool{}
	for _, o := range out {
		if o.err != nil && !told[o.Error] {
			told[o.Error] = true
			faults = append(faults, o.err)
		}
	}
	return errors.Join(faults...)
}

// explain makes a sentence of what v got back for j. A conflict is one with the
// state that j has now, which may not be the one that it was listed with.
func explain(ctx context.Context, s Source, v Verb, j jobs.Status, err error) error {
	switch {
	case isNotFound(err):
		return &problem{fmt.Sprintf("job %s is not there any more, so it was not %s", j.ID, v.Past()), err}
	case !errors.Is(err, jobs.ErrConflict) && !errors.Is(err, jobs.ErrFinished):
		return err
	}
	now, again := s.Status(ctx, j.Queue, j.ID)
	if again != nil {
		return fmt.Errorf("job %s: %w", j.ID, err)
	}
	text := fmt.Sprintf("job %s is %s: only jobs that are %s can be %s", j.ID, now.State, Words(v.States(), "or"), v.Past())
	switch {
	case v == Cancel && now.State == jobs.StateCanceled:
		text = fmt.Sprintf("job %s is canceled already", j.ID)
	case wanted(now, v.States()): // it is not the state
		text = fmt.Sprintf("job %s is %s, and yet: %v", j.ID, now.State, err)
	case v == Drop:
		text += fmt.Sprintf(`; to be rid of it, "weir jobs cancel %s" first`, j.ID[:min(len(j.ID), shortID)])
	}
	return &problem{text, err}
}
