package scenarios

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/fleetlab"
	"github.com/weir-go/weir/lab/internal/link"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var fleetChaos = scenario.Scenario{
	Name:    "fleet-chaos",
	Title:   "A fleet whose processes and engine fail",
	Asks:    "Eight processes share Redis, and are killed, stopped, cut off, or lose it. Is every request answered, how many calls reach the source, and is any value returned that was replaced longer ago than the bounds allow?",
	Needs:   []string{"nginx", "redis"},
	Service: fleetService,
	Run: func(ctx context.Context, l *scenario.Lab) error {
		return runFleetChaos(ctx, l, newChaosSetup(l), chaosFaults)
	},
}

// A chaosSetup has the settings shared by all faults.
type chaosSetup struct {
	Instances int
	Before    time.Duration // of load before the fault begins
	Lasts     time.Duration // the fault
	Mend      time.Duration // how long an instance may still be cut off after the fault
	After     time.Duration // of the load after that
	Rate      int           // requests per second
	Burst     int           // how many are sent at once
	Service   fleetSetup
	Bounds    fleetlab.Bounds // the asserted bounds
}

// boundsOf returns the bounds for such instances. While an instance is cut off, a
// value loaded just before a change stays fresh for its TTL. After that it can
// replace an error for a while longer.
func boundsOf(s fleetSetup) fleetlab.Bounds {
	return fleetlab.Bounds{Memory: s.MemoryCap, CutOff: s.LoadTimeout + s.TTL + max(s.StaleWhileRevalidate, s.StaleIfError)}
}

func newChaosSetup(l *scenario.Lab) chaosSetup {
	set := chaosSetup{
		Instances: scenario.Size(l, 8, 3),
		Before:    scenario.Size(l, time.Second, 300*time.Millisecond),
		Lasts:     scenario.Size(l, 3*time.Second, 800*time.Millisecond),
		Mend:      scenario.Size(l, 3*time.Second, time.Second),
		After:     scenario.Size(l, 3*time.Second, 800*time.Millisecond),
		Rate:      scenario.Size(l, 200, 150),
		Burst:     scenario.Size(l, 64, 24),
		Service: fleetSetup{
			InstanceOptions: fleetlab.InstanceOptions{
				TTL:         scenario.Size(l, 2*time.Second, time.Second),
				LoadTimeout: scenario.Size(l, 2*time.Second, time.Second), StaleIfError: time.Second, StaleWhileRevalidate: 500 * time.Millisecond,
				Lease: chaosLease, MemoryCap: 500 * time.Millisecond,
				Engine: fleetlab.Engine{Namespace: "chaos", MaxProbe: scenario.Size(l, 0, 250*time.Millisecond),
					// Longer than the default, because ten processes share the
					// machine. At the small size other programs may use it too.
					Deadline: scenario.Size(l, 150*time.Millisecond, 500*time.Millisecond)},
			},
			Wait: chaosWait,
		},
	}
	set.Bounds = boundsOf(set.Service)
	return set
}

// chaosLease is the instances' lease; chaosWait is the duration of a load.
const (
	chaosLease = 600 * time.Millisecond
	chaosWait  = 100 * time.Millisecond
)

func runFleetChaos(ctx context.Context, l *scenario.Lab, set chaosSetup, faults []chaosFault) error {
	for _, fault := range faults {
		if err := measureChaos(ctx, l, set, fault); err != nil {
			return fmt.Errorf("%s: %w", fault.name, err)
		}
	}
	l.Table(chaosTable(l, faults))
	b := set.Bounds
	l.Note("A wrong answer is another key's value, a version that the source never had, or one that was invalidated more than %v before the request, which is the Guards' MemoryCap. "+
		"If an instance was cut off at the time or up to %v before, a value is wrong if it was replaced more than %v before the request: a load, the TTL and the stale window.", b.Memory, set.Mend, b.CutOff)
	l.Note("%d requests/s to %d instances, open loop, for 40 keys, Zipf 1; one of them is changed and invalidated every %v. A load takes %v, the lease is %v, the tier's deadline %v. A burst is %d requests at once for a key that no instance has.",
		set.Rate, set.Instances, chaosChanges, chaosWait, chaosLease, set.Service.Engine.Deadline, set.Burst)
	return nil
}

