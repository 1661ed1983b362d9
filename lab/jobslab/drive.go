package jobslab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/lab/result"
)

// An Order is one measurement.
type Order struct {
	What       What
	Submitters int
	Workers    int
	Jobs       int           // for Process: number of jobs to execute
	Lasts      time.Duration // duration of submission
	Many       int           // for Enqueue: jobs per call; 0: one, with Submit
	Rate       float64       // for Start: jobs per second
}

// A What is a kind of measurement.
type What string

const (
	// Enqueue submits as fast as possible, without workers.
	Enqueue What = "enqueue"
	// Process executes jobs that were submitted before. The clock stops when none is
	// left.
	Process What = "process"
	// Both submits and executes at the same time. The clock stops when none is left.
	Both What = "both"
	// Start submits a few jobs, and measures the time from the call of Submit to the
	// start of each job.
	Start What = "start"
)

// Names of further values.
const (
	// Submitted counts jobs whose Submit returned no error, in Both.
	Submitted = "submitted"
	// SubmittedRate is jobs submitted per second, during submission.
	SubmittedRate = "submitted per second"
	// Lost counts jobs that were accepted and never started.
	Lost = "lost"
	// Again counts repeated starts of jobs.
	Again = "started again"
)

// Measure clears a system and runs the measurement o.
func Measure(ctx context.Context, s System, o Order) (result.Measurement, error) {
	if err := s.Clear(ctx); err != nil {
		return result.Measurement{}, fmt.Errorf("clear: %w", err)
	}
	d := &drive{system: s, order: o}
	switch o.What {
	case Enqueue:
		return d.enqueue(ctx)
	case Process:
		return d.process(ctx)
	case Both:
		return d.both(ctx)
	case Start:
		return d.start(ctx)
	}
	return result.Measurement{}, fmt.Errorf("jobslab: measure %q?", o.What)
}

// A drive is one running measurement.
type drive struct {
	system System
	order  Order

	number atomic.Int64 // the last number used

	mu       sync.Mutex
	accepted map[int64]bool      // guarded by mu
	latency  []time.Duration     // guarded by mu; of Submit, or until the start
	failures int64               // guarded by mu
	first    string              // guarded by mu; the first failure
	calls    map[int64]time.Time // guarded by mu; when Submit was called, for Start
	started  map[int64]int       // guarded by mu; how often
	again    int64               // guarded by mu
}

func (d *drive) enqueue(ctx context.Context) (result.Measurement, error) {
	took, err := d.submit(ctx)
	load := fmt.Sprintf("%d submitters for %v", d.order.Submitters, d.order.Lasts)
	if d.order.Many > 0 {
		load += fmt.Sprintf(", %d in a call", d.order.Many)
	}
	return d.measurement(load, took), err
}

func (d *drive) process(ctx context.Context) (result.Measurement, error) {
	if err := d.fill(ctx); err != nil {
		return result.Measurement{}, err
	}
	began := time.Now()
	stop, err := d.work()
	if err != nil {
		return result.Measurement{}, err
	}
	err = d.done(ctx)
	took := time.Since(began)
	m := d.measurement(fmt.Sprintf("%d jobs, %d workers", d.order.Jobs, d.order.Workers), took)
	d.worked(&m)
	m.Latency = nil // it is only the latency of filling the queue
	return m, errors.Join(err, stop())
}

// fill submits the jobs that Process needs, as fast as possible.
func (d *drive) fill(ctx context.Context) error {
	many, ok := d.system.(ManySubmitter)
	if !ok {
		return d.fillSingly(ctx)
	}
	for left := d.order.Jobs; left > 0; {
		numbers := make([]int64, min(left, 1000))
		for i := range numbers {
			numbers[i] = d.number.Add(1)
		}
		if err := many.SubmitMany(ctx, numbers); err != nil {
			return err
		}
		d.add(numbers, nil, 0, "")
		left -= len(numbers)
	}
	return nil
}

func (d *drive) fillSingly(ctx context.Context) error {
	errs := make(chan error, 64)
	for range cap(errs) {
		go func() { // ends with the last job or an error
			var numbers []int64
			var err error
			for n := d.number.Add(1); n <= int64(d.order.Jobs) && err == nil; n = d.number.Add(1) {
				err = d.system.Submit(ctx, n)
				numbers = append(numbers, n)
			}
			d.add(numbers, nil, 0, "")
			errs <- err
		}()
	}
	var all error
	for range cap(errs) {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (d *drive) both(ctx context.Context) (result.Measurement, error) {
	stop, err := d.work()
	if err != nil {
		return result.Measurement{}, err
	}
	began := time.Now()
	submitting, err := d.submit(ctx)
	err = errors.Join(err, d.done(ctx))
	took := time.Since(began)
	m := d.measurement(fmt.Sprintf("%d submitters for %v, %d workers", d.order.Submitters, d.order.Lasts, d.order.Workers), took)
	d.worked(&m)
	m.Values[SubmittedRate] = m.Values[Submitted] / submitting.Seconds()
	return m, errors.Join(err, stop())
}

// start submits at the rate, each job when it is due, whether or not earlier ones
// have been accepted.
func (d *drive) start(ctx context.Context) (result.Measurement, error) {
	d.calls = make(map[int64]time.Time)
	stop, err := d.work()
	if err != nil {
		return result.Measurement{}, err
	}
	rest(ctx, 200*time.Millisecond) // by now the workers have found nothing and wait
	began := time.Now()
	var wg sync.WaitGroup
	for n := int64(1); ctx.Err() == nil; n++ {
		due := began.Add(time.Duration(float64(n-1) / d.order.Rate * float64(time.Second)))
		if due.Sub(began) >= d.order.Lasts {
			break
		}
		rest(ctx, time.Until(due))
		wg.Go(func() {
			d.mu.Lock()
			d.calls[n] = time.Now()
			d.mu.Unlock()
			if err := d.system.Submit(ctx, n); err != nil {
				d.add(nil, nil, 1, err.Error())
				return
			}
			d.add([]int64{n}, nil, 0, "")
		})
	}
	wg.Wait()
	err = d.done(ctx)
	m := d.measurement(fmt.Sprintf("%g jobs/s for %v, %d workers", d.order.Rate, d.order.Lasts, d.order.Workers), time.Since(began))
	d.worked(&m)
	return m, errors.Join(err, stop())
}
