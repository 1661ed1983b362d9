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

// A Fixture is an engine under test, and what can be done to it. Only Instance is
// required. A function that is nil is something that this engine, or this test of
// it, cannot do: rows that need it are reported as not run.
type Fixture struct {
	// Instance is a new connection to the engine, as another process would have
	// it: with its own deadlines, and a [fleet.Breaker] in front. The Fixture
	// ends it.
	Instance func() fleet.Tier

	// Hang stops the engine's answers but not its connections, as a stopped
	// process does; Unhang lets it go on.
	Hang, Unhang func()
	// Stop ends the engine; Start starts it again, empty.
	Stop, Start func()
	// CutOff takes an Instance off the net; Mend puts it back.
	CutOff, Mend func(fleet.Tier)
	// Deafen makes pushes for an Instance vanish, silently.
	Deafen func(fleet.Tier)
	// Failover makes a replica the master that has not seen the last writes, as
	// far as that can be forced, and returns when it answers.
	Failover func()
	// Restore runs lost, and takes the engine back to a snapshot from before.
	Restore func(lost func())
	// FailoverLosing runs lost, and makes a replica the master that has seen nothing
	// of it.
	FailoverLosing func(lost func())
	// StepClock sets the engine's clock by d.
	StepClock func(d time.Duration)
	// Foreign puts values that are none of the Tier's under the places of a key.
	Foreign func(k fleet.Key)
	// Evict has the engine evict what it likes, for want of memory.
	Evict func()
	// ClockWrong are two instances on one engine, whose clocks are wrong by d.
	ClockWrong func(d time.Duration) (a, b fleet.Tier)
	// Commands is how many commands the engine has had so far, of all instances.
	Commands func() uint64

	// Deadline is that of an Instance's operation. Default: fleet.DefaultDeadline.
	Deadline time.Duration
	// Slack is how much later than it should, or how much less than it should be
	// left, anything may come. Default: 5 ms.
	Slack time.Duration
	// Recovery is how long after the engine is back an Instance works again, at
	// most. Default: 5 s.
	Recovery time.Duration
	// Lease is that of the rows. Default: 600 ms.
	Lease time.Duration

	// Must are the names of rows that have to run; one of them that cannot is a
	// failure.
	Must []string
	// Report, if not nil, gets what each row has measured.
	Report func(Measured)
}

// Measured is what one row of the table of failures has come to.
type Measured struct {
	Row    string // the subtest's name
	NotRun string // why it was not run; empty if it was

	Failure, Bound string // the table's text

	Instances        int
	Loads, MostLoads int           // begun at the source, and the bound
	Longest, Limit   time.Duration // that a caller waited, and the bound
	Commands         int           // that the engine had; -1: not counted
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

// Run tests an engine: every sentence of [fleet.Tier] that can be tested, and
// the table of failures. open is called for each subtest; engines may be shared
// by them, as each has namespaces of its own. It runs in real time; see
// [RunInBubbles].
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	run(t, open, func(t *testing.T, fn func(*testing.T)) { fn(t) })
}

// RunInBubbles is Run with each subtest in a bubble of its own (package
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

// Rows are the names of the table's rows, in its order.
func Rows() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// A suite is one subtest's.
type suite struct {
	*testing.T
	f         Fixture
	namespace string
}

func newSuite(t *testing.T, open func(t *testing.T) Fixture) *suite {
	return &suite{T: t, f: open(t).withDefaults(), namespace: fmt.Sprintf("%s %x", t.Name(), rand.Uint64())}
}

// run runs a row, or reports why it cannot be.
func (r row) run(s *suite) {
	m := Measured{Row: r.name, Failure: r.failure, Bound: r.bound, Commands: -1}
	if r.needs != nil {
		m.NotRun = r.needs(s.f)
	}
	if m.NotRun == "" {
		r.test(s, &m)
		if m.Loads > m.MostLoads {
			s.Errorf("%d loads; want %d at most: %s", m.Loads, m.MostLoads, r.bound)
		}
		if m.Longest > m.Limit+s.f.Slack {
			s.Errorf("a caller waited %v; want %v at most: %s", m.Longest, m.Limit, r.bound)
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

// key is a key of the subtest's namespace.
func (s *suite) key(name string) fleet.Key { return fleet.Key{Namespace: s.namespace, Name: name} }

// eventually waits until ok, for d and the slack at most.
func (s *suite) eventually(d time.Duration, what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(d + s.f.Slack); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", d+s.f.Slack, what)
		}
	}
}

// near reports whether a time that is left is d, less the slack at most.
func (s *suite) near(left, d time.Duration) bool {
	return left <= d+time.Millisecond && left >= d-s.f.Slack // engines may round up to a millisecond
}
