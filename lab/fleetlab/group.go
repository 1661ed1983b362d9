package fleetlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Group is many Members in one process, for experiments that need more of them than
// the machine can run as processes. Each has a tier with its own connections, and
// they share nothing else. The source is a sleep.
type Group struct {
	members []*Member
	wait    time.Duration
	loads   atomic.Int64
	running atomic.Int64
}

// NewGroup returns a Group of n Members whose loads take wait. Close ends it.
func NewGroup(o InstanceOptions, n int, wait time.Duration) (*Group, error) {
	g := &Group{wait: wait}
	for range n {
		m, err := Join(o, g.load)
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.members = append(g.members, m)
	}
	return g, nil
}

// Close closes all Members concurrently.
func (g *Group) Close() error {
	errs := make([]error, len(g.members))
	var all sync.WaitGroup
	for i, m := range g.members {
		all.Go(func() { errs[i] = m.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Running returns the number of running loads.
func (g *Group) Running() int64 { return g.running.Load() }

func (g *Group) load(ctx context.Context, key string) (Answer, error) {
	g.loads.Add(1)
	g.running.Add(1)
	defer g.running.Add(-1)
	t := time.NewTimer(g.wait)
	defer t.Stop()
	select {
	case <-t.C:
		return Answer{Key: key, Version: 1}, nil
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

// A Crowd is the outcome of concurrent callers.
type Crowd struct {
	Loads   int64     // run by the Group during the crowd
	Alone   int64     // of those, by Members whose tier was unavailable, or missed its deadline
	Failed  int64     // callers
	Error   string    // of one of the failed callers
	TookMS  []float64 // of each successful caller, in no order
	Members int
}

// Crowd calls Get for key on each Member, with callers concurrent callers each.
func (g *Group) Crowd(ctx context.Context, key string, callers int) Crowd {
	c := Crowd{Members: len(g.members)}
	before, alone := g.loads.Load(), g.alone()
	start := make(chan struct{})
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, m := range g.members {
		for range callers {
			all.Go(func() {
				<-start
				began := time.Now()
				a, err := m.Guard.Get(ctx, key)
				took := time.Since(began)
				if err == nil && a.Key != key {
					err = fmt.Errorf("fleetlab: the value of %q for %q", a.Key, key)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					c.Failed++
					c.Error = err.Error()
					return
				}
				c.TookMS = append(c.TookMS, float64(took)/float64(time.Millisecond))
			})
		}
	}
	close(start)
	all.Wait()
	c.Loads, c.Alone = g.loads.Load()-before, g.alone()-alone
	return c
}

// alone returns the number of loads that Members have run without the tier.
func (g *Group) alone() int64 {
	var n uint64
	for _, m := range g.members {
		n += m.Guard.Stats().Fleet.Alone
	}
	return int64(n) //nolint:gosec // counts of loads
}

// A Flow is a steady load on each Member.
type Flow struct {
	Rate     int           // Gets per second on each Member
	Duration time.Duration // duration of the load
	Seed     uint64
	// Draw returns a key's number, from 0 to below Keys.
	Draw func(*rand.Rand) int `json:"-"`
	Keys int
}

// Steady is the result of a Flow.
type Steady struct {
	Gets, Failed, Loads int64
	// Pairs is the number of different pairs of a Member and a key requested from it.
	Pairs int64
	// Late is the number of Gets that began over a tenth of a second late because the
	// machine did not keep up.
	Late    int64
	Seconds float64
}

// Steady sends the flow to all Members and returns when its last Get has
// returned.
func (g *Group) Steady(ctx context.Context, f Flow) Steady {
	var s Steady
	var mu sync.Mutex
	before, began := g.loads.Load(), time.Now()
	var all sync.WaitGroup
	for i, m := range g.members {
		all.Go(func() {
			one := m.steady(ctx, f, rand.New(rand.NewPCG(f.Seed, uint64(i))))
			mu.Lock()
			defer mu.Unlock()
			s.Gets += one.Gets
			s.Failed += one.Failed
			s.Pairs += one.Pairs
			s.Late += one.Late
		})
	}
	all.Wait()
	s.Loads, s.Seconds = g.loads.Load()-before, time.Since(began).Seconds()
	return s
}

// steadyTick is the interval at which due Gets are started. A machine that falls
// behind has steadyGrace to start the last ones. At most steadyMisses Gets of a
// Member wait at once: otherwise a cold start would become a growing crowd.
const (
	steadyTick   = 2 * time.Millisecond
	steadyGrace  = 2 * time.Second
	steadyMisses = 256
)

func (m *Member) steady(ctx context.Context, f Flow, random *rand.Rand) Steady {
	var s Steady
	var failed atomic.Int64
	var all sync.WaitGroup
	asked, places := make([]bool, f.Keys), make(chan struct{}, steadyMisses)
	gap := time.Second / time.Duration(f.Rate)
	total := int64(f.Duration / gap)
	began := time.Now()
	tick := time.NewTicker(steadyTick)
	defer tick.Stop()
	for s.Gets < total && time.Since(began) < f.Duration+steadyGrace && ctx.Err() == nil {
		<-tick.C
		due := min(int64(time.Since(began)/gap), total)
		if late := due - s.Gets - int64(100*time.Millisecond/gap); late > 0 {
			s.Late += late
		}
		for ; s.Gets < due; s.Gets++ {
			n := f.Draw(random)
			if !asked[n] {
				asked[n] = true
				s.Pairs++
			}
			key := fmt.Sprintf("steady-%d", n)
			if _, ok := m.Guard.Peek(key); ok { // then Get does not wait
				if _, err := m.Guard.Get(ctx, key); err != nil {
					failed.Add(1)
				}
				continue
			}
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				if _, err := m.Guard.Get(ctx, key); err != nil {
					failed.Add(1)
				}
			})
		}
	}
	all.Wait()
	s.Failed = failed.Load()
	return s
}
