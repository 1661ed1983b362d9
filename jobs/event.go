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
	// Started: an attempt has started.
	Started EventKind = 1 + iota
	// Succeeded: its result is kept.
	Succeeded
	// Retried: it failed, and there will be another.
	Retried
	// Ended: it failed, and the job is failed or dead with Err.
	Ended
	// HandedBack: the Worker stopped, or has an input too new for it.
	HandedBack
	// Dropped: its outcome was not kept, since the job was cancelled or taken
	// over meanwhile.
	Dropped
	// Trouble: the server refused, or did not answer; the Worker tries again.
	Trouble

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
