package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
)

// HotKeys is how many of a level's busiest keys its unit on a Board shows.
const HotKeys = 20

// A Board shows a run in progress, with each level as a unit: it is the source of a web
// console. Finished levels stay, with their last numbers. A nil Board shows nothing. It is
// safe for concurrent use.
type Board struct {
	console.BaseSource

	bare console.Source // without units: it describes the process

	mu    sync.Mutex
	units []unit // guarded by mu; by name
}

// A unit is a level on a Board.
type unit struct {
	name string
	console.Source
}

var _ console.Source = (*Board)(nil)

// NewBoard returns an empty Board.
func NewBoard() *Board {
	bare, err := console.Guards()
	if err != nil {
		panic(err) // the error is about invalid Guards, and there are none
	}
	return &Board{bare: bare}
}

// show puts a level on b and replaces its previous unit.
func (b *Board) show(name string, s console.Source) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i, known := slices.BinarySearchFunc(b.units, name, func(u unit, name string) int { return cmp.Compare(u.name, name) })
	if !known {
		b.units = slices.Insert(b.units, i, unit{name: name})
	}
	b.units[i].Source = s
}

// freeze keeps a level's current state on b, and releases its Guard or gateway with all
// they store.
func (b *Board) freeze(name string) {
	if b == nil {
		return
	}
	if s, ok := b.find(name); ok {
		b.show(name, over(name, s))
	}
}

func (b *Board) find(name string) (console.Source, bool) {
	for _, u := range b.all() {
		if u.name == name {
			return u.Source, true
		}
	}
	return nil, false
}

func (b *Board) all() []unit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.units)
}

// Snapshot implements console.Source.
func (b *Board) Snapshot() console.Snapshot {
	s := console.Snapshot{At: time.Now(), Process: b.bare.Snapshot().Process}
	for _, u := range b.all() {
		of := u.Snapshot()
		s.Units = append(s.Units, of.Units...)
		s.Limits = append(s.Limits, of.Limits...)
		s.Stores = append(s.Stores, of.Stores...)
		s.Servers = append(s.Servers, of.Servers...)
	}
	return s
}

// Detail implements console.Source.
func (b *Board) Detail(unit string, most int) (console.Detail, bool) {
	s, ok := b.find(unit)
	if !ok {
		return console.Detail{}, false
	}
	return s.Detail(unit, most)
}

// HotKeys implements console.Source.
func (b *Board) HotKeys(unit string, most int) (inspect.HotKeys, bool) {
	s, ok := b.find(unit)
	if !ok {
		return inspect.HotKeys{}, false
	}
	return s.HotKeys(unit, most)
}

// Abilities implements console.Source.
func (b *Board) Abilities() console.Abilities { return console.Abilities{Purge: b.Purge} }

// Purge purges a level, which works only while it runs.
func (b *Board) Purge(ctx context.Context, unit string, tags []string, all bool) (bool, error) {
	s, ok := b.find(unit)
	if !ok {
		return false, nil
	}
	purge := s.Abilities().Purge
	if purge == nil {
		return true, fmt.Errorf("%s has nothing to purge: it has ended, or stores nothing", unit)
	}
	return purge(ctx, unit, tags, all)
}

// A frozen level is a finished one in its last state.
type frozen struct {
	console.BaseSource

	units  []console.Unit
	limits []console.Limit
	detail console.Detail
	hot    inspect.HotKeys
}

func over(unit string, s console.Source) frozen {
	of := s.Snapshot()
	f := frozen{units: of.Units, limits: of.Limits} // its gateway's servers and store are gone
	f.detail, _ = s.Detail(unit, 0)
	f.detail.Flights = nil
	f.hot, _ = s.HotKeys(unit, HotKeys)
	return f
}

func (f frozen) Snapshot() console.Snapshot {
	return console.Snapshot{Units: f.units, Limits: f.limits}
}

func (f frozen) Detail(string, int) (console.Detail, bool) { return f.detail, true }

func (f frozen) HotKeys(_ string, most int) (inspect.HotKeys, bool) {
	h := f.hot
	h.ByTraffic = h.ByTraffic[:min(max(most, 0), len(h.ByTraffic))]
	h.ByLoadTime = h.ByLoadTime[:min(max(most, 0), len(h.ByLoadTime))]
	return h, true
}
