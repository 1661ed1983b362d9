package jobscheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
)

const (
	submitLoops = 4                // concurrent loops per submitter
	keyWindow   = 2 * time.Second  // during a window, submitters draw from the same keys
	keysAtOnce  = 5                // keys per window
	waitAtMost  = 45 * time.Second // how long to wait for results after quiet
)

func isKey(name string) bool { return strings.HasPrefix(name, "key-") }

// A submitter is a process that submits, waits and cancels.
type submitter struct {
	c     config
	j     *journal
	q     *jobs.Queue[input, string]
	calls sync.WaitGroup // waits and cancels in progress
}

// runSubmitter submits until it is stopped, and then waits for its jobs.
func runSubmitter(c config, j *journal, told <-chan command) error {
	q, end, err := openQueue(c)
	if err != nil {
		return err
	}
	defer end()
	s := &submitter{c: c, j: j, q: q}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	waitCtx, stopWaits := context.WithCancel(context.Background())
	defer stopWaits()
	var loops sync.WaitGroup
	for i := range submitLoops {
		loops.Go(func() { s.loop(ctx, waitCtx, i) })
	}
	for t := range told {
		switch t {
		case tellQuiet:
			stop()
			loops.Wait()
			late := time.AfterFunc(waitAtMost, stopWaits)
			s.calls.Wait()
			late.Stop()
			j.note(event{What: quiet})
		case tellStop:
			return nil
		}
	}
	return nil
}

// loop submits one job after another, at random instants.
func (s *submitter) loop(ctx, waitCtx context.Context, i int) {
	r := draw(s.c.Seed, fmt.Sprintf("%s loop %d", s.j.by, i))
	mean := float64(submitLoops) / s.c.Rate
	for n := 0; ; n++ {
		pause := time.NewTimer(time.Duration(r.ExpFloat64() * mean * float64(time.Second)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		name := fmt.Sprintf("%s-%d-%d", s.j.by, i, n)
		if r.IntN(3) == 0 {
			name = fmt.Sprintf("key-%d-%d", now()/int64(keyWindow), r.IntN(keysAtOnce))
		}
		s.submit(waitCtx, r, name)
	}
}

func (s *submitter) submit(waitCtx context.Context, r *rand.Rand, name string) {
	p := planOf(s.c.Seed, name, s.c.Lease)
	s.j.note(event{What: submitting, Name: name})
	ctx, cancel := context.WithTimeout(context.Background(), 2*opTimeout)
	defer cancel()
	from := now()
	h, err := s.q.Submit(ctx, input{name}, p.o)
	e := event{At: now(), From: from, What: submitted, Name: name, Err: errorName(err)}
	if err != nil {
		s.j.note(e)
		return
	}
	e.ID, e.Joined, e.Result = h.ID(), h.Joined(), h.Durability().String()
	s.j.note(e)
	if p.cancel > 0 && r.IntN(3) > 0 {
		s.calls.Go(func() { s.cancel(h, name, p.cancel) })
	}
	if r.IntN(3) > 0 {
		s.calls.Go(func() { s.wait(waitCtx, h, name) })
	}
}

func (s *submitter) cancel(h *jobs.Handle[string], name string, after time.Duration) {
	<-time.After(after)
	s.j.note(event{What: canceling, Name: name, ID: h.ID()})
	ctx, end := context.WithTimeout(context.Background(), 2*opTimeout)
	defer end()
	from := now()
	err := h.Cancel(ctx)
	s.j.note(event{At: now(), From: from, What: canceled, Name: name, ID: h.ID(), Err: errorName(err)})
}

func (s *submitter) wait(ctx context.Context, h *jobs.Handle[string], name string) {
	from := now()
	result, err := h.Wait(ctx)
	s.j.note(event{At: now(), From: from, What: waited, Name: name, ID: h.ID(), Result: result, Err: errorName(err)})
}

// Names of errors in the log. Other errors are logged with their text, and break the
// rule "error".
const (
	full     = "full"
	unknown  = "unknown" // the call may have taken effect
	finished = "finished"
	notFound = "not found"
	isCancel = "canceled"
	isFailed = "failed"
	isDead   = "dead"
)

func errorName(err error) string {
	var job *jobs.JobError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &job):
		return job.State.String()
	case errors.Is(err, jobs.ErrFull):
		return full
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unknown
	case errors.Is(err, jobs.ErrFinished):
		return finished
	case errors.Is(err, jobs.ErrNotFound):
		return notFound
	case errors.Is(err, jobs.ErrCanceled):
		return isCancel
	}
	return "other: " + err.Error()
}
