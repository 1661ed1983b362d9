package fleettest

import (
	"context"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A row is a row of the table of failures.
type row struct {
	name, failure, bound string
	needs                func(Fixture) string // returns why it cannot run; nil: it always can
	test                 func(*suite, *Measured)
}

var rows = []row{
	{"HolderDies", "holder dies", "one waiter takes over: rest of the lease + one load", nil, (*suite).holderDies},
	{"HolderPausedPastItsLease", "holder paused past its lease", "a second holder with a higher fence, the late store is refused: two loads overlap", nil, (*suite).holderPaused},
	{"HolderHangsButHeartbeats", "holder hangs but heartbeats", "the load's deadline ends the heartbeat: that deadline, then one load", nil, (*suite).holderHangs},
	{"SourceFails", "source fails", "the error is shared: one load a cooling period", nil, (*suite).sourceFails},
	{"InvalidationDuringALoad", "invalidation during a load", "store refused, waiters acquire again: one load more", nil, (*suite).invalidationDuringALoad},
	{"WakeUpLost", "wake-up lost", "timer at the lease's end: rest of the lease + jitter", needsDeafen, (*suite).wakeUpLost},
	{"EngineHung", "engine hung", "deadline once, then one load an instance", needsHang, (*suite).engineHung},
	{"EngineDown", "engine down", "errors at once: one load an instance", needsStop, (*suite).engineDown},
	{"EngineRestartsEmpty", "engine restarts empty", "leases coordinate the refill: one load a key", needsStop, (*suite).engineRestartsEmpty},
	{"MasterFailsOver", "master fails over, lease lost", "second holder, fences order the stores: two loads overlap", needsFailover, (*suite).masterFailsOver},
	{"InstanceCutOff", "instance cut off", "local mode there: one load for each", needsCutOff, (*suite).instanceCutOff},
	{"WriteDuringAPartition", "a write during a partition", "the invalidation is pending: nothing from before on that instance, elsewhere until it is sent", needsCutOff, (*suite).writeDuringAPartition},
	{"SnapshotRestored", "engine restored from a snapshot", "its numbers went back: everything is invalidated, one load an instance at most", func(f Fixture) string { return unless(f.Restore != nil, "the engine has no snapshots here") }, func(s *suite, m *Measured) { s.historyLost(m, s.f.Restore) }},
	{"FailoverLosesWrites", "a failover that loses writes", "as with a snapshot", func(f Fixture) string { return unless(f.FailoverLosing != nil, "the engine has no replica here") }, func(s *suite, m *Measured) { s.historyLost(m, s.f.FailoverLosing) }},
	{"ClockSetBack", "engine clock back by a minute", "no lease lasts longer than it was granted for: rest of the lease + one load", needsSteps, func(s *suite, m *Measured) { s.clockSteps(m, -time.Minute) }},
	{"ClockSetForward", "engine clock ahead by a minute", "leases end early, fences order the stores: two loads overlap", needsSteps, func(s *suite, m *Measured) { s.clockSteps(m, time.Minute) }},
	{"ForeignValue", "foreign or corrupt values under a key", "they count as absent: one load", func(f Fixture) string { return unless(f.Foreign != nil, "nobody else writes here") }, (*suite).foreignValue},
	{"Evicted", "eviction (`allkeys-random`)", "what is gone is loaded again: one load for each eviction", func(f Fixture) string { return unless(f.Evict != nil, "the engine does not evict here") }, (*suite).evicted},
	{"ClientClockWrong", "client clock wrong by 15 minutes", "no effect", needsClock, (*suite).clientClockWrong},
	{"ManyWaiters", "many waiters", "commands a waiter are bounded, no polling: one load, 4 commands an instance", nil, (*suite).manyWaiters},
}

func unless(can bool, why string) string {
	if can {
		return ""
	}
	return why
}

func needsDeafen(f Fixture) string { return unless(f.Deafen != nil, "pushes cannot be lost here") }
func needsHang(f Fixture) string {
	return unless(f.Hang != nil && f.Unhang != nil, "the engine cannot hang here")
}
func needsStop(f Fixture) string {
	return unless(f.Stop != nil && f.Start != nil, "the engine cannot be restarted here")
}
func needsFailover(f Fixture) string {
	return unless(f.Failover != nil, "the engine has no replica here")
}
func needsCutOff(f Fixture) string {
	return unless(f.CutOff != nil && f.Mend != nil, "an instance cannot be cut off here")
}
func needsClock(f Fixture) string { return unless(f.ClockWrong != nil, "clocks cannot be set here") }

const (
	maxJitter = 50 * time.Millisecond // of a waiter's wake-up at a lease's end
	loadTakes = 100 * time.Millisecond
)

func (s *suite) holderDies(m *Measured) {
	nodes, src := s.nodes(5), &source{takes: loadTakes}
	s.grant(nodes[0].tier, s.key("k"), fleet.Ask{Lease: s.f.Lease})
	src.loads.Add(1) // the load began, but its process died
	texts, errs := m.all(nodes[1:], src)
	s.same(texts, errs, "load 2")
	m.MostLoads, m.Limit = 2, s.f.Lease+maxJitter+loadTakes
}

func (s *suite) holderPaused(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: 2 * s.f.Lease}
	k := s.key("k")
	paused := s.grant(nodes[0].tier, k, fleet.Ask{Lease: s.f.Lease})
	src.loads.Add(1)
	during := time.AfterFunc(2*s.f.Lease, func() { // while the second node loads
		s.settle(nodes[0].tier, k, paused, value("late", 0), false)
	})
	defer during.Stop()
	texts, errs := m.all(nodes[1:], src)
	s.same(texts, errs, "load 2")
	s.settle(nodes[0].tier, k, paused, value("late", 0), false) // and after
	if ans := s.expect(nodes[0].tier, k, fleet.Ask{}, fleet.GrantFresh); ans.Entry == nil || ans.Entry.Fence <= paused {
		s.Errorf("the entry is %+v; want one with a fence above %d", ans.Entry, paused)
	}
	m.MostLoads, m.Limit = 2, s.f.Lease+maxJitter+src.takes
}

