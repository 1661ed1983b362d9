package fleetscale_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/fleetscale"
)

// small is a fleet whose numbers can be calculated by hand.
var small = fleetscale.Fleet{Instances: 3, Keys: 1, Rate: 2, TTL: time.Second, Value: 136}

var round = fleetscale.Costs{
	Grant: 3 * time.Millisecond, Settle: 5 * time.Millisecond, Fresh: 2 * time.Millisecond,
	Push: 100 * time.Microsecond, Value: 50 * time.Microsecond, ValueKB: time.Millisecond,
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// One key, 2 Gets per second on each of 3 instances: a load every 1+1/6 seconds, and
// each of the other two sends a lookup with a probability of 1-exp(-2).
func TestDemandOfOneKey(t *testing.T) {
	loads, asks := 6.0/7, 2*(1-math.Exp(-2))
	name, value := 3*100e-6, 3*250e-6
	for _, tt := range []struct {
		way  fleetscale.Way
		want fleetscale.Demand
	}{
		{fleetscale.Names, fleetscale.Demand{
			Loads: loads, Commands: loads * (2 + asks), Messages: loads * 3, Bytes: loads * 3 * 64, CPU: loads * (8e-3 + name + asks*2e-3),
		}},
		{fleetscale.Values, fleetscale.Demand{
			Loads: loads, Commands: loads * 2, Messages: loads * 3, Bytes: loads * 3 * (64 + 200), CPU: loads * (8e-3 + name + value),
		}},
	} {
		d := small.Demand(round, tt.way)
		if !near(d.Loads, tt.want.Loads) || !near(d.Commands, tt.want.Commands) || !near(d.Messages, tt.want.Messages) ||
			!near(d.Bytes, tt.want.Bytes) || !near(d.CPU, tt.want.CPU) {
			t.Errorf("Demand(%d) = %+v; want %+v", tt.way, d, tt.want)
		}
		if got := d.PerGet(small); !near(got, tt.want.Commands/6) {
			t.Errorf("PerGet(%d) = %v; want %v", tt.way, got, tt.want.Commands/6)
		}
	}
}

// The steady state of the lab's fleet-cold: the calculated minimum that it prints
// next to its measurement, and the same if every value is pushed.
func TestDemandOfTheLabsSteadyState(t *testing.T) {
	f := fleetscale.Fleet{Instances: 8, Keys: 100_000, Rate: 5000, TTL: time.Minute, Value: 300}
	for _, tt := range []struct {
		way  fleetscale.Way
		want float64
	}{{fleetscale.Names, 0.18749837}, {fleetscale.Values, 0.06748722}} {
		if got := f.Demand(fleetscale.Measured, tt.way).PerGet(f); math.Abs(got-tt.want) > 1e-8 {
			t.Errorf("commands per Get, way %d: %.8f; want %.8f", tt.way, got, tt.want)
		}
	}
}

func TestMostIsTheLastThatFits(t *testing.T) {
	f := fleetscale.Fleet{Keys: 1000, Rate: 100, TTL: time.Second, Value: 100}
	last := 0
	for _, shards := range []int{1, 2, 4} {
		n := f.Most(round, fleetscale.Names, shards, 10_000)
		for add, fits := range []bool{true, false} {
			f.Instances = n + add
			if cpu := f.Demand(round, fleetscale.Names).CPU; (cpu <= fleetscale.Busy*float64(shards)) != fits {
				t.Errorf("%d shards, %d instances take %v s of CPU; Most = %d", shards, f.Instances, cpu, n)
			}
		}
		if n < last {
			t.Errorf("Most with %d shards = %d; with fewer %d", shards, n, last)
		}
		last = n
	}
	if n := f.Most(fleetscale.Costs{}, fleetscale.Names, 1, 50); n != 50 {
		t.Errorf("Most without costs = %d; want the limit, 50", n)
	}
}
