package slow

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// reread is how long a Crowd trusts what it has read of its limiter's limit.
	reread = time.Second
	// again is how long it waits before it looks again whom it could cut.
	again = 5 * time.Millisecond
	// leaving is how long a client that was cut counts as one that gives its
	// permit back soon.
	leaving = 100 * time.Millisecond
)

// A Gauge reads a limiter: its permits in all, those that are out, and the
// callers that are queued for one. A limit of 0 or less means that it has none.
type Gauge func() (limit, inUse, queued int)

// A Crowd is the calls that hold permits of one limiter. It bounds how many of
// them are blocked on their clients: beyond the bound the slowest is cut while
// others are queued. It is safe for concurrent use.
type Crowd struct {
	gauge Gauge

	// Atomic, not under mu: every read and write of a body looks at them.
	blocked atomic.Int64  // calls that wait for their clients now
	bound   atomic.Int64  // of these, as last read
	read    atomic.Int64  // when that was, in Unix nanoseconds
	share   atomic.Uint64 // math.Float64bits of the share

	mu      sync.Mutex // above Client.mu
	clients map[*Client]struct{}
	timer   *time.Timer // nil while nobody has to look again
}

// NewCrowd returns a Crowd of the limiter that g reads. share is the part of its
// permits that may be blocked on clients; 1 and more mean no bound, as do negative
// ones.
func NewCrowd(g Gauge, share float64) *Crowd {
	c := &Crowd{gauge: g, clients: make(map[*Client]struct{})}
	c.SetShare(share)
	return c
}

// SetShare replaces the share.
func (c *Crowd) SetShare(share float64) {
	c.share.Store(math.Float64bits(share))
	c.read.Store(0)
}

func (c *Crowd) add(cl *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[cl] = struct{}{}
}

func (c *Crowd) remove(cl *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, cl)
}

// Blocked is how many calls wait for their clients now.
func (c *Crowd) Blocked() int { return int(c.blocked.Load()) }

// blocks counts a call that waits for its client from now on.
func (c *Crowd) blocks(now time.Time) {
	if c.blocked.Add(1) > c.limit(now) {
		c.relieve(now, 0)
	}
}

// Press is called before each request to the limiter for a permit. If it will
// be queued, and too many permits are blocked on clients, it is as good as queued.
func (c *Crowd) Press() {
	if c.blocked.Load() == 0 {
		return
	}
	now := time.Now()
	if c.blocked.Load() > c.limit(now) {
		c.relieve(now, 1)
	}
}

// limit returns the bound.
func (c *Crowd) limit(now time.Time) int64 {
	if now.UnixNano()-c.read.Load() < int64(reread) {
		return c.bound.Load()
	}
	permits, _, _ := c.gauge()
	return c.boundOf(permits, now)
}

// boundOf returns the bound for so many permits: at least one may be blocked.
func (c *Crowd) boundOf(permits int, now time.Time) int64 {
	bound := int64(math.MaxInt64)
	if share := math.Float64frombits(c.share.Load()); share >= 0 && share < 1 && permits > 0 {
		bound = max(1, int64(share*float64(permits)))
	}
	c.bound.Store(bound)
	c.read.Store(now.UnixNano())
	return bound
}

// relieve cuts the slowest clients: as many as there are beyond the bound, and no
// more than others are queued, newcomers among them. Clients whose speed is not
// known yet are spared; they are looked at again a little later.
func (c *Crowd) relieve(now time.Time, newcomers int) {
	permits, inUse, queued := c.gauge()
	bound := c.boundOf(permits, now)
	if inUse < permits {
		return
	}
	c.mu.Lock()
	slowest, wanted := c.slowestLocked(now, int(c.blocked.Load()-bound), queued+newcomers)
	if wanted > len(slowest) && c.timer == nil {
		c.timer = time.AfterFunc(again, c.lookAgain)
	}
	c.mu.Unlock()
	for _, cl := range slowest {
		cl.mu.Lock()
		cl.at = now
		cl.cutLocked(ErrBlocked)
		cl.mu.Unlock()
	}
}

// lookAgain is the timer.
func (c *Crowd) lookAgain() {
	c.mu.Lock()
	c.timer = nil
	c.mu.Unlock()
	c.relieve(time.Now(), 0)
}

// slowestLocked returns the clients to cut, when there are so many beyond the
// bound and so many wait, and how many it should be. c.mu must be held.
func (c *Crowd) slowestLocked(now time.Time, beyond, waiting int) (slowest []*Client, wanted int) {
	type candidate struct {
		client *Client
		speed  float64
	}
	var all []candidate
	left := 0 // already, and will be gone
	for cl := range c.clients {
		cl.mu.Lock()
		gone := !cl.at.IsZero() && now.Sub(cl.at) < leaving
		cl.mu.Unlock()
		if gone {
			left++
			continue
		}
		if v, waits := cl.speed(now); waits && v < brisk {
			all = append(all, candidate{cl, v})
		}
	}
	wanted = min(beyond, waiting) - left
	if wanted <= 0 {
		return nil, 0
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.speed, b.speed) })
	for _, a := range all[:min(wanted, len(all))] {
		slowest = append(slowest, a.client)
	}
	return slowest, wanted
}
