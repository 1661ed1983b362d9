// Package gather decides when gathered calls are sent together. It is the
// mechanism that batch.Batcher and weir.Guard share; the batches, and what a bulk
// call does, are up to the owner.
//
// A [Group] represents one batch in a [Queue]. It lingers until it is full or its
// time is over. Then it is due, and waits in line for one of a fixed number of
// places. With a place, its bulk call may start. More members can join until the
// owner closes the group, which is when the call really starts.
//
// Places are granted in the order in which groups became due, across all scopes.
// Groups that no caller waits for come after all others, and leave one place free
// if there is more than one.
package gather

import (
	"context"
	"sync"
	"time"
)

// A Batch is the owner's part of a Group. Its methods are called with the owner's
// lock held.
type Batch interface {
	// SizeLocked returns the number of members.
	SizeLocked() int
	// OpenLocked reports whether the owner can add a member.
	OpenLocked() bool
	// WantedLocked reports whether a caller waits for it.
	WantedLocked() bool
}

// A Queue holds the groups whose calls have not returned. It is guarded by a lock
// of the owner; all methods except Wait require it.
type Queue struct {
	maxSize, places int
	linger          time.Duration

	open        map[scope]*Group // groups that members can join; at most one per scope
	line        Group            // root of the ring of groups that are due and have no place
	used, stuck int              // places in use, and those of them whose call was given up
}

// A scope identifies what may be gathered together; background work is separate.
type scope struct {
	of         any
	background bool
}

// A Group represents one Batch in a Queue.
type Group struct {
	Batch Batch

	// The remaining fields are guarded by the owner's lock.
	scope      scope
	state      state
	stuck      bool
	ready      chan struct{} // created by the waiter for a place, closed when the place is granted
	prev, next *Group        // neighbors in the line
}

type state uint8

const (
	lingering state = iota
	due             // in the line
	placed
	ended
)

// NewQueue returns a Queue for batches of at most maxSize members. At most places
// of them run at once.
func NewQueue(maxSize, places int, linger time.Duration) *Queue {
	q := &Queue{maxSize: maxSize, places: places, linger: linger, open: make(map[scope]*Group)}
	q.line.prev, q.line.next = &q.line, &q.line
	return q
}

// FindLocked returns the group that the next member of the scope joins, or nil if
// one must be opened. of must be equal to itself.
func (q *Queue) FindLocked(of any, background bool) *Group {
	g := q.open[scope{of, background}]
	if g == nil || !g.Batch.OpenLocked() || g.Batch.SizeLocked() >= q.maxSize {
		return nil
	}
	return g
}

// OpenLocked makes b the group that members of the scope join from now on.
func (q *Queue) OpenLocked(of any, background bool, b Batch) *Group {
	g := &Group{Batch: b, scope: scope{of, background}}
	q.open[g.scope] = g
	if q.linger <= 0 {
		q.dueLocked(g)
	} else {
		q.AddedLocked(g)
	}
	return g
}

// SendLocked creates a group of b that is closed to new members and due at once.
func (q *Queue) SendLocked(b Batch) *Group {
	g := &Group{Batch: b}
	q.dueLocked(g)
	return g
}

// AddedLocked records that a member has joined g. A full group is due.
func (q *Queue) AddedLocked(g *Group) {
	if g.Batch.SizeLocked() >= q.maxSize {
		q.dueLocked(g)
	}
}

// FlushLocked makes all lingering groups due.
func (q *Queue) FlushLocked() {
	for _, g := range q.open {
		q.dueLocked(g)
	}
}

// FullLocked reports whether g has the maximum number of members.
func (q *Queue) FullLocked(g *Group) bool { return g.Batch.SizeLocked() >= q.maxSize }

// dueLocked puts g into the line, unless it has already been there.
func (q *Queue) dueLocked(g *Group) {
	if g.state != lingering {
		return
	}
	g.state = due
	g.prev, g.next = q.line.prev, &q.line
	g.prev.next, g.next.prev = g, g
	q.GrantLocked()
}

// GrantLocked grants the free places to the next groups. The owner calls it when
// a caller has begun to wait for a group without waiting callers.
func (q *Queue) GrantLocked() {
	for q.used < q.places {
		g := q.nextLocked()
		if g == nil {
			return
		}
		g.outOfLine()
		g.state = placed
		q.used++
		if g.ready != nil {
			close(g.ready)
		}
	}
}

// nextLocked returns the group that gets a free place, or nil.
func (q *Queue) nextLocked() *Group {
	var idle *Group
	for g := q.line.next; g != &q.line; g = g.next {
		if g.Batch.WantedLocked() {
			return g
		}
		if idle == nil {
			idle = g
		}
	}
	if q.places > 1 && q.used == q.places-1 {
		return nil // the last place is for groups with waiting callers
	}
	return idle
}

func (g *Group) outOfLine() {
	g.prev.next, g.next.prev = g.next, g.prev
	g.prev, g.next = nil, nil
}

// CloseLocked closes g to new members: its call is about to start.
func (q *Queue) CloseLocked(g *Group) {
	if q.open[g.scope] == g {
		delete(q.open, g.scope)
	}
}

// EndLocked removes g from the queue, in any state, and grants its place to the
// next group. It is called once the call has returned, or will not be made.
func (q *Queue) EndLocked(g *Group) {
	q.CloseLocked(g)
	switch g.state {
	case due:
		g.outOfLine()
	case placed:
		q.used--
		if g.stuck {
			q.stuck--
		}
	}
	g.state = ended
	q.GrantLocked()
}

// StickLocked records that the call of g was given up and has not returned. It
// keeps its place.
func (q *Queue) StickLocked(g *Group) {
	if g.state == placed && !g.stuck {
		g.stuck = true
		q.stuck++
	}
}

// HungLocked reports whether calls that were given up occupy all places, so that
// it is unknown when one becomes free.
func (q *Queue) HungLocked() bool { return q.stuck >= q.places }

// WaitingLocked returns the batches that have no place yet.
func (q *Queue) WaitingLocked() []Batch {
	var waiting []Batch
	for _, g := range q.open {
		if g.state == lingering {
			waiting = append(waiting, g.Batch)
		}
	}
	for g := q.line.next; g != &q.line; g = g.next {
		waiting = append(waiting, g.Batch)
	}
	return waiting
}

// Wait waits until g has a place, and returns false if ctx ended first. lock is
// the lock that guards q; it must not be held. Wait is called once per group, on
// the goroutine that will make the call.
func (q *Queue) Wait(ctx context.Context, lock sync.Locker, g *Group) bool {
	lock.Lock()
	lingers, has := g.state == lingering, g.state == placed
	if !has {
		g.ready = make(chan struct{})
	}
	lock.Unlock()
	if has {
		return true
	}
	if lingers {
		timer := time.NewTimer(q.linger)
		defer timer.Stop()
		select {
		case <-g.ready:
			return true
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		lock.Lock()
		q.dueLocked(g)
		lock.Unlock()
	}
	select {
	case <-g.ready:
		return true
	case <-ctx.Done():
		return false
	}
}
