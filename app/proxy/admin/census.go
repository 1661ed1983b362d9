package admin

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/app/jobsctl"
)

const (
	// censusRest is how many times as long as a count took it is reused. So counting takes
	// at most a tenth of the time, however many jobs there are and however often browsers
	// request it.
	censusRest = 9
	// censusQueues bounds the remembered counts. One more queue empties them.
	censusQueues = 256
)

// A census counts the jobs of queues by state, which reads all of them.
type census struct {
	mu    sync.Mutex
	known map[string]*count // guarded by mu; by queue
}

// A count is the last count of a queue.
type count struct {
	turn chan struct{} // a buffer of one: the caller that has sent uses the fields below

	byState map[string]int // not changed
	at      time.Time      // the end of the count; zero: none
	took    time.Duration
}

// of returns the counts of a queue, and their age. Callers at the same time share a count.
func (c *census) of(ctx context.Context, jobs jobsctl.Source, queue string) (byState map[string]int, age time.Duration, err error) {
	one := c.get(queue)
	select {
	case one.turn <- struct{}{}:
		defer func() { <-one.turn }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	if age := time.Since(one.at); one.at.IsZero() || age > censusRest*one.took {
		began := time.Now()
		page, err := jobs.List(ctx, jobsctl.Query{Queue: queue, Counts: true, Limit: 1})
		if err != nil {
			return nil, 0, err
		}
		one.byState, one.at, one.took = page.Counts, time.Now(), time.Since(began)
	}
	return one.byState, time.Since(one.at), nil
}

func (c *census) get(queue string) *count {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.known[queue]
	if one == nil {
		if len(c.known) >= censusQueues || c.known == nil {
			c.known = make(map[string]*count)
		}
		one = &count{turn: make(chan struct{}, 1)}
		c.known[queue] = one
	}
	return one
}

// forget makes the next callers count anew, after an operator has changed jobs.
func (c *census) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}
