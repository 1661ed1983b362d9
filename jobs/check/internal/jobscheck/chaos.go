package jobscheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// A chaos injects faults into the world and repairs them.
type chaos struct {
	w      *world
	faults map[string]int // count by kind; used by one goroutine
	next   time.Time      // earliest time of the next server fault; used by one goroutine

	mu     sync.Mutex
	busy   map[*process]bool // guarded by mu; has a fault that is not repaired yet
	broken error             // guarded by mu; an error of the checker itself
	hurts  sync.WaitGroup    // faults in progress
}

// play injects faults until ctx ends. It returns when all are repaired: killed
// processes run again, and stopped ones have continued.
func (c *chaos) play(ctx context.Context) error {
	r := draw(c.w.o.Seed, "chaos")
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(r.ExpFloat64() * float64(c.w.o.FaultEvery))):
			c.harm(ctx, r)
		}
	}
	c.hurts.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// harm draws a fault and a process, and injects the fault. About one fault in five
// hits a server; servers are hit one at a time.
func (c *chaos) harm(ctx context.Context, r *rand.Rand) {
	n, lasts := r.IntN(100), between(r, 0, time.Second)
	p := c.w.parts[r.IntN(len(c.w.parts))]
	long := between(r, c.w.o.Lease/10, 5*c.w.o.Lease/2)
	server := n < 22 && time.Now().After(c.next)
	if server {
		c.next = time.Now().Add(c.w.o.ServerRest)
		p = c.w.target(ctx)
	} else if c.w.o.Mode == Embedded && p == c.w.parts[0] {
		return // this process contains the server, whose faults are drawn separately
	}
	if !c.take(p, server) {
		return
	}
	var hurt func() error
	kind := "kill"
	switch stop := n%5 == 0; {
	case stop:
		kind = "stop"
		hurt = func() error { return c.pause(p, long) }
	case p.role == roleWorker && n%4 == 0:
		kind = "ask to stop"
		hurt = func() error { return c.ask(p, lasts) }
	default:
		hurt = func() error { return c.kill(p, lasts) }
	}
	what := p.role
	if server {
		what = roleServer
	}
	c.faults[fmt.Sprintf("%s a %s", kind, what)]++
	c.hurts.Go(func() {
		err := hurt()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, p)
		if err != nil && c.broken == nil {
			c.broken = fmt.Errorf("jobscheck: %s %s: %w", kind, p.name, err)
		}
	})
}

// take marks p as busy. It returns false if p is busy already, or if p is a server
// and another server is busy.
func (c *chaos) take(p *process, server bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.busy {
		if other == p || server && other.role == roleServer {
			return false
		}
	}
	c.busy[p] = true
	return true
}

// Each of these runs in its own goroutine, and returns when its fault is repaired.
// They wait in real time.

func (c *chaos) kill(p *process, lasts time.Duration) error {
	if err := p.kill(); err != nil {
		return err
	}
	<-time.After(lasts)
	return p.start()
}

func (c *chaos) pause(p *process, lasts time.Duration) error {
	if err := p.signal(paused, syscall.SIGSTOP); err != nil {
		return err
	}
	<-time.After(lasts)
	return p.signal(continued, syscall.SIGCONT)
}

// ask tells a worker to stop gracefully, which takes the graceful time and about a
// second. It kills the worker if that takes too long.
func (c *chaos) ask(p *process, lasts time.Duration) error {
	if err := p.tell(tellStop); err != nil {
		return err
	}
	select {
	case <-p.over():
	case <-time.After(graceful + 4*opTimeout):
		if err := p.kill(); err != nil {
			return err
		}
	}
	<-time.After(lasts)
	return p.start()
}
