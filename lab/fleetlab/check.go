package fleetlab

import (
	"fmt"
	"sync"
	"time"
)

// Bounds limit how long an answer may be out of date.
type Bounds struct {
	// Memory is how long after an acknowledged invalidation another instance may
	// return the old value: the Guards' MemoryCap, if only the push is lost.
	Memory time.Duration

	// CutOff is how long after a change an old version may be returned if no
	// invalidation has reached all instances: the running load, the TTL, and the
	// stale windows.
	CutOff time.Duration
}

// A Checker judges answers by the history of the source. Its methods may be called
// from any goroutine.
type Checker struct {
	bounds Bounds

	mu      sync.Mutex
	keys    map[string]*history // guarded by mu
	cuts    []cut               // guarded by mu
	verdict Verdict             // guarded by mu
}

// A history is the history of a key. Version 1 existed from the start.
type history struct {
	begun   int64       // number of versions that the source may have
	changed []time.Time // changed[v-1] is the latest time at which version v was replaced
	purges  []purge     // in the order in which they were acknowledged
}

// A purge is an invalidation that was acknowledged.
type purge struct {
	below int64 // versions below this were replaced before it began
	at    time.Time
}

// A cut is a period in which an instance, or with an empty name every instance, may
// have missed the actions of others.
type cut struct {
	who      string
	from, to time.Time // a zero to means that it is still open
}

// A Verdict is the result of a Checker.
type Verdict struct {
	Answers int64
	Wrong   []string // descriptions of the first wrong answers; see maxWrong
	Wrongs  int64
	// Oldest is the longest time between an acknowledged invalidation and a request
	// that still got the invalidated value, without a cut in between.
	Oldest time.Duration
	// OldestCut is the same for all other requests, counted from the change of the
	// source.
	OldestCut time.Duration
}

const maxWrong = 5

// NewChecker returns a Checker with an empty history.
func NewChecker(b Bounds) *Checker { return &Checker{bounds: b, keys: make(map[string]*history)} }

func (c *Checker) historyLocked(key string) *history {
	h := c.keys[key]
	if h == nil {
		h = &history{begun: 1}
		c.keys[key] = h
	}
	return h
}

// Changing records that the source is about to change key. The returned function
// records that it has.
func (c *Checker) Changing(key string) (changed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.historyLocked(key).begun++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		h := c.historyLocked(key)
		h.changed = append(h.changed, time.Now())
	}
}

// Invalidating records that key is about to be invalidated in the fleet. The returned
// function records the acknowledgement; do not call it without one.
func (c *Checker) Invalidating(key string) (acknowledged func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	below := int64(len(c.historyLocked(key).changed)) + 1
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		h := c.historyLocked(key)
		h.purges = append(h.purges, purge{below, time.Now()})
	}
}

// Cut records that until the returned function is called an instance (or with an
// empty name every instance) may miss the actions of others.
func (c *Checker) Cut(who string) (mended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.cuts)
	c.cuts = append(c.cuts, cut{who: who, from: time.Now()})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cuts[i].to = time.Now()
	}
}

// cutLocked reports whether an instance was cut off at some time between from and to.
func (c *Checker) cutLocked(who string, from, to time.Time) bool {
	for _, x := range c.cuts {
		if (x.who == "" || x.who == who) && x.from.Before(to) && (x.to.IsZero() || x.to.After(from)) {
			return true
		}
	}
	return false
}

// Check judges the answer to a request for key that was sent at sent. The answer was
// chosen later, so one that was too old at sent is wrong.
func (c *Checker) Check(key string, a Answer, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verdict.Answers++
	if why := c.wrongLocked(key, a, sent); why != "" {
		c.verdict.Wrongs++
		if len(c.verdict.Wrong) < maxWrong {
			c.verdict.Wrong = append(c.verdict.Wrong, why)
		}
	}
}

// wrongLocked describes the fault of an answer, or returns "".
func (c *Checker) wrongLocked(key string, a Answer, sent time.Time) string {
	if a.Key != key {
		return fmt.Sprintf("%s answers for %q with the value of %q", a.Instance, key, a.Key)
	}
	h := c.historyLocked(key)
	if a.Version < 1 || a.Version > h.begun {
		return fmt.Sprintf("%s answers for %q with version %d; there are %d", a.Instance, key, a.Version, h.begun)
	}
	if a.Version > int64(len(h.changed)) {
		return "" // the latest version that is known
	}
	since := sent.Sub(h.changed[a.Version-1])
	for _, p := range h.purges {
		if p.below <= a.Version || c.cutLocked(a.Instance, p.at, sent) {
			continue
		}
		age := sent.Sub(p.at)
		c.verdict.Oldest = max(c.verdict.Oldest, age)
		if age > c.bounds.Memory {
			return fmt.Sprintf("%s answers for %q with version %d, %v after it was invalidated; the bound is %v", a.Instance, key, a.Version, age.Round(time.Millisecond), c.bounds.Memory)
		}
		return "" // the first applicable purge is the oldest
	}
	c.verdict.OldestCut = max(c.verdict.OldestCut, since)
	if since > c.bounds.CutOff {
		return fmt.Sprintf("%s answers for %q with version %d, %v after it was replaced; the bound is %v", a.Instance, key, a.Version, since.Round(time.Millisecond), c.bounds.CutOff)
	}
	return ""
}

// Verdict returns the result so far.
func (c *Checker) Verdict() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.verdict
	v.Wrong = append([]string(nil), v.Wrong...)
	return v
}
