package weirhttp

import (
	"fmt"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/limit"
)

// A phase is how far a flight has come. It only grows, by the table in next; a step that
// comes too late, because the flight was given up meanwhile, is left out (see reachLocked).
type phase uint8

const (
	phaseAsking  phase = iota // it waits for the fleet
	phasePaying               // there will be a call, for which its leader pays
	phaseQueued               // it waits for a permit
	phaseCalling              // the next handler was called
	phaseJudged               // its result is final, and all callers that wait for it get that
	phaseEnded                // its call has returned, and is stored if it is to be
)

var phases = [...]string{"asking", "paying", "queued", "calling", "judged", "ended"}

func (p phase) String() string { return phases[p] }

// next lists the phases that may follow each one. A flight is born asking, or paying
// without a fleet. A queue that refuses a flight is entered again if callers have joined to
// which that does not apply.
var next = [...][]phase{
	phaseAsking:  {phasePaying, phaseJudged},
	phasePaying:  {phaseQueued, phaseJudged},
	phaseQueued:  {phaseQueued, phaseCalling, phaseJudged},
	phaseCalling: {phaseJudged},
	phaseJudged:  {phaseEnded},
	phaseEnded:   {},
}

// A fate says whether callers that leave can still end a flight. It only grows.
type fate uint8

const (
	fateOpen      fate = iota // it ends with its last caller, unless the cache waits for it, too
	fateCertain               // its end is certain
	fateAbandoned             // it was given up, and its call may run on
)

// A flightState is what changes about a flight while callers join and leave it. It is
// guarded by Cache.mu.
type flightState struct {
	phase   phase
	fate    fate
	refresh bool // the cache waits for it as well
	listed  bool // later requests find it
	keeps   bool // its response is to be stored
	whole   bool // all of its body has arrived, but not its end

	joiners int
	waiting []*joiner    // until its result is final
	crowd   admit.Crowd  // their demand on the limiter
	place   *limit.Place // while it is queued
}

// strictly makes steps that next does not have panic, in tests.
var strictly bool

// reachLocked moves s on to p. It reports false, and changes nothing, if s is already
// final: it was given up meanwhile. Cache.mu must be held.
func (s *flightState) reachLocked(p phase) bool {
	if s.phase >= phaseJudged && p < phaseEnded {
		return false
	}
	if strictly && !follows(s.phase, p) {
		panic(fmt.Sprintf("weirhttp: a flight goes from %v to %v", s.phase, p))
	}
	s.phase = p
	return true
}

func follows(from, to phase) bool {
	for _, p := range next[from] {
		if p == to {
			return true
		}
	}
	return false
}

// final reports whether the result is final: later joiners are judged separately.
func (s *flightState) final() bool { return s.phase >= phaseJudged }

// decideLocked moves the fate on. Cache.mu must be held.
func (s *flightState) decideLocked(f fate) { s.fate = max(s.fate, f) }
