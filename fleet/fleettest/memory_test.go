package fleettest_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// An engine is a Memory that acts like a remote one: instances reach it through
// connections that fail.
type engine struct {
	t      *testing.T
	memory *fleet.Memory
	clock  func() time.Time

	conns []*fleettest.Faults
	of    map[fleet.Tier]*fleettest.Faults
}

func (e *engine) instance() fleet.Tier {
	f := fleettest.NewFaults(e.memory)
	b := fleet.WithBreaker(f, fleet.BreakerOptions{})
	e.conns = append(e.conns, f)
	e.of[b] = f
	e.t.Cleanup(func() {
		f.Unhang()
		_ = b.Close(context.Background())
	})
	return b
}

func (e *engine) each(fn func(*fleettest.Faults)) func() {
	return func() {
		for _, f := range e.conns {
			fn(f)
		}
	}
}

// renew simulates a restart, which takes a while: fences continue from the clock.
func (e *engine) renew() {
	<-time.After(time.Millisecond)
	old := e.memory
	e.memory = fleet.NewMemory(fleet.MemoryOptions{Clock: e.clock})
	for _, f := range e.conns {
		if err := f.Replace(e.memory); err != nil {
			e.t.Errorf("Replace = %v; want nil", err)
		}
	}
	_ = old.Close(context.Background())
}

func (e *engine) start() {
	e.renew()
	e.each((*fleettest.Faults).Mend)()
}

func (e *engine) failover() {
	e.each((*fleettest.Faults).Cut)()
	e.start() // the replica is empty
}

func (e *engine) commands() (n uint64) {
	for _, f := range e.conns {
		n += f.Commands()
	}
	return n
}

func openMemory(t *testing.T, report func(fleettest.Measured)) fleettest.Fixture {
	var step atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
	e := &engine{t: t, memory: fleet.NewMemory(fleet.MemoryOptions{Clock: clock}), of: make(map[fleet.Tier]*fleettest.Faults)}
	t.Cleanup(func() { _ = e.memory.Close(context.Background()) })
	return fleettest.Fixture{
		Instance: e.instance,
		Hang:     func() { e.each((*fleettest.Faults).Hang)() },
		Unhang:   func() { e.each((*fleettest.Faults).Unhang)() },
		Stop:     func() { e.each((*fleettest.Faults).Cut)() },
		Start:    e.start,
		CutOff:   func(t fleet.Tier) { e.of[t].Cut() },
		Mend:     func(t fleet.Tier) { e.of[t].Mend() },
		Deafen:   func(t fleet.Tier) { e.of[t].Deafen(true) },
		Failover: e.failover,
		ClockWrong: func(d time.Duration) (fleet.Tier, fleet.Tier) {
			e.clock = func() time.Time { return time.Now().Add(-d) } // the engine's clock is right
			e.renew()
			return e.instance(), e.instance()
		},
		Commands:  e.commands,
		Slack:     time.Millisecond,
		StepClock: func(d time.Duration) { step.Add(int64(d)) },
		Must:      rowsOfMemory(),
		Report:    report,
	}
}

// rowsOfMemory returns the rows that an engine inside the process can run.
func rowsOfMemory() []string {
	return slices.DeleteFunc(fleettest.Rows(), func(row string) bool {
		return slices.Contains([]string{"SnapshotRestored", "FailoverLosesWrites", "ForeignValue", "Evicted"}, row)
	})
}

func TestFleet(t *testing.T) {
	var mu sync.Mutex
	measured := make(map[string]fleettest.Measured)
	fleettest.RunInBubbles(t, func(t *testing.T) fleettest.Fixture {
		return openMemory(t, func(m fleettest.Measured) {
			mu.Lock()
			defer mu.Unlock()
			measured[m.Row] = m
		})
	})
	for _, row := range rowsOfMemory() {
		m, ok := measured[row]
		if !ok || m.NotRun != "" {
			t.Errorf("the row %s did not run: %q", row, m.NotRun)
			continue
		}
		t.Logf("%-25s %2d instances, %d of %d loads, %v of %v, %d commands", row, m.Instances, m.Loads, m.MostLoads, m.Longest, m.Limit, m.Commands)
	}
}