func (s *suite) holderHangs(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	sub := nodes[0].m.Subscribe("k")
	defer sub.Close()
	a, err := sub.Ask(context.Background(), fleet.Ask{})
	if err != nil || a.Grant != fleet.GrantLease {
		s.Fatalf("Ask = %v, %v; want granted", a.Grant, err)
	}
	src.loads.Add(1)
	deadline := 5 * s.f.Lease / 2
	lease := sub.Hold(a.Fence, func() { s.Error("the lease was lost, in spite of its heartbeats") })
	ends := time.AfterFunc(deadline, func() { lease.GiveUp(fleet.Outcome{}) })
	defer ends.Stop()
	start := time.Now()
	texts, errs := m.all(nodes[1:], src)
	s.same(texts, errs, "load 2")
	if took := time.Since(start); took < deadline {
		s.Errorf("others loaded after %v; want no load before the deadline of %v", took, deadline)
	}
	m.MostLoads, m.Limit = 2, deadline+loadTakes
}

func (s *suite) sourceFails(m *Measured) {
	nodes, src := s.nodes(8), &source{takes: loadTakes}
	src.fail.Store(true)
	for range 3 { // all within one cooling period
		_, errs := m.all(nodes, src)
		for i, err := range errs {
			if err == nil || err.Error() != errSource.Error() {
				s.Errorf("instance %d has %v; want %v", i, err, errSource)
			}
		}
	}
	m.MostLoads, m.Limit = 1, loadTakes
	src.fail.Store(false)
	time.Sleep(10*s.f.Lease + s.f.Slack)
	again := &source{takes: loadTakes}
	var after Measured
	texts, errs := after.all(nodes, again)
	s.same(texts, errs, "load 1")
	if after.Loads != 1 {
		s.Errorf("%d loads after the cooling; want 1", after.Loads)
	}
}

