package jobslab

import (
	"context"
	"errors"
	"sync"
	"time"
)

// submitter submits one job after another, until stop ends.
func (d *drive) submitter(ctx, stop context.Context) {
	var took []time.Duration
	var numbers []int64
	var failures int64
	var first string
	for stop.Err() == nil {
		n, began := d.number.Add(1), time.Now()
		if err := d.system.Submit(ctx, n); err != nil {
			if failures++; first == "" {
				first = err.Error()
			}
			continue
		}
		took, numbers = append(took, time.Since(began)), append(numbers, n)
	}
	d.add(numbers, took, failures, first)
}

// submitterOfMany is submitter with several jobs per call.
func (d *drive) submitterOfMany(ctx, stop context.Context, s ManySubmitter) {
	for stop.Err() == nil {
		numbers := make([]int64, d.order.Many)
		for i := range numbers {
			numbers[i] = d.number.Add(1)
		}
		began := time.Now()
		if err := s.SubmitMany(ctx, numbers); err != nil {
			d.add(nil, nil, 1, err.Error())
			continue
		}
		d.add(numbers, []time.Duration{time.Since(began)}, 0, "")
	}
}

func (d *drive) add(numbers []int64, took []time.Duration, failures int64, first string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.accepted == nil {
		d.accepted = make(map[int64]bool)
	}
	for _, n := range numbers {
		d.accepted[n] = true
	}
	d.latency = append(d.latency, took...)
	d.failures += failures
	if d.first == "" {
		d.first = first
	}
}

// submit runs the submitters for the duration in the order, and returns how long they
// took.
func (d *drive) submit(ctx context.Context) (time.Duration, error) {
	many, ok := d.system.(ManySubmitter)
	if d.order.Many > 0 && !ok {
		return 0, errors.New("jobslab: the system does not accept several jobs per call")
	}
	began := time.Now()
	stop, cancel := context.WithTimeout(ctx, d.order.Lasts)
	defer cancel()
	var wg sync.WaitGroup
	for range d.order.Submitters {
		wg.Go(func() {
			if d.order.Many > 0 {
				d.submitterOfMany(ctx, stop, many)
				return
			}
			d.submitter(ctx, stop)
		})
	}
	wg.Wait()
	return time.Since(began), ctx.Err()
}