// chaosChanges is the time between two changes of the source.
const chaosChanges = 100 * time.Millisecond

// A chaos is a fleet under load into which a fault is injected.
type chaos struct {
	set     chaosSetup
	fault   chaosFault
	lab     *scenario.Lab
	fleet   *fleetOf
	drive   *driver
	redis   *engine.Server  // nil if there is a cluster
	cluster *engine.Cluster // nil if there is one server
	link    *link.Link      // nil if there is none

	stopped string // the stopped instance: its own answers are judged only for wrong values
}

// measureChaos starts a separate fleet for a fault and measures it.
func measureChaos(ctx context.Context, l *scenario.Lab, set chaosSetup, fault chaosFault) error {
	c := &chaos{set: set, fault: fault, lab: l}
	addrs, err := c.startEngine(ctx)
	if err != nil {
		return err
	}
	if c.fleet, err = startFleet(ctx, l, c.set.Service, set.Instances); err != nil {
		return err
	}
	c.drive = newDriver(c.fleet, set.Bounds, set.Rate, chaosChanges)
	if _, err := l.MeasureBy(ctx, c.fleet.source, scenario.Job{Variant: fault.name, Beside: c.fleet.instances, MayDie: true, Warm: true},
		func(ctx context.Context) (result.Measurement, error) { return c.measure(ctx, addrs) }); err != nil {
		return err
	}
	others := tally("", c.drive.but(c.stopped), time.Second)
	l.Check(fault.name+": no request fails", others.Failures == 0, "%d of %d failed; %s", others.Failures, others.Requests, others.FirstFailure)
	v := c.drive.check.Verdict()
	l.Check(fault.name+": no wrong value is returned", v.Wrongs == 0, "%d of %d; %s", v.Wrongs, v.Answers, strings.Join(v.Wrong, "; "))
	return c.fleet.stop()
}

// startEngine starts the engines that the fault needs and returns their addresses. If
// there is a link, the instances get its address.
func (c *chaos) startEngine(ctx context.Context) (addrs []string, err error) {
	e := &c.set.Service.Engine
	if c.fault.needs == aCluster {
		c.lab.Step("starting a Redis cluster")
		if c.cluster, err = engine.RedisCluster(ctx, engine.RedisClusterOptions{Replicas: 1, NodeTimeout: scenario.Size(c.lab, 2*time.Second, 500*time.Millisecond)}); err != nil {
			return nil, err
		}
		c.lab.Defer(c.cluster.Stop)
		e.Addrs, e.Cluster = c.cluster.Addrs(), true
		return e.Addrs, nil
	}
	if c.redis, err = redisFor(ctx, c.lab); err != nil {
		return nil, err
	}
	e.Addrs = []string{c.redis.URL}
	if c.fault.needs == aLink {
		if c.link, err = link.New(c.redis.URL); err != nil {
			return nil, err
		}
		c.lab.Defer(c.link.Stop)
		e.Addrs = []string{c.link.Addr()}
	}
	return []string{c.redis.URL}, nil
}

// Names of the values measured for a fault.
const (
	longestWait   = "longest wait, ms"
	commandsRate  = "commands/s"
	wrongGiven    = "wrong answers"
	afterPurge    = "oldest after its invalidation, ms"
	afterChange   = "oldest after its replacement, ms"
	burstInFault  = "loads of a burst's key in the fault"
	burstAfter    = "loads of a burst's key after it"
	servedAfterMS = "burst served after the kill, ms"
)

