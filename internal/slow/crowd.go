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
	// reread is how long a Crowd trusts the limit that it last read from its
	// limiter.
	reread = time.Second
	// again is the delay before it looks again for clients to cut off.
	again = 5 * time.Millisecond
	// leaving is how long a client that was cut off is expected to return its
	// permit soon.
	leaving = 100 * time.Millisecond
)

// A Gauge reads a limiter: the total number of permits, those in use, and the
// number of queued callers. A limit of 0 or less means that there is no limit.
type Gauge func() (limit, inUse, queued int)

// A Crowd is the set of calls that hold permits of one limiter. It bounds how
// many of them are blocked on their clients: beyond the bound, the slowest
// clients are cut off while other callers are queued. It is safe for concurrent
// use.
type Crowd struct {
	gauge Gauge

	// Atomic, not under mu: every read and write of a body accesses them.
	blocked atomic.Int64  // calls waiting for their clients now
	bound   atomic.Int64  // bound on blocked, as last computed
	read    atomic.Int64  // when that was, in Unix nanoseconds
	share   atomic.Uint64 // math.Float64bits of the share

	mu      sync.Mutex // taken before Client.mu
	clients map[*Client]struct{}
	timer   *time.Timer // nil while no other look is due
}

// NewCrowd returns a Crowd of the limiter that g reads. share is the fraction of
// its permits that may be blocked on clients; 1 or more, and negative values,
// mean no bound.
func NewCrowd(g Gauge, share float64) *Crowd {
	c := &Crowd{gauge: g, clients: make(map[*Client]struct{})}
	c.SetShare(share)
	return c
}

// SetShare changes the share.
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

// Blocked returns the number of calls that are waiting for their clients.
func (c *Crowd) Blocked() int { return int(c.blocked.Load()) }

// blocks counts a call that starts to wait for its client.
func (c *Crowd) blocks(now time.Time) {
	if c.blocked.Add(1) > c.limit(now) {
		c.relieve(now, 0)
	}
}

// Press is called before each request to the limiter for a permit. If too many
// permits are blocked on clients, the new caller counts as queued, because it
// probably will be.
func (c *Crowd) Press() {
	if c.blocked.Load() == 0 {
		return
	}
	now := time.Now()
	if c.blocked.Load() > c.limit(now) {
		c.relieve(now, 1)
	}
}

// limit returns the bound on blocked calls.
func (c *Crowd) limit(now time.Time) int64 {
	if now.UnixNano()-c.read.Load() < int64(reread) {
		return c.bound.Load()
	}
	permits, _, _ := c.gauge()
	return c.boundOf(permits, now)
}

// boundOf returns the bound for that many permits: at least one may be blocked.
func (c *Crowd) boundOf(permits int, now time.Time) int64 {
	bound := int64(math.MaxInt64)
	if share := math.Float64frombits(c.share.Load()); share >= 0 && share < 1 && permits > 0 {
		bound = max(1, int64(share*float64(permits)))
	}
	c.bound.Store(bound)
	c.read.Store(now.UnixNano())
	return bound
}

// relieve cuts off the slowest clients: as many as exceed the bound, but no more
// than there are queued callers, including newcomers. A client is spared if its
// speed is not known yet; relieve looks again a little later.
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

// lookAgain runs when the timer fires.
func (c *Crowd) lookAgain() {
	c.mu.Lock()
	c.timer = nil
	c.mu.Unlock()
	c.relieve(time.Now(), 0)
}

// slowestLocked returns the clients to cut off if beyond calls exceed the bound
// and waiting callers are queued. It also returns the wanted number. c.mu must be
// held.
func (c *Crowd) slowestLocked(now time.Time, beyond, waiting int) (slowest []*Client, wanted int) {
	type candidate struct {
		client *Client
		speed  float64
	}
	var all []candidate
	left := 0 // already cut off, and about to leave
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
