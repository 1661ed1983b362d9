package periodic

import (
	"context"
	"time"
)

// An Observer is notified of a Scheduler's events. [Scheduler.Stats] counts without one.
//
// Event is called for several schedules at a time, under no lock, and the schedule waits
// for it: it must be quick. A panic or runtime.Goexit in it is swallowed. Embed
// NopObserver, so that your code still compiles when a method is added here.
type Observer interface {
	// Event is called for each event. ctx ends when Close has interrupted the schedule.
	Event(ctx context.Context, e Event)
}

// NopObserver does nothing. Embed it in your Observers.
type NopObserver struct{}

var _ Observer = NopObserver{}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// An Event is something that happened to a schedule.
type Event struct {
	Kind     EventKind // what happened
	Schedule string    // name of the schedule
	// Tick is the tick of EventSubmitted and EventLost, and the latest of those of
	// EventMissed.
	Tick time.Time
	// Queue and ID are those of the job of EventSubmitted.
	Queue, ID string
	// First is the earliest tick of EventMissed, and Count their number, at most
	// MaxCounted.
	First time.Time
	Count int
	// Err is the error of EventTrouble, and RetryIn when the schedule tries again.
	Err     error
	RetryIn time.Duration
}

// An EventKind says what happened to a tick of a schedule.
type EventKind uint8

const (
	// EventSubmitted: this instance submitted the job of Tick. Over the fleet there is
	// one such event per job; after a lost response there can be none.
	EventSubmitted EventKind = 1 + iota
	// EventLost: another instance was first with a tick that this one expected.
	EventLost
	// EventMissed: ticks are skipped, by the rule for missed ticks. Over the fleet there
	// is one such event per tick; after a lost response there can be none.
	EventMissed
	// EventTrouble: the server, the queue or the input function failed. The schedule
	// tries again.
	EventTrouble

	eventEnd
)

var eventNames = [eventEnd]string{"", "submitted", "lost", "missed", "trouble"}

// String returns the kind in lower case.
func (k EventKind) String() string {
	if k < eventEnd {
		return eventNames[k]
	}
	return "unknown"
}

// A Status describes a schedule, as this instance knows it.
type Status struct {
	Name string `json:"name"` // name of the schedule
	Spec string `json:"spec"` // Spec of the schedule, without superfluous spaces
	Zone string `json:"zone"` // time zone of the schedule

	// Next is the next tick, Last the last one that any instance has submitted or
	// skipped; for a new schedule, the instant at which it was first known. Zero: not
	// read yet; for Next also: none follows.
	Next time.Time `json:"next,omitzero"`
	Last time.Time `json:"last,omitzero"`

	Submitted uint64 `json:"submitted"` // jobs, by this instance
	Lost      uint64 `json:"lost"`      // times that another instance was first
	Missed    uint64 `json:"missed"`    // ticks skipped by this instance
	Troubles  uint64 `json:"troubles"`  // errors

	// Err is the error of the last try; nil if it succeeded.
	Err error `json:"-"`
}

// event counts and reports an event.
func (r *runner) event(ctx context.Context, e Event) {
	e.Schedule = r.schedule.Name
	r.mu.Lock()
	switch e.Kind {
	case EventSubmitted:
		r.status.Submitted++
	case EventLost:
		r.status.Lost++
	case EventMissed:
		r.status.Missed += uint64(e.Count)
	case EventTrouble:
		r.status.Troubles++
		r.status.Err = e.Err
	}
	r.mu.Unlock()
	if r.o.Observer != nil {
		_ = guarded("the Observer", func() error { r.o.Observer.Event(ctx, e); return nil })
	}
}
