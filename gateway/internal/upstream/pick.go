package upstream

import (
	"math/rand/v2"
	"slices"
	"time"
)

// take chooses a server for a call and counts the call as in flight. With fresh it returns
// nil rather than a server in tried; without, it prefers the others. probe is true if the
// call probes an ejected server.
//
// If no server is healthy, all are used: one of them may still respond, and giving up gains
// nothing.
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

// chooseLocked draws two of the eligible servers and returns the one with fewer calls in
// flight: the power of two choices (Mitzenmacher, 2001). It spreads the load nearly as well
// as choosing the least busy server, and does not send all callers to the same one. It
// returns nil if no server is eligible. p.mu must be held.
func (p *Pool) chooseLocked(fits func(*server) bool) *server {
	var two [2]*server
	n := 0
	for _, s := range p.servers {
		if !fits(s) {
			continue
		}
		// The nth server takes a place with probability 2/n, so that all pairs are equally
		// likely.
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

// A verdict is the outcome of a call as far as it concerns the server.
type verdict uint8

const (
	unknown  verdict = iota // no conclusion
	answered                // it sent a response header
	failed                  // it did not
)

// judge records the outcome of a call of s. A server that fails too often in a row is
// ejected for a while. After that one call probes it, and no other call is sent until it
// has responded. Any response readmits a server.
//
// why is the error of a call that has failed.
func (p *Pool) judge(s *server, probe bool, v verdict, why error) {
	p.mu.Lock()
	if probe {
		s.probing = false
	}
	h, was, used := p.o.Health, s.ejected, s.usable()
	switch v {
	case answered:
		s.fails, s.ejected = 0, false
	case failed:
		s.failures++
		s.fails++
		if h.Failures > 0 && (probe || !s.ejected && s.fails >= h.Failures) {
			s.ejected, s.until = true, time.Now().Add(h.Eject)
		}
	}
	now, fails := s.ejected, s.fails
	s.changedLocked(used, fails, "calls", why)
	p.mu.Unlock()
	switch {
	case now && !was:
		p.tell(ServerChange{Server: s.url.String(), State: Ejected, Failures: fails, For: h.Eject, Err: why})
	case was && !now:
		p.tell(ServerChange{Server: s.url.String(), State: Readmitted})
	}
}

// tell reports a change. p.mu must not be held.
func (p *Pool) tell(c ServerChange) {
	if p.env.Changed != nil {
		p.env.Changed(c)
	}
}

// leave records that a call of s has ended, including its body.
func (p *Pool) leave(s *server) {
	p.mu.Lock()
	s.inFlight--
	idle := s.gone && s.inFlight == 0
	p.mu.Unlock()
	if idle {
		s.transport.Close()
	}
}
