package fleet_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
)

// T14: setting an engine's clock back does not lengthen anything that was granted.
func TestT14_NothingLastsLongerWhenTheClockGoesBack(t *testing.T) {
	now := time.Now()
	m := fleet.NewMemory(fleet.MemoryOptions{Clock: func() time.Time { return now }})
	ctx, k := t.Context(), fleet.Key{Namespace: "n", Name: "k"}
	acquire := func() fleet.Answer {
		t.Helper()
		a, err := m.Acquire(ctx, k, fleet.Ask{Lease: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := acquire()
	now = now.Add(-time.Minute)
	if a := acquire(); a.Grant != fleet.GrantHeld || a.Remaining != 3*time.Second {
		t.Errorf("Acquire = %v for %v; want Held for at most 3s", a.Grant, a.Remaining)
	}
	now = now.Add(3 * time.Second)
	second := acquire()
	if second.Grant != fleet.GrantLease || second.Fence <= first.Fence {
		t.Fatalf("Acquire = %v #%d; want Granted, after #%d", second.Grant, second.Fence, first.Fence)
	}
	if ok, err := m.Settle(ctx, k, second.Fence, fleet.Outcome{Failure: fleet.Failure{Kind: "x"}, Cool: time.Second}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	now = now.Add(-time.Minute)
	if a := acquire(); a.Grant != fleet.GrantCooling || a.Remaining != time.Second {
		t.Errorf("Acquire = %v for %v; want Cooling for at most 1s", a.Grant, a.Remaining)
	}
	if _, err := m.Write(ctx, k, fleet.Write{Entry: &fleet.Entry{Data: []byte("v"), Fresh: 5 * time.Second, Keep: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Minute)
	if a := acquire(); a.Grant != fleet.GrantFresh || a.Entry.Fresh != 5*time.Second {
		t.Errorf("Acquire = %v; want Fresh for at most 5s", a)
	}
	now = now.Add(time.Minute) // forward: grants end early, and fences grow
	if a := acquire(); a.Grant != fleet.GrantLease || a.Fence <= second.Fence {
		t.Errorf("Acquire = %v #%d; want Granted", a.Grant, a.Fence)
	}
}
