package fleettest

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/fleet"
)

func needsSteps(f Fixture) string {
	return unless(f.StepClock != nil, "the engine's clock cannot be set here")
}

// remove invalidates "k", which a restored or busy engine can reject at first.
func (s *suite) remove(n *node) {
	s.Helper()
	if _, err := n.m.Write(context.Background(), "k", fleet.Write{}); err != nil {
		s.Errorf("Write = %v; want nil", err)
	}
}

func (s *suite) writeDuringAPartition(m *Measured) {
	nodes, src := s.nodes(3), &source{takes: loadTakes}
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	m.Longest = 0
	s.f.CutOff(nodes[0].tier)
	if _, err := nodes[0].m.Write(context.Background(), "k", fleet.Write{}); !errors.Is(err, fleet.ErrUnavailable) {
		s.Errorf("Write = %v; want ErrUnavailable", err)
	}
	texts, errs = m.all(nodes, src)
	s.same(texts[:1], errs[:1], "load 2")
	s.same(texts[1:], errs[1:], "load 1") // the invalidation has not reached them
	s.f.Mend(nodes[0].tier)
	s.eventually(s.f.Recovery, "the invalidation is acknowledged", func() bool { return nodes[0].m.Stats().Pending == 0 })
	texts, errs = m.all(nodes, src)
	s.same(texts, errs, "load 3")
	m.MostLoads, m.Limit = 3, 2*s.f.Deadline+loadTakes
}

// historyLost tests an engine whose state reverts to before an invalidation.
func (s *suite) historyLost(m *Measured, lose func(lost func())) {
	nodes, src := s.nodes(3), &source{takes: loadTakes}
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	lose(func() {
		s.remove(nodes[0])
		texts, errs := m.all(nodes, src)
		s.same(texts, errs, "load 2")
	})
	m.Longest = 0
	for _, n := range nodes {
		s.recover(n.tier)
	}
	texts, errs = m.all(nodes, src)
	for i, text := range texts {
		if text == "load 1" || errs[i] != nil {
			s.Errorf("instance %d has %q, %v; want nothing from before the invalidation", i, text, errs[i])
		}
	}
	m.MostLoads, m.Limit = 2+len(nodes), s.f.Lease+maxJitter+2*s.f.Deadline+2*loadTakes
}

func (s *suite) clockSteps(m *Measured, d time.Duration) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	k := s.key("k")
	first := s.grant(nodes[0].tier, k, fleet.Ask{Lease: s.f.Lease})
	src.loads.Add(1) // the load began, but its process died
	s.f.StepClock(d)
	texts, errs := m.all(nodes[1:], src)
	s.same(texts, errs, "load 2")
	s.settle(nodes[0].tier, k, first, value("late", 0), false)
	m.MostLoads, m.Limit = 2, s.f.Lease+maxJitter+loadTakes
}

func (s *suite) foreignValue(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	s.f.Foreign(s.key("k"))
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	m.MostLoads, m.Limit = 1, loadTakes
}

func (s *suite) evicted(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	s.remove(nodes[0])
	s.f.Evict()
	texts, errs = m.all(nodes, src)
	s.same(texts, errs, "load 2")
	m.MostLoads, m.Limit = 2, loadTakes
}
