package jobscheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
)

// Run performs a whole check: it starts the processes, injects faults for
// Options.For, waits until all jobs are over, stops everything, and judges. The error
// reports a failure of the checker itself; broken rules are in the Report.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if o, err = o.validate(); err != nil {
		return nil, err
	}
	w, err := newWorld(o)
	if w != nil {
		defer func() { err = errors.Join(err, w.end()) }()
	}
	if err != nil {
		return nil, err
	}
	c := &chaos{w: w, faults: map[string]int{}, busy: map[*process]bool{}}
	harm, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	told := make(chan struct{})
	go func() { defer close(told); w.tellProgress(harm) }()
	err = c.play(harm)
	<-told
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	store, closeStore, err := openStore(w.config(nil))
	if err != nil {
		return nil, err
	}
	defer closeStore()
	settled, err := w.waitIdle(ctx, store)
	if err != nil {
		return nil, err
	}
	events, err := readJournal(w.log)
	if err != nil {
		return nil, err
	}
	ends, err := finals(ctx, store, o.Lease, events)
	if err != nil {
		return nil, err
	}
	h := newHistory(o, events, ends)
	h.judge()
	return h.report(c.faults, settled), nil
}

// every is how often progress is reported.
const every = 10 * time.Second

// tellProgress regularly reports how many events the log has so far.
func (w *world) tellProgress(ctx context.Context) {
	f, err := os.Open(w.log)
	if err != nil {
		return // the run itself will fail
	}
	defer f.Close()
	var submits, ends, harms int
	begin := time.Now()
	for tick := time.Tick(every); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		text, _ := io.ReadAll(f) // from where the last read ended
		count := func(ws ...what) (n int) {
			for _, w := range ws {
				n += bytes.Count(text, fmt.Appendf(nil, `"what":"%s"`, w))
			}
			return n
		}
		submits, ends, harms = submits+count(submitted), ends+count(ended), harms+count(killed, paused, asked)
		fmt.Fprintf(w.o.Progress, "%v: %d submits returned, %d attempts ended, %d faults\n", time.Since(begin).Round(time.Second), submits, ends, harms)
	}
}

// waitIdle ends the submissions, waits until no job is left, and stops the workers.
// It returns how long the jobs took.
func (w *world) waitIdle(ctx context.Context, store *jobs.Store) (time.Duration, error) {
	begin := time.Now()
	fmt.Fprintf(w.o.Progress, "no more faults; waiting for all jobs to finish\n")
	for _, p := range w.parts {
		if p.role == roleSubmitter {
			if err := p.tell(tellQuiet); err != nil {
				return 0, err
			}
		}
	}
	var took time.Duration
	for left := 1; left > 0 || !w.allQuiet(); {
		if time.Since(begin) > w.o.Settle {
			fmt.Fprintf(w.o.Progress, "%d jobs are not over after %v\n", left, w.o.Settle)
			break
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		queues, err := store.Queues(ctx)
		if err != nil {
			continue // the deadline bounds this loop
		}
		was := left
		left = 0
		for _, q := range queues {
			left += q.Waiting + q.Taken
		}
		if was > 0 && left == 0 {
			took = time.Since(begin)
		}
	}
	var asked sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, p := range w.parts {
		if p.role == roleWorker {
			asked.Go(func() {
				err := p.tell(tellStop)
				select {
				case <-p.over():
				case <-time.After(10 * time.Second):
					err = errors.Join(err, fmt.Errorf("jobscheck: %s did not stop", p.name))
				}
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
	}
	asked.Wait()
	return took, errors.Join(errs...)
}

// allQuiet reports whether the last life of each submitter has logged quiet.
func (w *world) allQuiet() bool {
	text, err := os.ReadFile(w.log)
	if err != nil {
		return false
	}
	return bytes.Count(text, []byte(`"what":"`+string(quiet)+`"`)) >= w.o.Submitters
}

// A final is the final state of a job.
type final struct {
	status jobs.Status
	result string // only for a job that is done
	err    error  // of the query
}

// finals queries every job that an event names.
func finals(ctx context.Context, store *jobs.Store, lease time.Duration, events []event) (map[string]final, error) {
	q, err := jobs.NewQueue[input, string](ctx, store, queueName, queueOptions(lease))
	if err != nil {
		return nil, err
	}
	ends := map[string]final{}
	for _, e := range events {
		if _, seen := ends[e.ID]; seen || e.ID == "" {
			continue
		}
		h := q.Job(e.ID)
		var f final
		if f.status, f.err = h.Status(ctx); f.err == nil && f.status.State == jobs.StateDone {
			ctx, cancel := context.WithTimeout(ctx, 2*opTimeout)
			f.result, f.err = h.Wait(ctx)
			cancel()
		}
		ends[e.ID] = f
	}
	return ends, nil
}
