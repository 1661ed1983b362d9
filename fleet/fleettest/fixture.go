package fleettest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A Fixture is an engine under test, with the faults that a test can cause in it.
// Only Instance is required. A nil function means that this engine, or this test of
// it, cannot cause the fault: rows that need it are reported as not run.
type Fixture struct {
	// Instance returns a new connection to the engine, like one of another process:
	// with its own deadlines, and a [fleet.Breaker] in front. The Fixture closes it.
	Instance func() fleet.Tier

	// Hang stops the engine's responses but not its connections, like a stopped
	// process. Unhang resumes it.
	Hang, Unhang func()
	// Stop ends the engine; Start starts it again, empty.
	Stop, Start func()
	// CutOff disconnects an Instance from the network; Mend reconnects it.
	CutOff, Mend func(fleet.Tier)
	// Deafen silently drops the pushes for an Instance.
	Deafen func(fleet.Tier)
	// Failover promotes a replica that lacks the last writes, as far as that can be
	// forced, and returns when it responds.
	Failover func()
	// Restore runs lost, and then restores the engine from an earlier snapshot.
	Restore func(lost func())
	// FailoverLosing runs lost, and then promotes a replica that has none of its
	// effects.
	FailoverLosing func(lost func())
	// StepClock moves the engine's clock by d.
	StepClock func(d time.Duration)
	// Foreign stores values that the Tier did not write in the places of a key.
	Foreign func(k fleet.Key)
	// Evict limits the engine's memory, so that it evicts keys of its choice.
	Evict func()
	// ClockWrong returns two instances of one engine whose clocks are wrong by d.
	ClockWrong func(d time.Duration) (a, b fleet.Tier)
	// Commands returns how many commands the engine has received so far from all
	// instances.
	Commands func() uint64

	// Deadline is the deadline of an Instance's operations. Default:
	// fleet.DefaultDeadline.
	Deadline time.Duration
	// Slack is the tolerance for times: how late an event may be, or how much shorter
	// a remaining time may be. Default: 5 ms.
	Slack time.Duration
	// Recovery is the maximum time from the engine's return until an Instance works
	// again. Default: 5 s.
	Recovery time.Duration
	// Lease is the lease that the rows use. Default: 600 ms.
	Lease time.Duration

	// Must names the rows that must run; a row of these that cannot run is a failure.
	Must []string
	// Report, if not nil, is called with the measurements of each row.
	Report func(Measured)
}

// Measured holds the measurements of one row of the table of failures.
type Measured struct {
	Row    string // the subtest's name
	NotRun string // why it was not run; empty if it ran

	Failure, Bound string // the table's text

	Instances        int
	Loads, MostLoads int           // loads begun at the source, and their bound
	Longest, Limit   time.Duration // the longest wait of a caller, and its bound
	Commands         int           // commands that the engine received; -1: not counted
}

func (f Fixture) withDefaults() Fixture {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&f.Deadline, fleet.DefaultDeadline}, {&f.Slack, 5 * time.Millisecond}, {&f.Recovery, 5 * time.Second}, {&f.Lease, 600 * time.Millisecond}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	return f
}

// Run tests an engine: every sentence of [fleet.Tier] that can be tested, and the
// table of failures. It calls open for each subtest. Subtests may share an engine,
// because each has its own namespaces. It runs in real time; see [RunInBubbles].
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	run(t, open, func(t *testing.T, fn func(*testing.T)) { fn(t) })
}

// RunInBubbles is Run with each subtest in a separate bubble (package
// testing/synctest), for engines in memory.
func RunInBubbles(t *testing.T, open func(t *testing.T) Fixture) { run(t, open, synctest.Test) }

func run(t *testing.T, open func(t *testing.T) Fixture, in func(*testing.T, func(*testing.T))) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T) { c.test(newSuite(t, open)) })
		})
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			in(t, func(t *testing.T) { r.run(newSuite(t, open)) })
		})
	}
}

// Rows returns the names of the table's rows, in its order.
func Rows() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// A suite is the state of one subtest.
type suite struct {
	*testing.T
	f         Fixture
	namespace string
}

func newSuite(t *testing.T, open func(t *testing.T) Fixture) *suite {
	return &suite{T: t, f: open(t).withDefaults(), namespace: fmt.Sprintf("%s %x", t.Name(), rand.Uint64())}
}

// run runs a row, or reports why it cannot run.
func (r row) run(s *suite) {
	m := Measured{Row: r.name, Failure: r.failure, Bound: r.bound, Commands: -1}
	if r.needs != nil {
		m.NotRun = r.needs(s.f)
	}
	if m.NotRun == "" {
		r.test(s, &m)
		if m.Loads > m.MostLoads {
			s.Errorf("%d loads; want at most %d: %s", m.Loads, m.MostLoads, r.bound)
		}
		if m.Longest > m.Limit+s.f.Slack {
			s.Errorf("a caller waited %v; want at most %v: %s", m.Longest, m.Limit, r.bound)
		}
	} else if slices.Contains(s.f.Must, r.name) {
		s.Errorf("not run, but it must be: %s", m.NotRun)
	} else {
		s.Logf("not run: %s", m.NotRun)
	}
	if s.f.Report != nil {
		s.f.Report(m)
	}
}

// key returns a key in the subtest's namespace.
func (s *suite) key(name string) fleet.Key { return fleet.Key{Namespace: s.namespace, Name: name} }

// eventually waits until ok reports true, for at most d plus the slack.
func (s *suite) eventually(d time.Duration, what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(d + s.f.Slack); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", d+s.f.Slack, what)
		}
	}
}

// near reports whether the remaining time is d, minus at most the slack.
func (s *suite) near(left, d time.Duration) bool {
	return left <= d+time.Millisecond && left >= d-s.f.Slack // engines may round up to a millisecond
}
