package simulate

import (
	"container/heap"
	"math"
	"time"
)

// convoy is the server for the model Convoy. All its jobs advance at the same rate,
// so one sum says how far each has got. done is the work, in nanoseconds, that a job
// present from the start would have completed. A job ends when done reaches its key,
// which is done at its entry plus its own demand.
type convoy struct {
	src *Source
	progress
	work jobHeap
	hung int

	done  float64
	since time.Duration // the instant up to which done is counted
}

func (c *convoy) inside() int { return len(c.work) + c.hung }

// rate returns how fast each job advances when n of them are in progress.
func (c *convoy) rate(n, capacity int) float64 {
	if n <= capacity {
		return 1
	}
	over := float64(n-capacity) / float64(capacity)
	return float64(capacity) / float64(n) / (1 + c.src.penalty()*over)
}

// step advances done to now, using the capacity that has held until now.
func (c *convoy) step(now time.Duration) {
	if now == c.since {
		return
	}
	// Every change goes through step first, so nothing has changed since c.since.
	c.done += float64(c.made(now)-c.made(c.since)) * c.rate(c.inside(), c.src.CapacityAt(c.since))
	c.since = now
}

func (c *convoy) enter(now time.Duration, j *job) {
	c.step(now)
	if c.src.hung(now) {
		j.state = hanging
		c.hung++
		return
	}
	j.state, j.key = working, c.done+float64(c.src.demand(j, now))
	heap.Push(&c.work, j)
}

func (c *convoy) leave(now time.Duration, j *job) {
	c.step(now)
	switch {
	case j.state == hanging:
		c.hung--
	case c.src.KeepServer, c.src.Unaware:
		j.orphan = true
		return
	default:
		heap.Remove(&c.work, j.pos)
	}
	j.state = outside
}

func (c *convoy) next(now time.Duration) (time.Duration, bool) {
	if len(c.work) == 0 {
		return 0, false
	}
	// Work is counted up to c.since, which may be earlier than now.
	left := (c.work[0].key - c.done) / c.rate(c.inside(), c.src.CapacityAt(c.since))
	return max(now, c.reached(c.made(c.since)+time.Duration(math.Ceil(left)))), true
}

func (c *convoy) finish(now time.Duration) *job {
	c.step(now)
	j := heap.Pop(&c.work).(*job)
	if c.src.hung(now) && !j.orphan {
		j.state = hanging
		c.hung++
		return nil
	}
	j.state = outside
	return j
}
