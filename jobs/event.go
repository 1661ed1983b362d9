package jobs

import "time"

// An Event is something that happened to a Worker or one of its attempts.
type Event struct {
	Kind    EventKind
	Queue   string
	ID      string // of the job; empty where it is about the Worker
	Attempt int
	Fence   uint64        // the attempt's, which no other attempt has
	Took    time.Duration // the attempt's, where it has ended
	Err     error
	// State is the job's where it is over: Done, Failed or Dead.
	State State
}

// An EventKind says what happened.
type EventKind uint8

const (
	// EventStarted: an attempt has started.
	EventStarted EventKind = 1 + iota
	// EventSucceeded: its result is kept.
	EventSucceeded
	// EventRetried: it failed, and there will be another.
	EventRetried
	// EventEnded: it failed, and the job is failed or dead with Err.
	EventEnded
	// EventHandedBack: the Worker stopped, or has an input too new for it.
	EventHandedBack
	// EventDropped: its outcome was not kept, since the job was canceled or taken
	// over meanwhile.
	EventDropped
	// EventTrouble: the server refused, or did not answer; the Worker tries again.
	EventTrouble

	eventEnd
)

var eventNames = [eventEnd]string{"", "started", "succeeded", "retried", "ended", "handed back", "dropped", "trouble"}

// String returns the kind in small letters.
func (k EventKind) String() string {
	if k < eventEnd {
		return eventNames[k]
	}
	return "unknown"
}
