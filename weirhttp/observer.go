package weirhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/chain"
)

// An Observer is notified of calls of the next handler, of waits for them, and of
// what happens beside the answers, which carry a [Receipt]: metrics, traces and
// logs are Observers. A hit is never observed; Stats counts hits.
//
// The methods are called on the goroutines of calls and requests, several at a
// time, under no lock. They must be quick. A panic in one is swallowed and
// counted in Stats.ObserverPanics. runtime.Goexit ends the request, or the call, on whose
// goroutine it is, as in any handler. Embed NopObserver, so that a method added here
// later does not break the build.
type Observer interface {
	// CallStart is called before the next handler is, with the request that it
	// gets: header is that request's own, and may be added to (a traceparent). The
	// context that it returns is the call's; it must be ctx or derived from it.
	CallStart(ctx context.Context, c CallInfo, header http.Header) context.Context

	// CallEnd is called once for each CallStart, when the call has ended, its body
	// too, with the context that CallStart returned, less its cancellation. A call
	// that was given up has not ended before its handler returns.
	CallEnd(ctx context.Context, c CallInfo, end CallEnd)

	// Waited is called when a request has waited for another's call, with the
	// request's context: before it is answered, and also if it is not by that call.
	Waited(ctx context.Context, w Wait)

	// Event is called for what is neither a call nor a wait, with the context of
	// its request.
	Event(ctx context.Context, e Event)
}

// CallInfo describes a call of the next handler.
type CallInfo struct {
	Route      string        // Options.Route
	Request    *http.Request // the request that led to it; must not be changed or kept
	Background bool          // a refresh
}

// CallEnd tells how a call ended.
type CallEnd struct {
	Start    time.Time
	Headed   time.Duration // to the head of the answer, 0 without one
	Duration time.Duration // to the end of the answer
	Queued   time.Duration // before Start, waiting for admission
	Status   int           // of the answer, 0 without one
	Err      error
}

// Wait describes a request's wait for another's call, up to its head.
type Wait struct {
	Route    string // Options.Route
	Start    time.Time
	Duration time.Duration
	Err      error // why the client left, or what the call failed with

	// Call is the context that CallStart returned, so that a trace can link to it.
	// It is nil if the call had not started.
	Call context.Context
}

// An Event is something that happened.
type Event struct {
	Route   string // Options.Route
	Kind    EventKind
	Request *http.Request // must not be changed or kept; nil where there is none
	Status  int
	Err     error
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	EventRefused  EventKind = 1 + iota // a request was refused; Err says by what
	EventFailed                        // a call failed without an answer
	EventPanicked                      // the next handler panicked; Err is a *flight.PanicError
	EventDiffered                      // in observe mode, an answer that would have been shared differed
	EventStale                         // a stale answer was given because of Err
)

func (k EventKind) String() string {
	switch k {
	case EventRefused:
		return "refused"
	case EventFailed:
		return "call failed"
	case EventPanicked:
		return "panicked"
	case EventDiffered:
		return "answer differed"
	case EventStale:
		return "stale answer"
	}
	return "unknown"
}

// NopObserver does nothing. Embed it in Observers.
type NopObserver struct{}

var _ Observer = NopObserver{}

// CallStart returns ctx.
func (NopObserver) CallStart(ctx context.Context, _ CallInfo, _ http.Header) context.Context {
	return ctx
}

// CallEnd does nothing.
func (NopObserver) CallEnd(context.Context, CallInfo, CallEnd) {}

// Waited does nothing.
func (NopObserver) Waited(context.Context, Wait) {}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// Observers returns an Observer that calls each of all, without those that are
// nil. CallStart is called in order, with the context that the one before it
// returned; CallEnd in reverse order. Each gets the context in CallEnd, and in
// Wait.Call, that it returned itself. A panic or runtime.Goexit of one keeps none of
// the others from being called.
func Observers(all ...Observer) Observer {
	o := &observers{}
	for _, one := range all {
		if one != nil {
			o.all = append(o.all, one)
		}
	}
	return o
}

type observers struct{ all []Observer }

func (o *observers) CallStart(ctx context.Context, c CallInfo, header http.Header) context.Context {
	return chain.Start(ctx, o, len(o.all), func(i int, ctx context.Context) context.Context {
		return o.all[i].CallStart(ctx, c, header)
	})
}

func (o *observers) CallEnd(ctx context.Context, c CallInfo, end CallEnd) {
	chain.End(ctx, o, len(o.all), func(i int, ctx context.Context) { o.all[i].CallEnd(ctx, c, end) })
}

func (o *observers) Waited(ctx context.Context, w Wait) {
	call := w.Call
	chain.Each(len(o.all), func(i int) {
		w.Call = chain.Own(call, o, i)
		o.all[i].Waited(ctx, w)
	})
}

func (o *observers) Event(ctx context.Context, e Event) {
	chain.Each(len(o.all), func(i int) { o.all[i].Event(ctx, e) })
}
