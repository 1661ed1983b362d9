package weirhttp

import (
	"time"

	"github.com/weir-go/weir/inspect"
)

// activeFlights lists the flights of a Handler that have not ended, in the order in
// which they began. It includes those that can no longer be joined. It is guarded by
// Cache.mu.
type activeFlights struct {
	first, last *flight
	n           int
}

// addLocked adds f, the youngest. Cache.mu must be held.
func (a *activeFlights) addLocked(f *flight) {
	f.older = a.last
	if f.older == nil {
		a.first = f
	} else {
		f.older.younger = f
	}
	a.last = f
	a.n++
}

// removeLocked removes f, which must be in the list. Cache.mu must be held.
func (a *activeFlights) removeLocked(f *flight) {
	if f.older == nil {
		a.first = f.younger
	} else {
		f.older.younger = f.younger
	}
	if f.younger == nil {
		a.last = f.older
	} else {
		f.younger.older = f.older
	}
	f.older, f.younger = nil, nil
	a.n--
}

// lookLocked describes f, except for its key. Cache.mu must be held.
func (f *flight) lookLocked() inspect.Flight {
	return inspect.Flight{
		Keys: 1, State: f.stateLocked(), Age: time.Since(f.born), Joiners: f.joiners, Background: f.refresh,
	}
}

func (f *flight) stateLocked() inspect.FlightState {
	switch {
	case f.fate == fateAbandoned:
		return inspect.FlightStuck
	case f.phase == phaseAsking:
		return inspect.FlightAsking
	case f.phase == phaseQueued:
		return inspect.FlightQueued
	case f.final():
		return inspect.FlightStreaming
	}
	return inspect.FlightRunning
}
