package simulate

import (
	"context"
	"sync"
	"time"
)

// A verdict is how a call ended.
type verdict uint8

const (
	pending      verdict = iota
	answered             // within the caller's deadline
	refused              // rejected by the gate
	waitTimedOut         // the caller's deadline passed in the gate
	callTimedOut         // the caller's deadline passed in the source
	loadTimedOut         // the call in the source took longer than Scenario.LoadTimeout
)

// A call is one call of a run, and the context of its caller. It does not use package
// context, because the driver must decide when the context ends: a timer would fire
// independently of the driver's events.
type call struct {
	job
	arrival    time.Duration
	start      time.Time // start of the run
	deadline   time.Duration
	background bool
	undated    bool
	attempt    int // 0 for the first
	parent     context.Context

	// Written by the driver. The goroutine of the call reads verdict once wake
	// is closed.
	verdict verdict
	reason  string        // reason for a rejection
	after   time.Duration // when the rejection says that the caller should retry, from the rejection on
	limit   int           // limit of the gate at the arrival, before admission
	entered bool          // whether it reached the source
	admit   time.Duration
	end     time.Duration
	wake    chan struct{} // closed by the driver after verdict is set, and the permit is to be released
	gone    chan struct{} // closed by the driver when the caller has left and the permit is still held; nil unless Scenario.Hold

	mu   sync.Mutex
	done chan struct{} // guarded by mu; created by the first call of Done
	over bool          // guarded by mu; whether the context has ended
}

// Deadline implements context.Context.
func (c *call) Deadline() (time.Time, bool) {
	if c.undated {
		return time.Time{}, false
	}
	return c.start.Add(c.deadline), true
}

// Done implements context.Context.
func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.over {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over && c.undated:
		return context.Canceled
	case c.over:
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (c *call) Value(key any) any { return c.parent.Value(key) }

// expire ends the context.
func (c *call) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.done != nil {
		close(c.done)
	}
}
