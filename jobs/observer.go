package jobs

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// An Observer is notified of what a Worker does: metrics, traces and logs are
// Observers. [Worker.Stats] counts without one.
//
// The methods are called for several attempts at a time, under no lock, and the
// attempt waits for them. They must be quick. A panic or runtime.Goexit in one is
// swallowed. Embed NopObserver, so that a method added here later does not break the
// build.
type Observer interface {
	// AttemptStart is called before the handler is. The context that it returns is
	// the handler's; it must be ctx or derived from it.
	AttemptStart(ctx context.Context, a AttemptInfo) context.Context

	// AttemptEnd is called once for each AttemptStart, when the outcome is kept or
	// refused, with the context that AttemptStart returned, less its cancellation.
	AttemptEnd(ctx context.Context, a AttemptInfo, end AttemptEnd)

	// Event is called for what is not the start or the end of an attempt, with the
	// context of the attempt or of the Worker, which may have ended.
	Event(ctx context.Context, e Event)
}

// AttemptInfo describes an attempt whose handler is called.
type AttemptInfo struct {
	Queue   string
	ID      string // of the job
	Attempt int    // from 1
	Fence   uint64 // the attempt's, which no other attempt has
}

// AttemptEnd tells how an attempt ended.
type AttemptEnd struct {
	Start    time.Time
	Duration time.Duration // until the handler returned or was given up
	// Kind is EventSucceeded, EventRetried, EventEnded, EventHandedBack, EventDropped
	// or EventUnknown.
	Kind EventKind
	// State is the job's if it is over: StateDone, StateFailed or StateDead.
	State State
	Err   error
}

// An Event is something that happened to a Worker, or to a job without an attempt
// of it.
type Event struct {
	// Kind is EventEnded, EventHandedBack or EventDropped for a job whose handler was not
	// called, or EventTrouble.
	Kind    EventKind
	Queue   string
	ID      string // of the job; empty if it is about the Worker
	Attempt int    // 0 if there was none
	Fence   uint64 // as in AttemptInfo; 0 if there was no attempt
	Err     error
	// State is the job's if it is over: StateFailed or StateDead.
	State State
}

// An EventKind says what happened.
type EventKind uint8

const (
	// EventSucceeded: the result is kept.
	EventSucceeded EventKind = 1 + iota
	// EventRetried: the attempt failed, and there will be another.
	EventRetried
	// EventEnded: the job is failed or dead with Err.
	EventEnded
	// EventHandedBack: the Worker stopped, has no permit, or has an input too new for
	// it. The attempt does not count.
	EventHandedBack
	// EventDropped: the job was canceled or taken over, so no outcome is kept.
	EventDropped
	// EventTrouble: the server refused, or did not answer; the Worker tries again.
	EventTrouble
	// EventUnknown: the server did not answer before the Worker had to end. The outcome
	// may be kept; if it is not, another attempt follows.
	EventUnknown

	eventEnd
)

var eventNames = [eventEnd]string{"", "succeeded", "retried", "ended", "handed back", "dropped", "trouble", "unknown"}

// String returns the kind in small letters.
func (k EventKind) String() string {
	if k < eventEnd {
		return eventNames[k]
	}
	return "unknown"
}

// NopObserver does nothing. Embed it in Observers.
type NopObserver struct{}

var _ Observer = NopObserver{}

// AttemptStart returns ctx.
func (NopObserver) AttemptStart(ctx context.Context, _ AttemptInfo) context.Context { return ctx }

// AttemptEnd does nothing.
func (NopObserver) AttemptEnd(context.Context, AttemptInfo, AttemptEnd) {}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// Observers returns an Observer that calls each of all, without those that are
// nil. AttemptStart is called in order, with the context that the one before it
// returned; AttemptEnd in reverse order. Each gets the context in AttemptEnd that it
// returned itself. A panic or runtime.Goexit of one keeps none of the others from
// being called.
func Observers(all ...Observer) Observer {
	var links []weir.Observer
	for _, one := range all {
		if one != nil {
			links = append(links, link{observer: one})
		}
	}
	return chain{weir.Observers(links...)}
}

// A chain is Observers that [weir.Observers] calls, for which an attempt is a load:
// what the methods of an Observer take beside the context travels in the Key.
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
