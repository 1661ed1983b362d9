package jobslab

import (
	"context"
	"time"
)

// do executes a job.
func (d *drive) do(number int64) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started[number]++; d.started[number] > 1 {
		d.again++
		return
	}
	if called, ok := d.calls[number]; ok {
		d.latency = append(d.latency, now.Sub(called))
	}
}

// work starts the workers.
func (d *drive) work() (stop func() error, err error) {
	d.mu.Lock()
	d.started = make(map[int64]int)
	d.mu.Unlock()
	return d.system.Work(d.order.Workers, d.do)
}

// patience is how long a system may take to start the jobs it has accepted.
const patience = time.Minute

// done waits until all accepted jobs have started and the system reports that none is
// left. Jobs that do not start within patience count as lost.
func (d *drive) done(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for d.lost() > 0 && ctx.Err() == nil {
		rest(ctx, time.Millisecond)
	}
	for ctx.Err() == nil {
		idle, err := d.system.Idle(ctx)
		if idle || err != nil {
			return err
		}
		rest(ctx, 2*time.Millisecond)
	}
	return nil // d.lost and the time show the failure
}

func (d *drive) lost() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.started) < len(d.accepted) {
		return len(d.accepted) - len(d.started)
	}
	lost := 0
	for n := range d.accepted {
		if d.started[n] == 0 {
			lost++
		}
	}
	return lost
}

// rest waits, at most until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
