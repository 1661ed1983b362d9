package outbox

import (
	"context"
	"sync/atomic"
	"time"
)

// An Observer is notified of a Relay's events. [Relay.Stats] counts without one.
//
// Event is called for several rows at a time, under no lock, and the row waits for it.
// It must be quick. A panic or runtime.Goexit in it is swallowed. Embed NopObserver, so
// that your code still compiles when a method is added here.
type Observer interface {
	Event(ctx context.Context, e Event)
}

// NopObserver does nothing. Embed it in your Observers.
type NopObserver struct{}

var _ Observer = NopObserver{}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// An Event is something that happened to a row or to a Relay.
type Event struct {
	Kind  EventKind // what happened
	Queue string    // empty for the Listener
	ID    string    // of the row; empty if the Event is not about one
	// Reason is why the row was parked, for EventParked.
	Reason Reason
	// Age is the time from the claim of the row to the Event, for EventSubmitted and
	// EventKnown.
	Age time.Duration
	// RetryAfter is how long the queue is paused, for EventPaused.
	RetryAfter time.Duration
	Err        error
}

// An EventKind says what happened to a row or to the relay.
type EventKind uint8

const (
	// EventSubmitted: the row became a job.
	EventSubmitted EventKind = 1 + iota
	// EventKnown: the queue already knew the job with the row's ID.
	EventKnown
	// EventParked: the row was parked, with Reason and Err.
	EventParked
	// EventPaused: the queue is full; the Relay leaves its rows alone for RetryAfter.
	EventPaused
	// EventTrouble: PostgreSQL, the server of the jobs or the Listener failed, with Err.
	// The Relay tries again.
	EventTrouble

	eventEnd
)

var eventNames = [eventEnd]string{"", "submitted", "known", "parked", "paused", "trouble"}

// String returns the kind in lower case.
func (k EventKind) String() string {
	if k < eventEnd {
		return eventNames[k]
	}
	return "unknown"
}

// Stats counts what a Relay has done.
type Stats struct {
	Claimed   uint64 // rows, each time that they were claimed
	Submitted uint64 // rows that became a job
	Known     uint64 // rows whose job was known already
	Parked    uint64 // rows, for any Reason
	Doubtful  uint64 // of Parked, and those that ResubmitDoubtful submitted
	Released  uint64 // rows given back unsubmitted: full queue, trouble, Close
	Paused    uint64 // times that a queue was full
	Trouble   uint64 // failures of PostgreSQL, the server of the jobs, or the Listener
	Notified  uint64 // notifications received
	Polled    uint64 // claims without a row
}

// counters are atomics: they are only counts, and each stands alone.
type counters struct {
	claimed, submitted, known, parked, doubtful, released, paused, trouble, notified, polled atomic.Uint64
}

// Stats returns the counts since NewRelay.
func (r *Relay) Stats() Stats {
	c := &r.counts
	return Stats{
		Claimed: c.claimed.Load(), Submitted: c.submitted.Load(), Known: c.known.Load(), Parked: c.parked.Load(),
		Doubtful: c.doubtful.Load(), Released: c.released.Load(), Paused: c.paused.Load(), Trouble: c.trouble.Load(),
		Notified: c.notified.Load(), Polled: c.polled.Load(),
	}
}

// event counts and reports an Event. The Observer runs on a separate goroutine, which
// event waits for, so that neither a panic nor runtime.Goexit loses a row's outcome.
func (r *Relay) event(ctx context.Context, e Event) {
	switch e.Kind {
	case EventSubmitted:
		r.counts.submitted.Add(1)
	case EventKnown:
		r.counts.known.Add(1)
	case EventParked:
		r.counts.parked.Add(1)
	case EventPaused:
		r.counts.paused.Add(1)
	case EventTrouble:
		r.counts.trouble.Add(1)
	}
	if r.o.Observer == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		r.o.Observer.Event(ctx, e)
	}()
	<-done
}

// trouble reports a failure.
func (r *Relay) trouble(ctx context.Context, queue, id string, err error) {
	r.event(ctx, Event{Kind: EventTrouble, Queue: queue, ID: id, Err: err})
}
