package jobs

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// An Observer is notified of a Worker's events. Metrics, traces and logs are
// Observers. [Worker.Stats] counts without one.
//
// The methods are called for several attempts at a time, under no lock, and the
// attempt waits for them. They must be quick. A panic or runtime.Goexit in one is
// swallowed. Embed NopObserver, so that your code still compiles when a method is
// added here.
type Observer interface {
	// AttemptStart is called before the handler is. The context that it returns is
	// the handler's; it must be ctx or derived from it.
	AttemptStart(ctx context.Context, a AttemptInfo) context.Context

	// AttemptEnd is called once for each AttemptStart, when the outcome is kept or
	// refused. Its context is the one that AttemptStart returned, without its
	// cancellation.
	AttemptEnd(ctx context.Context, a AttemptInfo, end AttemptEnd)

	// Event is called for all other events, with the context of the attempt or of the
	// Worker, which may have ended.
	Event(ctx context.Context, e Event)
}

// AttemptInfo describes an attempt whose handler is being called.
type AttemptInfo struct {
	Queue   string // name of the queue
	ID      string // of the job
	Attempt int    // from 1
	Fence   uint64 // of the attempt; no other attempt has it
}

// AttemptEnd describes how an attempt ended.
type AttemptEnd struct {
	Start    time.Time     // time at which the handler was called
	Duration time.Duration // time until the handler returned or was abandoned
	// Kind is EventSucceeded, EventRetried, EventSnoozed, EventEnded, EventHandedBack,
	// EventDropped or EventUnknown.
	Kind EventKind
	// State is the job's state if it is over: StateDone, StateFailed or StateDead.
	State State
	Err   error
}

// An Event is something that happened to a Worker, or to a job other than the start
// or end of an attempt.
type Event struct {
	// Kind is EventEnded, EventHandedBack or EventDropped for a job whose handler was not
	// called, or EventTrouble.
	Kind    EventKind
	Queue   string
	ID      string // of the job; empty if the Event is about the Worker
	Attempt int    // 0 if there was none
	Fence   uint64 // as in AttemptInfo; 0 if there was no attempt
	Err     error
	// State is the job's state if it is over: StateFailed or StateDead.
	State State
}

// An EventKind says what happened to a job, an attempt or the Worker.
type EventKind uint8

const (
	// EventSucceeded: the job is done, and its result is stored.
	EventSucceeded EventKind = 1 + iota
	// EventRetried: the attempt failed, and there will be another.
	EventRetried
	// EventEnded: the job is failed or dead, with Err.
	EventEnded
	// EventHandedBack: the Worker stopped, got no permit, or received an input too
	// new for it. The attempt does not count.
	EventHandedBack
	// EventDropped: the job was canceled or taken over, so no outcome is kept.
	EventDropped
	// EventTrouble: the server refused a request, or did not respond; the Worker
	// tries again.
	EventTrouble
	// EventUnknown: the server did not respond before the Worker had to end. The
	// outcome may be stored; if it is not, another attempt follows.
	EventUnknown
	// EventSnoozed: the handler returned Snooze. The attempt does not count.
	EventSnoozed

	eventEnd
)

var eventNames = [eventEnd]string{"", "succeeded", "retried", "ended", "handed back", "dropped", "trouble", "unknown", "snoozed"}

// String returns the kind in lower case.
func (k EventKind) String() string {
	if k < eventEnd {
		return eventNames[k]
	}
	return "unknown"
}

// NopObserver does nothing. Embed it in your Observers.
type NopObserver struct{}

var _ Observer = NopObserver{}

// AttemptStart returns ctx.
func (NopObserver) AttemptStart(ctx context.Context, _ AttemptInfo) context.Context { return ctx }

// AttemptEnd does nothing.
func (NopObserver) AttemptEnd(context.Context, AttemptInfo, AttemptEnd) {}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// Observers returns an Observer that calls each of all, ignoring nil ones.
// AttemptStart is called in order, with the context that the previous Observer
// returned, and AttemptEnd in reverse order. Each Observer's AttemptEnd receives the
// context that its own AttemptStart returned. A panic or runtime.Goexit in one does
// not prevent the others from being called.
func Observers(all ...Observer) Observer {
	var links []weir.Observer
	for _, one := range all {
		if one != nil {
			links = append(links, link{observer: one})
		}
	}
	return chain{weir.Observers(links...)}
}

// A chain adapts Observers to [weir.Observers], which sees an attempt as a load. The
// Key carries the arguments of an Observer's methods other than the context.
type chain struct{ loads weir.Observer }

func (c chain) AttemptStart(ctx context.Context, a AttemptInfo) context.Context {
	return c.loads.LoadStart(ctx, weir.LoadInfo{Key: a})
}

func (c chain) AttemptEnd(ctx context.Context, a AttemptInfo, end AttemptEnd) {
	c.loads.LoadEnd(ctx, weir.LoadInfo{Key: ended{a, end}}, weir.LoadEnd{})
}

func (c chain) Event(ctx context.Context, e Event) { c.loads.Event(ctx, weir.Event{Key: e}) }

type ended struct {
	AttemptInfo
	AttemptEnd
}

// A link is an Observer in a chain.
type link struct {
	weir.NopObserver
	observer Observer
}

func (l link) LoadStart(ctx context.Context, i weir.LoadInfo) context.Context {
	return l.observer.AttemptStart(ctx, i.Key.(AttemptInfo))
}

func (l link) LoadEnd(ctx context.Context, i weir.LoadInfo, _ weir.LoadEnd) {
	e := i.Key.(ended)
	l.observer.AttemptEnd(ctx, e.AttemptInfo, e.AttemptEnd)
}

func (l link) Event(ctx context.Context, e weir.Event) { l.observer.Event(ctx, e.Key.(Event)) }