func (s *suite) invalidationDuringALoad(m *Measured) {
	nodes, src := s.nodes(6), &source{takes: loadTakes}
	invalidation := time.AfterFunc(loadTakes/2, func() {
		if _, err := nodes[0].m.Write(context.Background(), "k", fleet.Write{}); err != nil {
			s.Errorf("Write = %v; want nil", err)
		}
	})
	defer invalidation.Stop()
	texts, errs := m.all(nodes, src)
	old := 0
	for i, text := range texts {
		if errs[i] != nil || text != "load 1" && text != "load 2" {
			s.Errorf("instance %d has %q, %v; want a load", i, text, errs[i])
		}
		if text == "load 1" {
			old++
		}
	}
	if old > 1 {
		s.Errorf("%d instances have the load from before the invalidation; want at most its own caller", old)
	}
	text, err := nodes[0].get(src)
	s.same([]string{text}, []error{err}, "load 2")
	m.MostLoads, m.Limit = 2, loadTakes/2+loadTakes
}

func (s *suite) wakeUpLost(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: s.f.Lease / 4} // the load ends before the first renewal
	for _, n := range nodes {
		s.f.Deafen(n.tier)
	}
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	m.MostLoads, m.Limit = 1, s.f.Lease+maxJitter
	if m.Longest < s.f.Lease/2 {
		s.Errorf("all were served after %v, so no push was lost; want one lost", m.Longest)
	}
}

func (s *suite) engineHung(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	s.f.Hang()
	_, errs := m.all(nodes, src)
	s.same(make([]string, len(errs)), errs, "")
	m.MostLoads = len(nodes)
	// Two operations precede the load, each with the deadline: the state of the
	// invalidations, and the lease.
	m.Limit = 2*s.f.Deadline + loadTakes + 2*s.f.Deadline // the wait for Settle is bounded by the deadline
	for range fleet.DefaultFailures {
		_, _ = nodes[0].get(src)
	}
	start := time.Now()
	if _, err := nodes[0].tier.Tags(context.Background(), s.namespace, nil); err == nil || time.Since(start) > s.f.Slack {
		s.Errorf("Tags = %v after %v; want an error at once: the breaker is open", err, time.Since(start))
	}
	s.f.Unhang()
	s.works(nodes)
}

// works waits until all nodes have got Reset and share one load again.
func (s *suite) works(nodes []*node) {
	s.Helper()
	for _, n := range nodes {
		s.recover(n.tier)
	}
	s.write(nodes[0].tier, s.key("k"), fleet.Write{})
	src := &source{takes: loadTakes}
	var m Measured
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	if m.Loads != 1 {
		s.Errorf("%d loads after the engine is back; want 1", m.Loads)
	}
}

func (s *suite) engineDown(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	s.f.Stop()
	_, errs := m.all(nodes, src)
	s.same(make([]string, len(errs)), errs, "")
	m.MostLoads = len(nodes)
	m.Limit = 2*s.f.Deadline + loadTakes
	s.f.Start()
	s.works(nodes)
}

func (s *suite) engineRestartsEmpty(m *Measured) {
	nodes := s.nodes(8)
	k := s.key("k")
	text, err := nodes[0].get(&source{})
	s.same([]string{text}, []error{err}, "load 1")
	before := s.expect(nodes[0].tier, k, fleet.Ask{}, fleet.GrantFresh)
	s.f.Stop()
	for _, n := range nodes { // each notices
		_, _ = n.tier.Tags(context.Background(), s.namespace, nil)
	}
	s.f.Start()
	for _, n := range nodes {
		s.recover(n.tier)
		s.eventually(s.f.Recovery, "an instance gets Reset", func() bool { return n.resets.Load() > 0 })
	}
	src := &source{takes: loadTakes}
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	if after := s.expect(nodes[0].tier, k, fleet.Ask{}, fleet.GrantFresh); before.Entry != nil && after.Entry != nil && after.Entry.Fence <= before.Entry.Fence {
		s.Errorf("the entry has fence %d after the restart; want more than %d", after.Entry.Fence, before.Entry.Fence)
	}
	m.MostLoads, m.Limit = 1, loadTakes
}

