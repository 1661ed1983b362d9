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
	// LoadTimes are the running times of the user's function, WaitTimes the times that
	// calls have waited for a load. Hits are in neither.
	LoadTimes() inspect.Durations
	WaitTimes() inspect.Durations
	// ActiveFlights returns at most most flights, oldest first.
	ActiveFlights(most int) []inspect.Flight
	// CountEntries counts all entries in memory. It is for consoles: a million entries
	// take some ten milliseconds, and the Guard is not blocked.
	CountEntries() inspect.Entries
	// HotKeys returns at most most keys of each kind; none without
	// Options.HotKeys.
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

// LoadTimes returns the running times of the user's function, for loads that
// have returned. A bulk load counts once.
func (g *Guard[K, V]) LoadTimes() inspect.Durations { return g.loads.Durations() }

// WaitTimes returns how long calls have waited for a load, their own or another's,
// including calls that left. A GetMany counts one wait for each key that memory
// does not answer; they run at the same time.
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

// ActiveFlights returns at most most of the loads in flight, oldest first; for zero or
// less it returns none. A load is stuck if it was given up, because of the hard
// timeout or because all callers left, and its function has not returned.
// ActiveFlights takes the Guard's lock for a moment.
func (g *Guard[K, V]) ActiveFlights(most int) []inspect.Flight {
	if most <= 0 {
		return nil
	}
	flights := g.collectFlights(most)
	slices.SortStableFunc(flights, func(a, b inspect.Flight) int { return cmp.Compare(b.Age, a.Age) })
	return flights
}

// collectFlights is ActiveFlights without the order.
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

// stateLocked returns the state of l. It returns false if l does nothing any more:
// it was given up and is ending, or each of its keys has moved to another load.
// The table's lock must be held.
func (g *Guard[K, V]) stateLocked(l *inflight.Load[K, outcome[V]]) (inspect.FlightState, bool) {
	stage, returned := l.Stage.Load(), l.Ending()
	switch {
	case len(l.Flights()) == 0, l.FinalLocked() && (returned || stage != stageRunning):
		return "", false
	case l.FinalLocked():
		return inspect.FlightStuck, true
	case stage == stageAsking, returned && g.fleet != nil: // it is sending the outcome to the fleet
		return inspect.FlightAsking, true
	case stage == stageRunning:
		return inspect.FlightRunning, true
	}
	return inspect.FlightQueued, true
}

// CountEntries counts the entries in memory by how a Get would use them now.
// With RefreshBeta an entry is due for its refresh as soon as hits draw. It does
// not take the Guard's lock, and does not count as a use of the entries.
func (g *Guard[K, V]) CountEntries() inspect.Entries {
	var n inspect.Entries
	now := g.clock()
	for _, e := range g.store.All() {
		*e.standing(&n, now)++
	}
	return n
}

// standing returns the count in n that e belongs to at now.
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

// HotKeys returns the keys with the most calls and the keys with the longest
// total load time: at most most of each, and no more than Options.HotKeys. Each
// Get, GetResult or Refresh is a call, and so is each distinct key of a GetMany,
// hit or not. The time of a bulk load is divided evenly between its keys. A load
// that hangs adds LoadTimeout when that is over, and the rest when it returns.
func (g *Guard[K, V]) HotKeys(most int) inspect.HotKeys { return g.hot.HotKeys(most, g.clock()) }

// asked counts a call in the sketch of hot keys, which must be on. turn differs
// from call to call.
func (g *Guard[K, V]) asked(key K, turn uint64, now instant) {
	if weight := g.hot.Sample(now, turn); weight > 0 {
		g.hot.Call(key, weight, now)
	}
}

// heat adds the load time of the run's keys to the sketch of hot keys.
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

// worked adds took as the load time of flights to the sketch of hot keys.
func (g *Guard[K, V]) worked(flights []*inflight.Flight[K, outcome[V]], took time.Duration) {
	if g.hot == nil {
		return
	}
	now := g.clock()
	for _, f := range flights {
		g.hot.Load(f.Key, took/time.Duration(len(flights)), now)
	}
}
