package weir

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/inflight"
	"github.com/weir-go/weir/limit"
)

// An Inspector is a Guard of any types, as consoles and collectors of metrics see
// it.
type Inspector interface {
	// Name is Options.Name.
	Name() string
	Stats() Stats
	// LoadTimes are how long the user's function ran, WaitTimes how long calls have waited
	// for a load. A hit is in neither.
	LoadTimes() inspect.Durations
	WaitTimes() inspect.Durations
	// ActiveFlights returns at most so many of what is in flight, the oldest first.
	ActiveFlights(most int) []inspect.Flight
	// CountEntries goes through all of the memory and counts. It is for consoles: some
	// ten milliseconds for a million entries, in which the Guard is not held up.
	CountEntries() inspect.Entries
	// HotKeys returns at most so many of each kind; none without Options.HotKeys.
	HotKeys(most int) inspect.HotKeys
	// Limiter is Options.Limiter, nil for none.
	Limiter() limit.Limiter
	InvalidateTags(ctx context.Context, tags ...string) error
	InvalidateAll(ctx context.Context) error

	inspector() // only Guards are, so that later versions can add methods
}

var _ Inspector = (*Guard[int, int])(nil)

func (g *Guard[K, V]) inspector() {}

// Name returns Options.Name.
func (g *Guard[K, V]) Name() string { return g.o.Name }

// Limiter returns Options.Limiter, nil for none.
func (g *Guard[K, V]) Limiter() limit.Limiter { return g.o.Limiter }

// LoadTimes returns how long the user's function has run, for each load that has
// returned. A bulk load is one.
func (g *Guard[K, V]) LoadTimes() inspect.Durations { return g.loads.Durations() }

// WaitTimes returns how long calls have waited for a load, their own or another's,
// those that left among them. A GetMany waits for each key that memory does not
// answer, for all at once.
func (g *Guard[K, V]) WaitTimes() inspect.Durations { return g.waits.Durations() }

// measure records how long the user's function took.
func (r *run[K, V]) measure() {
	if r.ctx != nil {
		r.g.loads.Record(time.Duration(r.ended - r.began))
	}
}

// The stages of a load, see inflight.Load.
const (
	stageQueued  int32 = iota // it gathers keys, waits for admission, or is about to run
	stageAsking               // it asks the fleet, or waits for another instance
	stageRunning              // the function was called
)

// ActiveFlights returns at most so many of the loads in flight, the oldest first; zero
// or less is none. Those whose function does not return although they were given
// up, because of the hard timeout, or as all callers have left, are stuck. It
// takes the Guard's lock for a moment.
func (g *Guard[K, V]) ActiveFlights(most int) []inspect.Flight {
	if most <= 0 {
		return nil
	}
	flights := g.collectFlights(most)
	slices.SortStableFunc(flights, func(a, b inspect.Flight) int { return cmp.Compare(b.Age, a.Age) })
	return flights
}

// collectFlights is ActiveFlights before they are in order.
func (g *Guard[K, V]) collectFlights(most int) []inspect.Flight {
	now := g.clock()
	g.flights.Lock()
	defer g.flights.Unlock()
	flights := make([]inspect.Flight, 0, min(most, g.flights.RunningLocked()))
	for l := range g.flights.LiveLocked() {
		state, ok := g.stateLocked(l)
		if !ok {
			continue
		}
		first, joiners := l.Flights()[0], l.JoinersLocked()
		if l.FinalLocked() {
			joiners = 0 // they have their answer
		}
		flights = append(flights, inspect.Flight{
			Key: first.Key, Keys: len(l.Flights()), State: state, Age: time.Duration(max(now-first.Began, 0)),
			Joiners: joiners, Background: l.Background(),
		})
		if len(flights) == most {
			break
		}
	}
	return flights
}

// stateLocked returns what l does. It reports false if that is nothing any more:
// it was given up and is on its way out, or each of its keys has gone another way.
// The table's lock must be held.
func (g *Guard[K, V]) stateLocked(l *inflight.Load[K, outcome[V]]) (inspect.FlightState, bool) {
	stage, returned := l.Stage.Load(), l.Ending()
	switch {
	case len(l.Flights()) == 0, l.FinalLocked() && (returned || stage != stageRunning):
		return "", false
	case l.FinalLocked():
		return inspect.FlightStuck, true
	case stage == stageAsking, returned && g.fleet != nil: // then the outcome goes to the fleet
		return inspect.FlightAsking, true
	case stage == stageRunning:
		return inspect.FlightRunning, true
	}
	return inspect.FlightQueued, true
}

// CountEntries counts what memory holds, by what would become of a Get now. With
// RefreshBeta an entry is due for its refresh as soon as hits draw. It does not
// take the Guard's lock, and does not count as a use of the entries.
func (g *Guard[K, V]) CountEntries() inspect.Entries {
	var n inspect.Entries
	now := g.clock()
	for _, e := range g.store.All() {
		*e.standing(&n, now)++
	}
	return n
}

// standing returns the one of the counts in n that e belongs to at now.
func (e *entry[V]) standing(n *inspect.Entries, now instant) *int {
	fresh := now < e.freshUntil
	switch {
	case e.outdated():
		return &n.Dead
	case fresh && e.kind == kindNegative:
		return &n.Negative
	case fresh && now >= e.refreshFrom.Load():
		return &n.RefreshDue
	case fresh:
		return &n.Fresh
	case now < e.staleUntil:
		return &n.Stale
	case e.failing(now) != nil:
		return &n.Failing
	case e.servesOnError(now):
		return &n.OnError
	}
	return &n.Dead
}

// HotKeys returns at most so many of the keys with the most calls, and of the
// keys whose loads take the longest in total; no more than Options.HotKeys. A
// call of Get, GetResult or Refresh is a call, and so is each distinct key of a
// GetMany, whatever it is answered from. The time of a bulk load is divided
// evenly between its keys. A load that hangs counts with LoadTimeout when that is
// over, and with the rest when it returns.
func (g *Guard[K, V]) HotKeys(most int) inspect.HotKeys { return g.hot.HotKeys(most, g.clock()) }

// asked counts a call for the hot keys, of which there must be some. turn differs
// from call to call.
func (g *Guard[K, V]) asked(key K, turn uint64, now instant) {
	if weight := g.hot.Sample(now, turn); weight > 0 {
		g.hot.Call(key, weight, now)
	}
}

// heat counts the load time of the run's keys for the hot keys.
func (r *run[K, V]) heat() {
	if r.g.hot == nil || r.ctx == nil {
		return
	}
	took := time.Duration(r.ended - r.began)
	if r.stuck {
		took -= r.g.o.LoadTimeout // which expire has counted
	}
	r.g.worked(r.l.Flights(), took)
}

// worked counts the time took as that of flights, for the hot keys.
func (g *Guard[K, V]) worked(flights []*inflight.Flight[K, outcome[V]], took time.Duration) {
	if g.hot == nil {
		return
	}
	now := g.clock()
	for _, f := range flights {
		g.hot.Load(f.Key, took/time.Duration(len(flights)), now)
	}
}