// measure sends the load and injects the fault.
func (c *chaos) measure(ctx context.Context, addrs []string) (result.Measurement, error) {
	began := time.Now()
	sampler := fleetlab.NewSampler(addrs...)
	loadCtx, end := context.WithCancel(ctx)
	defer end()
	done := make(chan struct{})
	go func() { // ends with loadCtx
		defer close(done)
		c.drive.run(loadCtx)
	}()
	values, err := c.story(ctx)
	end()
	<-done
	elapsed := time.Since(began)
	commands := sampler.Stop()
	if err != nil {
		return result.Measurement{}, err
	}
	m := tally(fmt.Sprintf("%d requests/s, open loop, and bursts of %d", c.set.Rate, c.set.Burst), c.drive.replies, elapsed)
	v := c.drive.check.Verdict()
	for _, r := range c.drive.but(c.stopped) {
		values[longestWait] = max(values[longestWait], ms(r.took))
	}
	values[commandsRate] = float64(commands) / elapsed.Seconds()
	values[wrongGiven] = float64(v.Wrongs)
	values[afterPurge], values[afterChange] = ms(v.Oldest), ms(v.OldestCut)
	m.Values = values
	return m, nil
}

// story runs the fault and its bursts while the load is sent.
func (c *chaos) story(ctx context.Context) (values map[string]float64, err error) {
	values = make(map[string]float64)
	rest(ctx, c.set.Before)
	mended := func() {}
	if c.fault.cuts {
		mended = c.drive.check.Cut("")
	}
	err = c.fault.happens(ctx, c, values)
	rest(ctx, c.set.Mend)
	mended()
	if err != nil || ctx.Err() != nil {
		return values, err
	}
	rest(ctx, c.set.After/2)
	if values[burstAfter], err = c.burst(ctx, "late", 1); err != nil {
		return values, err
	}
	rest(ctx, c.set.After/2)
	return values, nil
}

// burst requests a key that no instance has, many times at once, and returns how
// often it was loaded, which may be at most most. If the burst takes longer than the
// TTL, for lack of processors, that many further loads are allowed. From then on the
// loop requests the key too.
func (c *chaos) burst(ctx context.Context, key string, most int) (float64, error) {
	began := time.Now()
	c.drive.burst(ctx, key, c.set.Burst)
	most *= 1 + int(time.Since(began)/c.set.Service.TTL)
	c.drive.want(key)
	loads, err := c.loads(ctx, key)
	if err == nil {
		c.lab.Check(fmt.Sprintf("%s, a %s burst: at most %d loads", c.fault.name, key, most), loads >= 1 && loads <= most, "%d loads", loads)
	}
	return float64(loads), err
}

// loads returns how often a key was loaded from the source.
func (c *chaos) loads(ctx context.Context, key string) (int, error) {
	text, err := c.fleet.order(ctx, "/loads/"+key)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// chaosTable has a line for each fault.
func chaosTable(l *scenario.Lab, faults []chaosFault) result.Table {
	t := result.Table{
		Title: "Loads at the source, those for a burst during the fault, failed requests, longest wait, commands/s, wrong answers, and the age of the oldest answer: since its acknowledged invalidation (old), or since its replacement if there was none or an instance was cut off (cut)",
		Head:  []string{"Fault", "loads", "burst", "failed", "wait, ms", "cmd/s", "wrong", "old, ms", "cut, ms"},
	}
	for _, f := range faults {
		m := l.One(f.name)
		t.Cells = append(t.Cells, []string{
			f.name, strconv.FormatInt(m.Source.Calls, 10), valueOf(m.Values[burstInFault], 0), strconv.FormatInt(m.Failures, 10),
			valueOf(m.Values[longestWait], 0), valueOf(m.Values[commandsRate], 0), valueOf(m.Values[wrongGiven], 0),
			valueOf(m.Values[afterPurge], 0), valueOf(m.Values[afterChange], 0),
		})
	}
	return t
}
