package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inspect"
)

// guards is a Source of Guards.
type guards struct {
	BaseSource

	all    []weir.Inspector // by name
	limits limiters
}

var _ Source = (*guards)(nil)

// Guards returns a Source of Guards, which supports purging. Each must have a
// different name; otherwise the error lists the faults.
//
// The Requests of a Guard are its Stats.Calls. Each key of a GetMany counts as one,
// and calls that were refused at once are included. The Waiting of a Guard is correct
// for up to a thousand flights.
//
// Limiters are shown if they are from package limit, with the parts of a limit.All as
// separate limiters, and a limiter that several Guards share only once. They have the
// names from their options, or else the name of the first Guard that uses them.
func Guards(all ...weir.Inspector) (Source, error) {
	var faults []error
	seen := map[string]int{}
	for i, g := range all {
		if g == nil {
			faults = append(faults, fmt.Errorf("console: Guards: number %d is nil", i+1))
			continue
		}
		switch name := g.Name(); {
		case name == "":
			faults = append(faults, fmt.Errorf("console: Guards: number %d has no name; want a weir.Options.Name", i+1))
		case seen[name] > 0:
			faults = append(faults, fmt.Errorf("console: Guards: numbers %d and %d are both named %q; want different names", seen[name], i+1, name))
		default:
			seen[name] = i + 1
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	s := &guards{all: slices.Clone(all)}
	slices.SortFunc(s.all, func(a, b weir.Inspector) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, g := range s.all {
		s.limits.add(g.Name(), g.Limiter())
	}
	return s, nil
}

func (s *guards) find(unit string) (weir.Inspector, bool) {
	i, ok := slices.BinarySearchFunc(s.all, unit, func(g weir.Inspector, name string) int { return cmp.Compare(g.Name(), name) })
	if !ok {
		return nil, false
	}
	return s.all[i], true
}

// Snapshot implements Source.
func (s *guards) Snapshot() Snapshot {
	now := Snapshot{At: time.Now(), Units: make([]Unit, len(s.all)), Process: process()}
	for i, g := range s.all {
		stats := g.Stats()
		now.Units[i] = s.unit(g, stats)
		if stats.Fleet != (weir.FleetStats{}) {
			now.Tier = addTier(now.Tier, stats.Fleet)
		}
	}
	now.Limits = s.limits.stand()
	return now
}

// maxWaiting is the number of flights whose waiting callers are counted.
const maxWaiting = 1000

func (s *guards) unit(g weir.Inspector, stats weir.Stats) Unit {
	waits := g.WaitTimes()
	u := Unit{
		Name:     g.Name(),
		Kind:     "guard",
		Limit:    s.limits.of(g.Limiter()),
		Requests: stats.Calls(),
		Avoided: Avoided{
			Hits: stats.Hits, Stale: stats.StaleHits, Negative: stats.NegativeHits, Failures: stats.MemoHits,
			Joined: stats.Joins, Fleet: stats.Fleet.TierHits,
		},
		Refused: Refused{Limit: stats.Refusals, Stuck: stats.StuckRefusals},
		Cost: Cost{
			Spent: stats.Cost.Spent, Hits: stats.Cost.Hits, Joined: stats.Cost.Joins, Fleet: stats.Cost.Fleet, Refused: stats.Cost.Refused,
		}.orNil(),
		Calls:        stats.Loads,
		Refreshes:    stats.Refreshes,
		Failed:       stats.LoadFailures,
		Timeouts:     stats.LoadTimeouts,
		Panics:       stats.Panics,
		Abandoned:    stats.Abandoned,
		StaleOnError: stats.StaleOnError,
		Evicted:      stats.Evicted,
		Entries:      stats.Entries,
		Flights:      stats.Flights,
		Running:      stats.Running,
		Refreshing:   stats.Refreshing,
		Stuck:        stats.Stuck,
		WaitTime:     waits,
		CallTime:     g.LoadTimes(),
	}
	if stats.Flights > 0 {
		u.Waiting = waiting(g.ActiveFlights(maxWaiting))
	}
	return u
}

// waiting counts the callers that wait for another caller's load: all but the one
// that started it.
func waiting(flights []inspect.Flight) int {
	n := 0
	for _, f := range flights {
		own := f.Keys
		if f.Background {
			own = 0
		}
		n += max(f.Joiners-own, 0)
	}
	return n
}

func addTier(t *Tier, f weir.FleetStats) *Tier {
	if t == nil {
		t = &Tier{}
	}
	t.Open = t.Open || f.Open // open if any of several is open
	t.Acquires += f.Acquires
	t.Fresh += f.Fresh
	t.Granted += f.Granted
	t.Held += f.Held
	t.Cooling += f.Cooling
	t.Settled += f.Settled
	t.Refused += f.Refused
	t.Extended += f.Extended
	t.LostLeases += f.LostLeases
	t.Unavailable += f.Unavailable
	t.Waits += f.Waits
	t.Pushes += f.Pushes
	t.Resets += f.Resets
	t.Pending += f.Pending
	t.Blocked = t.Blocked || f.Blocked
	t.Queued += f.Queued
	return t
}

// Detail implements Source.
func (s *guards) Detail(unit string, most int) (Detail, bool) {
	g, ok := s.find(unit)
	if !ok {
		return Detail{}, false
	}
	entries := g.CountEntries()
	d := Detail{Unit: s.unit(g, g.Stats()), Entries: &entries}
	for _, f := range g.ActiveFlights(most) {
		d.Flights = append(d.Flights, Flight{Flight: f})
	}
	d.Limit = s.limits.find(d.Unit.Limit)
	return d, true
}

// HotKeys implements Source.
func (s *guards) HotKeys(unit string, most int) (inspect.HotKeys, bool) {
	g, ok := s.find(unit)
	if !ok {
		return inspect.HotKeys{}, false
	}
	return g.HotKeys(most), true
}

// Abilities implements Source.
func (s *guards) Abilities() Abilities { return Abilities{Purge: s.purge} }

func (s *guards) purge(ctx context.Context, unit string, tags []string, all bool) (bool, error) {
	g, ok := s.find(unit)
	switch {
	case !ok:
		return false, nil
	case all:
		return true, g.InvalidateAll(ctx)
	}
	return true, g.InvalidateTags(ctx, tags...)
}
