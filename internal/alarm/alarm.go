// Package alarm has one timer for all deadlines of a call.
package alarm

import (
	"sync"
	"time"
)

// A Slot is a deadline of an Alarm.
type Slot uint8

// The deadlines of a call over HTTP.
const (
	Head   Slot = iota // the headers of the response
	Idle               // progress in its body
	Client             // progress of the client
	slots
)

// A Target is notified of a deadline that has passed.
type Target interface {
	// Due is called when the deadline in s has passed, on a goroutine of the timer. It can
	// set the deadline again.
	Due(s Slot)
}

// An Alarm has a deadline for each Slot, and one timer for all of them: it runs to a
// deadline that was the first of all when it was set. To move a deadline forward, or to
// clear it, does not touch the timer; when that fires, it is set to what is the first
// deadline by then. The zero Alarm has none. It is safe for concurrent use.
type Alarm struct {
	mu    sync.Mutex
	timer *time.Timer      // guarded by mu; nil before the first deadline
	armed time.Time        // guarded by mu; when timer fires, zero if it is not running
	due   [slots]time.Time // guarded by mu; zero for none
	to    [slots]Target    // guarded by mu
	over  bool             // guarded by mu
}

// Set sets the deadline of s, for to. now is the current time.
func (a *Alarm) Set(s Slot, to Target, now, due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.due[s], a.to[s] = due, to
	a.armLocked(now, due)
}

// Start sets the deadline of s, for to, after a duration from now.
func (a *Alarm) Start(s Slot, to Target, after time.Duration) {
	now := time.Now()
	a.Set(s, to, now, now.Add(after))
}

// armLocked makes sure that the timer fires no later than at due. a.mu must be held.
func (a *Alarm) armLocked(now, due time.Time) {
	if !a.armed.IsZero() && !due.Before(a.armed) {
		return
	}
	a.armed = due
	if a.timer == nil {
		a.timer = time.AfterFunc(due.Sub(now), a.fire)
	} else {
		a.timer.Reset(due.Sub(now))
	}
}

// Clear removes the deadline of s. Its Target may be called at the same time.
func (a *Alarm) Clear(s Slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due[s] = time.Time{}
}

// Stop removes all deadlines. No other can be set any more.
func (a *Alarm) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.due = [slots]time.Time{}
	if a.timer != nil {
		a.timer.Stop()
	}
}

// fire calls the targets whose deadlines have passed, and sets the timer for the others.
func (a *Alarm) fire() {
	a.mu.Lock()
	a.armed = time.Time{}
	now := time.Now()
	var passed [slots]Target
	for s, due := range a.due {
		switch {
		case due.IsZero():
		case due.After(now):
			a.armLocked(now, due)
		default:
			passed[s], a.due[s] = a.to[s], time.Time{}
		}
	}
	a.mu.Unlock()
	for s, to := range passed {
		if to != nil {
			to.Due(Slot(s)) //nolint:gosec // there are few
		}
	}
}
