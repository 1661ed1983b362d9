package upstream

import (
	"math/rand/v2"
	"slices"
	"time"
)

// take chooses a server for a call and counts the call as on its way. With fresh
// it returns nil rather than one of tried; without, it prefers the others. probe
// says that the call is to find out about a server that was left alone.
//
// If no server is well, all are used: some answer may still come of it, and
// nothing is gained by giving up.
func (p *Pool) take(tried []*server, fresh bool) (s *server, probe bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	untried := func(s *server) bool { return !slices.Contains(tried, s) }
	well := func(s *server) bool { return s.wellLocked(now) }
	s = p.chooseLocked(func(s *server) bool { return well(s) && untried(s) })
	if s == nil {
		s = p.chooseLocked(well)
		if s != nil && fresh {
			return nil, false
		}
	}
	if s == nil {
		s = p.chooseLocked(untried)
	}
	if s == nil {
		if fresh {
			return nil, false
		}
		s = p.chooseLocked(func(*server) bool { return true })
	}
	probe = s.probeLocked(now)
	s.probing = s.probing || probe
	s.inFlight++
	s.calls++
	return s, probe
}

// chooseLocked draws two of the servers that fit, and returns the one with fewer
// calls on their way: the power of two choices (Mitzenmacher, 2001), which
// spreads nearly as well as the least busy of all, and does not send everybody
// to the same one. It returns nil if none fits. p.mu must be held.
func (p *Pool) chooseLocked(fits func(*server) bool) *server {
	var two [2]*server
	n := 0
	for _, s := range p.servers {
		if !fits(s) {
			continue
		}
		// The nth takes a place with the probability 2/n, so that in the end each
		// pair is as likely as any other.
		if n < 2 {
			two[n] = s
		} else if i := rand.IntN(n + 1); i < 2 {
			two[i] = s
		}
		n++
	}
	a, b := two[0], two[1]
	if b == nil || a.inFlight < b.inFlight {
		return a
	}
	if a.inFlight > b.inFlight || rand.IntN(2) == 0 {
		return b
	}
	return a
}

// A verdict is what a call says about its server.
type verdict uint8

const (
	unknown  verdict = iota // nothing
	answered                // it sent a head
	failed                  // it did not
)

// judge takes in how a call of s went. A server that fails too often in a row is
// left alone for a while; after that one call probes it, and the others stay
// away until it has answered. Any answer brings a server back.
func (p *Pool) judge(s *server, probe bool, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if probe {
		s.probing = false
	}
	switch v {
	case answered:
		s.fails, s.ejected = 0, false
	case failed:
		s.failures++
		s.fails++
		h := p.o.Health
		if h.Failures > 0 && (probe || !s.ejected && s.fails >= h.Failures) {
			s.ejected, s.until = true, time.Now().Add(h.Eject)
		}
	}
}

// leave says that a call of s has ended, with its body.
func (p *Pool) leave(s *server) {
	p.mu.Lock()
	s.inFlight--
	idle := s.gone && s.inFlight == 0
	p.mu.Unlock()
	if idle {
		s.transport.Close()
	}
}
