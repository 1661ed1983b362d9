package weir

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/chain"
)

// An Observer is notified of what a Guard does: metrics, traces and logs are
// Observers. Without one there is no cost. A hit is never observed; Stats
// counts hits.
//
// The methods are called on the goroutines of loads and callers, several at a time,
// under no lock. They must be quick and must not call the Guard. A panic in one is
// swallowed and counted in Stats.ObserverPanics. runtime.Goexit in one is counted
// there too: a load still answers its callers, but in Waited, and in an Event of a
// call, it ends that caller's goroutine. Embed NopObserver, so that methods added
// in later versions do not break the build.
//
// Labels of metrics must be bounded: use Guard, never Key.
type Observer interface {
	// LoadStart is called on the load's goroutine, after admission and before
	// the load. The context that it returns is given to the load; it must be
	// ctx or derived from it.
	LoadStart(ctx context.Context, l LoadInfo) context.Context

	// LoadEnd is called when the load has returned and its callers are being
	// woken, with the context that LoadStart returned, without its
	// cancellation. Close waits for it.
	LoadEnd(ctx context.Context, l LoadInfo, end LoadEnd)

	// Waited is called when a call has waited for a load, with the call's
	// context.
	Waited(ctx context.Context, w Wait)

	// Event is called for everything that is neither a load nor a wait, with the
	// context of its call or load, which may have ended.
	Event(ctx context.Context, e Event)
}

// LoadInfo describes a load.
type LoadInfo struct {
	Guard      string // Options.Name
	Key        any    // the key, or the first of several; never use it as a metric's label
	Keys       int    // how many keys the load is for
	Background bool   // a refresh that no caller waited for at its start
	Stream     bool   // a stream of gRPC; how long it takes says nothing about the source
}

// LoadEnd describes how a load ended.
type LoadEnd struct {
	Start    time.Time     // time at which it began
	Duration time.Duration // time that it took
	Queued   time.Duration // before Start, waiting for admission
	Err      error         // error that the load returned
	Class    Class         // class of Err

	// Late reports that the result came after the load was given up: the
	// callers had left, the hard timeout had passed, or the Guard was closed.
	// It was thrown away.
	Late bool
}

// Wait describes a call's wait for a load.
type Wait struct {
	Guard    string        // Options.Name
	Start    time.Time     // time at which it began
	Duration time.Duration // time that it took
	Joined   bool          // another call had started the load
	Err      error         // why the caller left, or the load's error

	// Load is the context that LoadStart returned for the load, so that a
	// trace can link to it. It is nil if the load had not started.
	Load context.Context
}

// An Event is something that happened, usually to a key.
type Event struct {
	Guard string    // Options.Name
	Kind  EventKind // what happened
	Key   any       // or the first of several; nil if the event is not about a key
	Err   error     // the failure, nil if the event is none

	// Keys and Tags describe an invalidation or expiry: the number of keys, or
	// the tags. If both are zero, it was of everything.
	Keys int
	Tags []string // read-only
}

// An EventKind says what happened: a load, a refresh, an invalidation and so on.
type EventKind uint8

const (
	// EventRefused: the limiter refused a load, or it met Options.MaxStuck.
	EventRefused EventKind = 1 + iota
	// EventRefreshSkipped: a background refresh found Options.MaxRefreshes
	// reached, or the limiter had no permit to spare.
	EventRefreshSkipped
	// EventStaleOnError: a caller was served a stale value because of Err.
	EventStaleOnError
	// EventTimedOut: a load has outlived Options.LoadTimeout and is stuck
	// until it returns.
	EventTimedOut
	// EventAbandoned: a load was canceled because all its callers had left.
	EventAbandoned
	// EventTooHeavy: an entry is heavier than Options.MaxWeight.
	EventTooHeavy
	// EventInvalidationsPending: the fleet's Tier has not acknowledged an
	// invalidation, because of Err. It is queued, and may be followed by others:
	// Stats.Fleet.Pending counts them. The Event has no Key.
	EventInvalidationsPending
	// EventInvalidationsSent: the Tier has acknowledged all pending invalidations.
	// The Event has no Key.
	EventInvalidationsSent
	// EventInvalidated: a call of Invalidate, InvalidateTags or InvalidateAll has completed
	// on this instance. Err is set if the fleet's Tier has not acknowledged it.
	// Invalidations by other instances are not reported.
	EventInvalidated
	// EventExpired: likewise for Expire, ExpireTags and ExpireAll.
	EventExpired
	// EventEvicted: an entry was removed because memory was full. Only with
	// Options.ReportEvictions; Stats.Evicted is always counted.
	EventEvicted
)

func (k EventKind) String() string {
	switch k {
	case EventRefused:
		return "refused"
	case EventRefreshSkipped:
		return "refresh skipped"
	case EventStaleOnError:
		return "stale on error"
	case EventTimedOut:
		return "timed out"
	case EventAbandoned:
		return "abandoned"
	case EventTooHeavy:
		return "too heavy"
	case EventInvalidationsPending:
		return "invalidations pending"
	case EventInvalidationsSent:
		return "invalidations sent"
	case EventInvalidated:
		return "invalidated"
	case EventExpired:
		return "expired"
	case EventEvicted:
		return "evicted"
	}
	return "unknown"
}

// NopObserver does nothing. Embed it in Observers.
type NopObserver struct{}

var _ Observer = NopObserver{}

// LoadStart returns ctx.
func (NopObserver) LoadStart(ctx context.Context, _ LoadInfo) context.Context { return ctx }

// LoadEnd does nothing.
func (NopObserver) LoadEnd(context.Context, LoadInfo, LoadEnd) {}

// Waited does nothing.
func (NopObserver) Waited(context.Context, Wait) {}

// Event does nothing.
func (NopObserver) Event(context.Context, Event) {}

// Observers returns an Observer that calls each of all that is not nil. LoadStart is
// called in order, with the context that the previous Observer returned; LoadEnd in
// reverse order. In LoadEnd and Wait.Load each receives the context that it returned
// itself. After a panic or runtime.Goexit in one, the others are still called. A
// panic in LoadStart is counted when the load ends.
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

func (o *observers) LoadStart(ctx context.Context, l LoadInfo) context.Context {
	return chain.Start(ctx, o, len(o.all), func(i int, ctx context.Context) context.Context { return o.all[i].LoadStart(ctx, l) })
}

func (o *observers) LoadEnd(ctx context.Context, l LoadInfo, end LoadEnd) {
	chain.End(ctx, o, len(o.all), func(i int, ctx context.Context) { o.all[i].LoadEnd(ctx, l, end) })
}

func (o *observers) Waited(ctx context.Context, w Wait) {
	load := w.Load
	chain.Each(len(o.all), func(i int) {
		w.Load = chain.Own(load, o, i)
		o.all[i].Waited(ctx, w)
	})
}

func (o *observers) Event(ctx context.Context, e Event) {
	chain.Each(len(o.all), func(i int) { o.all[i].Event(ctx, e) })
}
