package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/lab/fleetlab"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var fleetScenario = scenario.Scenario{
	Name:    "fleet",
	Title:   "One load for all instances",
	Asks:    "A service has one, two, four or eight instances, each with a cache and one load per key. How many calls reach the source, and how many if the instances share values and leases through Redis?",
	Needs:   []string{"nginx", "redis"},
	Axis:    "instances",
	Service: fleetService,
	Run:     runFleet,
}

// The variants and the settings of fleet.
const (
	perProcess = "flights per process"
	inFleet    = "weir fleet"

	oneColdKey   = "one cold key"
	zipfWorkload = "Zipf"
)

// fleetSizes are the measured numbers of instances.
var fleetSizes = []int{1, 2, 4, 8}

func runFleet(ctx context.Context, l *scenario.Lab) error {
	redis, err := redisFor(ctx, l)
	if err != nil {
		return err
	}
	sizes := scenario.Size(l, fleetSizes, []int{1, 3})
	for _, n := range sizes {
		if err := measureFleets(ctx, l, redis.URL, n); err != nil {
			return err
		}
	}
	judgeFleet(l, sizes)
	return nil
}

// measureFleets sends both loads to n separate instances, and to n instances that
// share the engine at addr.
func measureFleets(ctx context.Context, l *scenario.Lab, addr string, n int) error {
	fleets := make(map[string]*fleetOf)
	variants := []string{perProcess, inFleet}
	for _, variant := range variants {
		set := fleetSetup{
			InstanceOptions: fleetlab.InstanceOptions{TTL: time.Hour, MemoryCap: time.Hour},
			Wait:            scenario.Size(l, 100*time.Millisecond, 20*time.Millisecond),
		}
		if variant == inFleet {
			set.Engine = fleetlab.Engine{Addrs: []string{addr}, Namespace: fmt.Sprintf("of %d", n)}
		}
		f, err := startFleet(ctx, l, set, n)
		if err != nil {
			return err
		}
		fleets[variant] = f
	}
	for _, setting := range []string{oneColdKey, zipfWorkload} {
		for _, variant := range variants {
			f := fleets[variant]
			if _, err := l.Measure(ctx, f.source, scenario.Job{
				Load: fleetLoad(l, f, setting), Variant: variant, Setting: setting, X: float64(n), Beside: f.instances, Warm: true,
			}); err != nil {
				return err
			}
		}
	}
	return errors.Join(fleets[perProcess].stop(), fleets[inFleet].stop())
}

// fleetLoad returns the load of a setting.
func fleetLoad(l *scenario.Lab, f *fleetOf, setting string) load.Spec {
	if setting == oneColdKey {
		crowd := scenario.Size(l, 256, 32)
		return load.Spec{URLs: []string{f.front + "/get/cold"}, Clients: crowd, Requests: crowd, Connected: true}
	}
	keys := make([]string, scenario.Size(l, 2000, 100))
	for i := range keys {
		keys[i] = f.front + "/get/" + strconv.Itoa(i)
	}
	return load.Spec{URLs: keys, Pick: load.Zipf, Skew: 1, Seed: 1, Clients: 64, Requests: scenario.Size(l, 20_000, 1_000)}
}

// measuredFleet returns the measurement of a variant with n instances.
func measuredFleet(l *scenario.Lab, variant, setting string, n int) result.Measurement {
	for _, m := range l.Measurements(variant, setting) {
		if m.X == float64(n) {
			return m
		}
	}
	panic(fmt.Sprintf("scenarios: %s, %s was not measured with %d instances", variant, setting, n))
}

func judgeFleet(l *scenario.Lab, sizes []int) {
	t := result.Table{
		Title: "Calls to the source",
		Head:  []string{"Instances", "cold key, apart", "in a fleet", "Zipf, apart", "in a fleet"},
	}
	single := measuredFleet(l, perProcess, zipfWorkload, 1).Source.Calls // one call per requested key
	for _, n := range sizes {
		row := []string{strconv.Itoa(n)}
		for _, setting := range []string{oneColdKey, zipfWorkload} {
			apart, together := measuredFleet(l, perProcess, setting, n), measuredFleet(l, inFleet, setting, n)
			row = append(row, strconv.FormatInt(apart.Source.Calls, 10), strconv.FormatInt(together.Source.Calls, 10))
			name := fmt.Sprintf("%d instances, %s", n, setting)
			l.Check(name+": no request fails", apart.Failures+together.Failures == 0, "%d and %d failed", apart.Failures, together.Failures)
			want := int64(1)
			if setting == zipfWorkload {
				want = single
			}
			l.Check(name+": in a fleet one call per key", together.Source.Calls == want, "%d calls for %d keys", together.Source.Calls, want)
		}
		cold := measuredFleet(l, perProcess, oneColdKey, n)
		l.Check(fmt.Sprintf("%d instances, %s: without a fleet, one call each", n, oneColdKey), cold.Source.Calls == int64(n), "%d calls", cold.Source.Calls)
		t.Cells = append(t.Cells, row)
	}
	l.Table(t)
	most := sizes[len(sizes)-1]
	for _, setting := range []string{oneColdKey, zipfWorkload} {
		before, after := measuredFleet(l, perProcess, setting, most), measuredFleet(l, inFleet, setting, most)
		l.Row(result.NewRow(fmt.Sprintf("calls to the source, %d instances, %s", most, setting), "calls", result.Lower).
			Here(float64(before.Source.Calls), float64(after.Source.Calls)))
	}
	l.Note("Each instance is a process with a Guard with a TTL of an hour; nginx distributes requests to them in turn. All clients request the cold key at once.")
}
