package weir

import (
	"math/bits"
	"runtime"
	"sync/atomic"
)

// Stats are counts since New, and a few current values. They are read one after
// another, so under traffic they may not add up exactly.
//
// A call is one of Get, GetResult, GetWith, Refresh or RefreshResult, or one key of a GetMany,
// GetManySeq or RefreshMany. Each counts once, however often it starts over, in one of Hits,
// StaleHits, NegativeHits, MemoHits, Joins, Started, TurnedAway or Rejected. [Stats.Calls] is their
// sum.
type Stats struct {
	// Calls that needed no load of their own.
	Hits         uint64 // answered by a fresh value
	StaleHits    uint64 // answered by a stale value, within stale-while-revalidate
	NegativeHits uint64 // answered by a remembered ErrNotFound
	MemoHits     uint64 // spared a load by a remembered failure
	Joins        uint64 // joined a running load

	// The other calls.
	Started    uint64 // started a load, alone or with other keys
	TurnedAway uint64 // refused at once, by the limiter or because of MaxStuck
	Rejected   uint64 // calls with an invalid key, an ended context or iteration, from within the key's own load, after Close, or OnlyCached without a value

	// StaleOnError counts calls of any kind that got a stale value instead of
	// an error or a long wait.
	StaleOnError uint64

	// Loads, one for each run of the user's function.
	Loads        uint64
	Refreshes    uint64 // loads in the background
	LoadTimeouts uint64 // loads that outlived LoadTimeout
	Panics       uint64 // loads that panicked or called runtime.Goexit
	Abandoned    uint64 // running and queued loads that were canceled because no caller waited

	// Results of loads, one for each key of a bulk load.
	LoadFailures uint64 // errors other than not-found
	NotFound     uint64 // ErrNotFound
	NotModified  uint64 // the previous value, unmodified
	Superseded   uint64 // overtaken by a write, and not kept

	// Loads and entries that were refused or dropped.
	Refusals         uint64 // loads refused by the limiter
	StuckRefusals    uint64 // loads refused because of MaxStuck
	RefreshesSkipped uint64 // refreshes that found no place or no permit
	TooHeavy         uint64 // entries not kept because of their weight
	Evicted          uint64 // entries removed because memory was full
	ObserverPanics   uint64

	// Cost counts units of Source.Cost.
	Cost CostStats

	// Fleet has the counts of the fleet.
	Fleet FleetStats

	// Current values.
	Entries    int // in memory, approximately, including those too old to be served
	Flights    int // keys that a caller could join
	Running    int // loads whose function has not returned
	Refreshing int // running loads in the background
	Stuck      int // running loads beyond LoadTimeout
}

// FleetStats count a Guard's requests to its fleet's Tier, and the replies.
type FleetStats struct {
	// Open reports that the circuit breaker in front of the Tier is open now, so the
	// Guard works without the Tier.
	Open bool

	TierHits   uint64 // flights answered with a value that another instance loaded
	Alone      uint64 // loads without the fleet: the Tier was unavailable, or another instance had a result that it does not share
	Cooled     uint64 // flights answered with another instance's failure
	Unencoded  uint64 // values that the Codec could not encode, so they are not shared
	Undecoded  uint64 // values from the Tier that it could not decode, or that have another Codec or another Go type
	LostLeases uint64 // leases whose extension was refused
	Refused    uint64 // results that the Tier rejected, because it knows of a newer change

	// Calls of the Tier, by kind; Acquires are Fresh, Granted, Held or Cooling,
	// or Unavailable.
	Acquires, Fresh, Granted, Held, Cooling uint64
	Settled, Extended, Writes, TagReads     uint64
	Unavailable                             uint64

	Waits  uint64 // calls that waited for another instance's load
	Pushes uint64 // changes that the Tier has reported
	Pushed uint64 // requests for which the Tier had pushed the value, so that it was not called
	Resets uint64 // times that pushes may have been missed

	// Pending is the number of invalidations that the Tier has not acknowledged yet.
	// Blocked means that one of them is of everything, or that there were too many,
	// so that nothing from the Tier is used. Queued counts those that were ever
	// pending, Replayed those that the Tier has acknowledged since.
	Pending          int
	Blocked          bool
	Queued, Replayed uint64
}

// fleetStats collects them.
func (g *Guard[K, V]) fleetStats() FleetStats {
	if g.fleet == nil {
		return FleetStats{}
	}
	c, m := &g.count, g.fleet.Stats()
	return FleetStats{
		Open:     m.Open,
		TierHits: c.tierHits.Load(), Alone: c.alone.Load(), Cooled: c.cooled.Load(),
		Unencoded: c.unencoded.Load(), Undecoded: c.undecoded.Load() + m.Foreign,
		LostLeases: m.LostLeases, Refused: m.Refused,
		Acquires: m.Acquires, Fresh: m.Fresh, Granted: m.Granted, Held: m.Held, Cooling: m.Cooling,
		Settled: m.Settled, Extended: m.Extended, Writes: m.Writes, TagReads: m.TagReads,
		Unavailable: m.Unavailable, Waits: m.Waits, Pushes: m.Pushes, Pushed: m.PushedUsed, Resets: m.Resets,
		Pending: m.Pending, Blocked: m.Blocked, Queued: m.Queued, Replayed: m.Replayed,
	}
}