func (s *suite) masterFailsOver(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	k := s.key("k")
	first := s.grant(nodes[0].tier, k, fleet.Ask{Lease: s.f.Lease})
	src.loads.Add(1)
	s.f.Failover()
	for _, n := range nodes {
		s.recover(n.tier)
	}
	texts, errs := m.all(nodes[1:], src)
	s.same(texts, errs, "load 2")
	s.settle(nodes[0].tier, k, first, value("late", 0), false)
	if ans := s.expect(nodes[0].tier, k, fleet.Ask{}, fleet.GrantFresh); ans.Entry == nil || ans.Entry.Fence <= first {
		s.Errorf("the entry is %+v; want one with a fence above %d", ans.Entry, first)
	}
	m.MostLoads, m.Limit = 2, s.f.Lease+maxJitter+loadTakes
}

func (s *suite) instanceCutOff(m *Measured) {
	nodes, src := s.nodes(4), &source{takes: loadTakes}
	s.f.CutOff(nodes[0].tier)
	_, errs := m.all(nodes, src)
	s.same(make([]string, len(errs)), errs, "")
	m.MostLoads, m.Limit = 2, 2*s.f.Deadline+loadTakes
	resets := nodes[0].resets.Load()
	s.f.Mend(nodes[0].tier)
	s.recover(nodes[0].tier)
	s.eventually(s.f.Recovery, "the instance gets Reset", func() bool { return nodes[0].resets.Load() > resets })
	s.works(nodes)
}

func (s *suite) clientClockWrong(m *Measured) {
	for _, d := range []time.Duration{-15 * time.Minute, 15 * time.Minute} {
		a, b := s.f.ClockWrong(d)
		k := s.key(d.String())
		fence := s.grant(a, k, fleet.Ask{Lease: s.f.Lease})
		if ans := s.expect(b, k, fleet.Ask{}, fleet.GrantHeld); !s.near(ans.Remaining, s.f.Lease) {
			s.Errorf("%v remain; want %v", ans.Remaining, s.f.Lease)
		}
		time.Sleep(s.f.Lease + s.f.Slack)
		next := s.grant(b, k, fleet.Ask{})
		if next <= fence {
			s.Errorf("fence %d after %d; want more", next, fence)
		}
		s.settle(b, k, next, stored("v"), true)
		if ans := s.expect(a, k, fleet.Ask{}, fleet.GrantFresh); ans.Entry == nil || !s.near(ans.Entry.Fresh, time.Minute) {
			s.Errorf("the entry is %+v; want fresh for a minute", ans.Entry)
		}
		s.write(a, s.key("k"), fleet.Write{})
		src := &source{takes: loadTakes}
		texts, errs := m.all([]*node{s.node(a), s.node(b)}, src)
		s.same(texts, errs, "load 1")
	}
	m.MostLoads, m.Limit = 1, loadTakes
}

func (s *suite) manyWaiters(m *Measured) {
	s.f.Lease = max(s.f.Lease, 4*loadTakes) // no renewal
	nodes, src := s.nodes(16), &source{takes: loadTakes}
	var before uint64
	if s.f.Commands != nil {
		before = s.f.Commands()
	}
	texts, errs := m.all(nodes, src)
	s.same(texts, errs, "load 1")
	if s.f.Commands != nil {
		m.Commands = int(s.f.Commands() - before)
		if m.Commands > 4*len(nodes) {
			s.Errorf("%d commands for %d instances; want at most 4 for each", m.Commands, len(nodes))
		}
	}
	m.MostLoads, m.Limit = 1, loadTakes
}
