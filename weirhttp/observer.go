package weirhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/chain"
)

// An Observer is notified of calls of the next handler, of waits for them, and of
// other events. Metrics, traces and logs are Observers. Responses themselves carry a
// [Receipt]. A hit is never observed; Stats counts hits.
//
// The methods are called on the goroutines of calls and requests, possibly several at
// a time, without any lock held. They must be quick. A panic in one of them is
// swallowed and counted in Stats.ObserverPanics. runtime.Goexit ends the request or
// the call on whose goroutine it happens, as in any handler. Embed NopObserver, so
// that a method added here later does not break the build.
type Observer interface {
	// CallStart is called before the next handler, with the request that it gets.
	// header is a copy for that request alone, and may be added to (a traceparent).
	// The context that CallStart returns is the call's; it must be ctx or derived
	// from it.
	CallStart(ctx context.Context, c CallInfo, header http.Header) context.Context

	// CallEnd is called once for each CallStart, when the call and its body have
	// ended, with the context that CallStart returned, without its cancellation. A
	// call that was given up does not end before its handler returns.
	CallEnd(ctx context.Context, c CallInfo, end CallEnd)

	// Waited is called when a request has waited for another request's call, with the
	// waiting request's context. It is called before the response, even if that comes
	// from elsewhere.
	Waited(ctx context.Context, w Wait)

	// Event is called for anything that is neither a call nor a wait, with the
	// context of its request.
	Event(ctx context.Context, e Event)
}

// CallInfo describes a call of the next handler.
type CallInfo struct {
	Route      string        // Options.Route
	Request    *http.Request // the request that led to it; must not be changed or kept
	Background bool          // a refresh
	// Fallback is what a Fallback has sent the request to, and FallbackReason why: see
	// Receipt. Both are empty for other calls.
	Fallback, FallbackReason string
}

// CallEnd describes how a call ended.
type CallEnd struct {
	Start    time.Time     // time at which it began
	Headed   time.Duration // time until the response headers, 0 without any
	Duration time.Duration // time until the end of the response
	Queued   time.Duration // before Start, while waiting for admission
	Status   int           // of the response, 0 without one
	Err      error         // error of the call, nil if it has a response
}

// Wait describes a request's wait for another request's call, until its headers.
type Wait struct {
	Route    string        // Options.Route
	Start    time.Time     // time at which it began
	Duration time.Duration // time that it took
	Err      error         // why the client left, or why the call failed

	// Call is the context that CallStart returned, so that a trace can link to it.
	// It is nil if the call had not started.
	Call context.Context
}

// An Event reports one thing that happened in a Handler, such as a call that ended.
type Event struct {
	Route   string        // Options.Route
	Kind    EventKind     // what happened
	Request *http.Request // must not be changed or kept; nil if there is none
	Status  int           // status of the response, 0 without one
	Err     error         // error of the call, nil if it has a response
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	EventRefused  EventKind = 1 + iota // a request was rejected; Err says by what
	EventFailed                        // a call failed without a response
	EventPanicked                      // the next handler panicked; Err is a *flight.PanicError
	EventDiffered                      // in observe mode, a response that would have been shared was different
	EventStale                         // a stale response was served because of Err
	EventLagged                        // a client was cut off because it fell behind others that share a body; Err is why it could not continue
	EventUnknown                       // a call with an Idempotency-Key has ended with an unknown outcome; Err is an *UnknownOutcomeError
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
	case EventLagged:
		return "client cut off"
	case EventUnknown:
		return "unknown outcome"
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

// Observers returns an Observer that calls each of all, except those that are nil.
// CallStart is called in order, each with the context that the previous one returned;
// CallEnd is called in reverse order. In CallEnd and in Wait.Call, each gets the
// context that its own CallStart returned. A panic or runtime.Goexit in one does not
// keep the others from being called.
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