// Avoided is the number of calls that needed no load of their own.
func (s Stats) Avoided() uint64 {
	return s.Hits + s.StaleHits + s.NegativeHits + s.MemoHits + s.Joins
}

// Calls is the number of calls.
func (s Stats) Calls() uint64 { return s.Avoided() + s.Started + s.TurnedAway + s.Rejected }

// Stats returns the Guard's counts. It takes the Guard's lock for a moment.
func (g *Guard[K, V]) Stats() Stats {
	c := &g.count
	s := Stats{
		Hits:             c.hits.sum(),
		StaleHits:        c.staleHits.Load(),
		NegativeHits:     c.negativeHits.Load(),
		MemoHits:         c.memoHits.Load(),
		Joins:            c.joins.Load(),
		Started:          c.started.Load(),
		TurnedAway:       c.turnedAway.Load(),
		Rejected:         c.rejected.Load(),
		StaleOnError:     c.staleOnError.Load(),
		Loads:            c.loads.Load(),
		Refreshes:        c.refreshes.Load(),
		LoadFailures:     c.loadFailures.Load(),
		NotFound:         c.notFound.Load(),
		NotModified:      c.notModified.Load(),
		LoadTimeouts:     c.loadTimeouts.Load(),
		Panics:           c.panics.Load(),
		Superseded:       c.superseded.Load(),
		Refusals:         c.refusals.Load(),
		StuckRefusals:    c.stuckRefusals.Load(),
		RefreshesSkipped: c.refreshesSkipped.Load(),
		TooHeavy:         c.tooHeavy.Load(),
		Evicted:          c.evicted.Load(),
		ObserverPanics:   c.observerPanics.Load(),
		Cost:             g.costStats(),
		Fleet:            g.fleetStats(),
		Entries:          g.store.EstimatedSize(),
	}
	g.flights.Lock()
	defer g.flights.Unlock()
	s.Abandoned = g.flights.AbandonedLocked()
	s.Flights = g.flights.LenLocked()
	s.Running = g.flights.RunningLocked()
	s.Refreshing = g.refreshing
	s.Stuck = g.stuck
	return s
}

// counters are the counts behind Stats. Hits are striped because a shared
// counter would slow them down.
type counters struct {
	hits     striped
	costHits striped // without a Source.Cost it has no cells

	costSpent, costJoins, costFleet, costRefused                 atomic.Uint64
	staleHits, staleOnError, negativeHits, memoHits, joins       atomic.Uint64
	loads, refreshes, loadFailures, notFound, notModified        atomic.Uint64
	loadTimeouts, panics, superseded                             atomic.Uint64
	refusals, stuckRefusals, refreshesSkipped, tooHeavy, evicted atomic.Uint64
	observerPanics, started, turnedAway, rejected                atomic.Uint64
	tierHits, alone, cooled, unencoded, undecoded                atomic.Uint64
}

// once adds 1 to n if the call has not been counted.
func once(n *atomic.Uint64, counted bool) {
	if !counted {
		n.Add(1)
	}
}

// striped is a counter in several cells, each on its own cache line, so that
// processors that count at the same time do not wait for each other.
type striped struct {
	cells []cell
	shift uint
}

type cell struct {
	n atomic.Uint64
	_ [56]byte
}

func newStriped() striped {
	b := bits.Len(uint(4*runtime.GOMAXPROCS(0) - 1))
	return striped{cells: make([]cell, 1<<b), shift: uint(64 - b)}
}

// add counts one, in a cell chosen by the current time, which the caller
// already has: its last digits spread processors as well as a random number,
// which costs 5 ns. It returns the count of the cell.
func (s *striped) add(now instant) uint64 {
	const golden = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: spreads near numbers (Knuth, TAOCP 3, section 6.4)
	return s.cells[uint64(now)*golden>>s.shift].n.Add(1)
}

// addN counts n, if there are cells.
func (s *striped) addN(now instant, n uint64) {
	const golden = 0x9E3779B97F4A7C15 // as in add
	if n > 0 && len(s.cells) > 0 {
		s.cells[uint64(now)*golden>>s.shift].n.Add(n)
	}
}

func (s *striped) sum() uint64 {
	var sum uint64
	for i := range s.cells {
		sum += s.cells[i].n.Load()
	}
	return sum
}
