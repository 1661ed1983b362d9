package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/fleetlab"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var fleetCold = scenario.Scenario{
	Name:    "fleet-cold",
	Title:   "What a fleet costs",
	Asks:    "A thousand callers on sixteen instances want one cold key. How many loads and commands does that take, and how much does sharing add to the wait? What if the holder dies, or Redis hangs? And what does a Get cost in the steady state?",
	Needs:   []string{"redis"},
	Service: groupService,
	Run:     runFleetCold,
}

// A groupSetup configures a process of fleet-cold, which has several instances.
type groupSetup struct {
	fleetSetup
	Members int
	Callers int // of each instance, in a crowd
	Flow    fleetlab.Flow
}

// groupService serves only its control:
//
//	/crowd/KEY     all callers request the key at once
//	/running       returns the number of running loads
//	/steady/N      runs the flow; N seeds the draws
func groupService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var set groupSetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	g, err := fleetlab.NewGroup(set.InstanceOptions, set.Members, set.Wait)
	if err != nil {
		return nil, err
	}
	wanted := newRanks(max(1, set.Flow.Keys), 1)
	control := http.NewServeMux()
	control.HandleFunc("POST /crowd/{key}", func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, g.Crowd(r.Context(), r.PathValue("key"), set.Callers))
	})
	control.HandleFunc("POST /running", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, g.Running()) })
	control.HandleFunc("POST /steady/{seed}", func(w http.ResponseWriter, r *http.Request) {
		flow := set.Flow
		flow.Draw = func(random *rand.Rand) int { return wanted.draw(random) }
		seed, err := strconv.ParseUint(r.PathValue("seed"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		flow.Seed = seed
		answerJSON(w, g.Steady(r.Context(), flow))
	})
	return &scenario.Service{
		Handler: http.NotFoundHandler(), Control: control,
		Close: func() { g.Close() }, //nolint:errcheck // the process ends
	}, nil
}

func answerJSON(w http.ResponseWriter, v any) {
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the lab is gone
}

// numbersWait is the duration of a load of a cold key; numbersLease is the lease when
// the holder dies.
const (
	numbersWait  = 200 * time.Millisecond
	numbersLease = 600 * time.Millisecond
)

// The variants of fleet-cold.
const (
	sixteenOf64  = "16 instances × 64 callers"
	sixtyFourOf  = "64 instances × 16 callers"
	holderDies   = "holder killed"
	engineHung   = "Redis hangs"
	withValues   = ", values pushed"
	steadyState  = "steady state"
	addedP50     = "added to the load, p50, ms"
	addedP99     = "added to the load, p99, ms"
	perInstance  = "commands for each instance"
	mostLoads    = "most loads of a run"
	commandsGet  = "commands a Get"
	floorGet     = "commands a Get at the least"
	lateGets     = "Gets that began late"
	ranForLoads  = "loads"
	aloneLoads   = "loads after a missed deadline"
	servedWithin = "all served, ms"
)

// A numbers is fleet-cold while it runs.
type numbers struct {
	lab   *scenario.Lab
	redis *engine.Server
	table result.Table
}

func runFleetCold(ctx context.Context, l *scenario.Lab) error {
	redis, err := redisFor(ctx, l)
	if err != nil {
		return err
	}
	n := &numbers{lab: l, redis: redis, table: result.Table{Title: "What was found", Head: []string{"", "found", "wanted"}}}
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error {
			return n.cold(ctx, sixteenOf64, false, 16, scenario.Size(l, 64, 8), scenario.Size(l, 100, 3))
		},
		func(ctx context.Context) error {
			return n.cold(ctx, sixteenOf64+withValues, true, 16, scenario.Size(l, 64, 8), scenario.Size(l, 100, 3))
		},
		func(ctx context.Context) error {
			return n.cold(ctx, sixtyFourOf, false, scenario.Size(l, 64, 24), scenario.Size(l, 16, 2), scenario.Size(l, 20, 2))
		},
		n.holderDies, n.engineHung,
		func(ctx context.Context) error { return n.steady(ctx, steadyState, false) },
		func(ctx context.Context) error { return n.steady(ctx, steadyState+withValues, true) },
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	l.Table(n.table)
	l.Note("Instances are Guards in one process, each with its own tier and connections; the holder that is killed has a separate process. The load is a sleep of %v. "+
		"Commands are those sent by clients, from INFO commandstats: a script counts as one.", numbersWait)
	return nil
}

// serve starts a process with several instances.
func (n *numbers) serve(ctx context.Context, variant, namespace string, set groupSetup) (*scenario.Server, error) {
	set.Engine.Addrs, set.Engine.Namespace = []string{n.redis.URL}, namespace
	if set.TTL == 0 {
		set.TTL, set.Wait = time.Hour, numbersWait
	}
	return n.lab.Serve(ctx, variant, set)
}

// crowdOf has all callers of a process request a key.
func crowdOf(ctx context.Context, s *scenario.Server, key string) (fleetlab.Crowd, error) {
	var c fleetlab.Crowd
	body, err := s.Control(ctx, "/crowd/"+key)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(body, &c)
}

// cold measures crowds that want a cold key, one after another.
func (n *numbers) cold(ctx context.Context, variant string, pushes bool, members, callers, runs int) error {
	set := groupSetup{Members: members, Callers: callers}
	set.Pushes = pushes
	if n.lab.Small { // only counts are judged: a busy machine must not open the breaker
		set.Engine.Deadline = 2 * time.Second
	}
	s, err := n.serve(ctx, variant, variant, set)
	if err != nil {
		return err
	}
	if _, err := crowdOf(ctx, s, "first"); err != nil { // the cost of a first command does not count
		return err
	}
	var took []float64
	var most, failed, loads, alone int64
	m, err := n.lab.MeasureBy(ctx, s, scenario.Job{Variant: variant}, func(ctx context.Context) (result.Measurement, error) {
		before, err := fleetlab.CommandsAt(ctx, n.redis.URL)
		if err != nil {
			return result.Measurement{}, err
		}
		began := time.Now()
		for i := range runs {
			c, err := crowdOf(ctx, s, fmt.Sprintf("cold-%d", i))
			if err != nil {
				return result.Measurement{}, err
			}
			took = append(took, c.TookMS...)
			most, failed, loads, alone = max(most, c.Loads), failed+c.Failed, loads+c.Loads, alone+c.Alone
		}
		after, err := fleetlab.CommandsAt(ctx, n.redis.URL)
		if err != nil {
			return result.Measurement{}, err
		}
		m := n.measurement(fmt.Sprintf("%d crowds, one after another", runs), took, failed, time.Since(began))
		m.Values = map[string]float64{
			mostLoads: float64(most), ranForLoads: float64(loads), aloneLoads: float64(alone),
			perInstance: float64(after.Since(before).Sum()) / float64(runs*members),
			addedP50:    m.Latency.P50 - ms(numbersWait), addedP99: m.Latency.P99 - ms(numbersWait),
		}
		return m, nil
	})
	if err != nil {
		return err
	}
	v := m.Values
	n.row(variant+": loads in each run", fmt.Sprintf("at most %.0f", v[mostLoads]), "1")
	n.lab.Check(variant+": one load in each run", most == 1 && loads == int64(runs), "%d loads in %d runs, at most %d in one; %d after a missed deadline", loads, runs, most, alone)
	n.lab.Check(variant+": no request fails", failed == 0, "%d failed", failed)
	if members == 16 {
		n.row(variant+": added, p50", valueOf(v[addedP50], 1)+" ms", "at most 5 ms")
		n.row(variant+": added, p99", valueOf(v[addedP99], 1)+" ms", "at most 20 ms")
		n.lab.CheckTime(variant+": at most 5 ms are added at p50", v[addedP50] <= 5, "%.1f ms", v[addedP50])
		n.lab.CheckTime(variant+": at most 20 ms are added at p99", v[addedP99] <= 20, "%.1f ms", v[addedP99])
	}
	n.row(variant+": commands for each instance", valueOf(v[perInstance], 2), "at most 4")
	n.lab.Check(variant+": at most 4 commands for each instance", v[perInstance] <= 4, "%.2f", v[perInstance])
	return s.Stop()
}

func (n *numbers) measurement(load string, took []float64, failed int64, elapsed time.Duration) result.Measurement {
	m := result.Measurement{
		Load: load, Requests: int64(len(took)) + failed, Good: int64(len(took)), Failures: failed,
		Seconds: elapsed.Seconds(), PerSecond: float64(len(took)) / elapsed.Seconds(), Latency: new(result.Latency),
	}
	if len(took) > 0 {
		m.Latency = latencyOf(took)
	}
	return m
}

func (n *numbers) row(what, found, wanted string) {
	n.table.Cells = append(n.table.Cells, []string{what, found, wanted})
}

// holderDies kills the process of the instance that loads a key while fifteen others
// wait for it.
func (n *numbers) holderDies(ctx context.Context) error {
	set := groupSetup{Members: 1, Callers: 1}
	set.Lease = numbersLease
	holder, err := n.serve(ctx, "the holder", holderDies, set)
	if err != nil {
		return err
	}
	set.Members, set.Callers = 15, scenario.Size(n.lab, 64, 8)
	others, err := n.serve(ctx, holderDies, holderDies, set)
	if err != nil {
		return err
	}
	if _, err := crowdOf(ctx, others, "first"); err != nil {
		return err
	}
	var c fleetlab.Crowd
	var killed, served time.Time
	m, err := n.lab.MeasureBy(ctx, others, scenario.Job{Variant: holderDies}, func(ctx context.Context) (result.Measurement, error) {
		var both sync.WaitGroup
		both.Go(func() { crowdOf(ctx, holder, "cold") }) //nolint:errcheck // it dies during the call
		if err := until(ctx, holder, "/running", is(1)); err != nil {
			return result.Measurement{}, err
		}
		var crowdErr error
		both.Go(func() {
			c, crowdErr = crowdOf(ctx, others, "cold")
			served = time.Now()
		})
		rest(ctx, numbersWait/4) // by now the others wait, and the load is still running
		killed = time.Now()
		err := holder.Kill()
		both.Wait()
		if err == nil {
			err = crowdErr
		}
		m := n.measurement("a crowd whose holder is killed", c.TookMS, c.Failed, served.Sub(killed))
		m.Values = map[string]float64{ranForLoads: float64(c.Loads + 1), servedWithin: ms(served.Sub(killed))}
		return m, err
	})
	if err != nil {
		return err
	}
	n.row(holderDies+": loads", valueOf(m.Values[ranForLoads], 0), "2")
	n.row(holderDies+": all served after it", valueOf(m.Values[servedWithin], 0)+" ms", "within 1 s")
	n.lab.Check(holderDies+": two loads", c.Loads == 1, "%d of the holder, %d after it", 1, c.Loads)
	n.lab.Check(holderDies+": no other request fails", c.Failed == 0, "%d failed; %s", c.Failed, c.Error)
	n.lab.CheckTime(holderDies+": all are served within 1 s", served.Sub(killed) <= time.Second, "after %v", served.Sub(killed).Round(time.Millisecond))
	return others.Stop()
}

// engineHung sends a crowd while the engine does not respond.
func (n *numbers) engineHung(ctx context.Context) error {
	const members = 16
	s, err := n.serve(ctx, engineHung, engineHung, groupSetup{Members: members, Callers: scenario.Size(n.lab, 64, 8)})
	if err != nil {
		return err
	}
	if _, err := crowdOf(ctx, s, "first"); err != nil {
		return err
	}
	var c fleetlab.Crowd
	m, err := n.lab.MeasureBy(ctx, s, scenario.Job{Variant: engineHung}, func(ctx context.Context) (result.Measurement, error) {
		if err := n.redis.Pause(); err != nil {
			return result.Measurement{}, err
		}
		began := time.Now()
		var err error
		c, err = crowdOf(ctx, s, "cold")
		elapsed := time.Since(began)
		if resumed := n.redis.Continue(); err == nil {
			err = resumed
		}
		m := n.measurement("a crowd while Redis hangs", c.TookMS, c.Failed, elapsed)
		m.Values = map[string]float64{ranForLoads: float64(c.Loads)}
		return m, err
	})
	if err != nil {
		return err
	}
	most := fleet.DefaultDeadline + numbersWait
	n.row(engineHung+": loads", valueOf(m.Values[ranForLoads], 0), fmt.Sprintf("at most %d", members))
	n.row(engineHung+": longest wait", valueOf(slowestMS(m), 0)+" ms", fmt.Sprintf("deadline + load, %v", most))
	n.lab.Check(engineHung+": at most one load per instance", c.Loads <= members, "%d loads", c.Loads)
	n.lab.Check(engineHung+": no request fails", c.Failed == 0, "%d failed; %s", c.Failed, c.Error)
	n.lab.CheckTime(engineHung+": no caller waits longer than the deadline, the load, and 50 ms for the machine", slowestMS(m) <= ms(most+50*time.Millisecond), "%.0f ms", slowestMS(m))
	return s.Stop()
}

// steady measures the cost of Gets once the memories and the tier are full.
func (n *numbers) steady(ctx context.Context, variant string, pushes bool) error {
	set := groupSetup{Members: scenario.Size(n.lab, 8, 3)}
	set.TTL, set.Wait = scenario.Size(n.lab, time.Minute, 2*time.Second), 5*time.Millisecond
	set.MemoryCap, set.Pushes = set.TTL, pushes
	// The flow runs twice, to warm up and to measure, each time for a TTL.
	set.Flow = fleetlab.Flow{Rate: scenario.Size(n.lab, 5000, 200), Duration: set.TTL, Keys: scenario.Size(n.lab, 100_000, 1000)}
	s, err := n.serve(ctx, variant, variant, set)
	if err != nil {
		return err
	}
	n.lab.Step("%s, warming up for %v", variant, set.TTL)
	if _, err := steadyOf(ctx, s, 1); err != nil {
		return err
	}
	var flow fleetlab.Steady
	var commands fleetlab.Commands
	m, err := n.lab.MeasureBy(ctx, s, scenario.Job{Variant: variant}, func(ctx context.Context) (result.Measurement, error) {
		before, err := fleetlab.CommandsAt(ctx, n.redis.URL)
		if err != nil {
			return result.Measurement{}, err
		}
		if flow, err = steadyOf(ctx, s, 2); err != nil {
			return result.Measurement{}, err
		}
		after, err := fleetlab.CommandsAt(ctx, n.redis.URL)
		if err != nil {
			return result.Measurement{}, err
		}
		commands = after.Since(before)
		gets := float64(flow.Gets)
		return result.Measurement{
			Load:     fmt.Sprintf("%d Gets/s on each of %d instances for %v, %d keys, Zipf 1", set.Flow.Rate, set.Members, set.Flow.Duration, set.Flow.Keys),
			Requests: flow.Gets, Good: flow.Gets - flow.Failed, Failures: flow.Failed, Seconds: flow.Seconds, PerSecond: gets / flow.Seconds,
			Source: &result.Source{Calls: flow.Loads},
			Values: map[string]float64{
				commandsGet: float64(commands.Sum()) / gets, floorGet: floorOf(set.Members, set.Flow, pushes), lateGets: float64(flow.Late),
			},
		}, nil
	})
	if err != nil {
		return err
	}
	v := m.Values
	n.row(variant+": commands per Get", valueOf(v[commandsGet], 3), "at most 0.05")
	n.row(variant+": the least", valueOf(v[floorGet], 3), "")
	n.lab.Check(variant+": no request fails", flow.Failed == 0, "%d of %d failed", flow.Failed, flow.Gets)
	slack := 1.1
	if pushes { // a value is pushed after the second load of a key, and with pauses to count
		slack = 1.5
	}
	n.lab.CheckTime(variant+": commands per Get are near the least", v[commandsGet] <= v[floorGet]*slack, "%.3f; %.3f", v[commandsGet], v[floorGet])
	n.lab.Note(variant+": the instances sent %s for %d Gets, and loaded %d times. In %v an instance gets requests for %d different keys on average. "+
		"The least is calculated: for each load of a key the loading instance sends a lookup and a store, and every other instance that gets a request for the key before it expires sends one lookup, unless values are pushed.",
		commands, flow.Gets, flow.Loads, set.Flow.Duration, flow.Pairs/int64(set.Members))
	return s.Stop()
}

// floorOf is the smallest possible number of commands per Get if the flow lasts for
// the TTL, and keys are drawn by Zipf's law with exponent 1.
// Let x be the Gets of a key per TTL on one of n instances. The time from one load to
// the next is 1+1/nx of the TTL: the key expires, and the next Get loads it. Each
// other instance gets a request for it before it expires with a probability of
// 1-exp(-x), and asks for it unless every value is pushed to it.
func floorOf(n int, f fleetlab.Flow, pushed bool) float64 {
	gets := float64(f.Rate) * f.Duration.Seconds()
	sum, below := 0.0, 0.0
	for _, upTo := range newRanks(f.Keys, 1) {
		x := gets * (upTo - below)
		below = upTo
		all := float64(n) * x
		asks := float64(n-1) * (1 - math.Exp(-x))
		if pushed {
			asks = 0
		}
		sum += all / (1 + all) * (2 + asks)
	}
	return sum / (float64(n) * gets)
}

func steadyOf(ctx context.Context, s *scenario.Server, seed int) (fleetlab.Steady, error) {
	var f fleetlab.Steady
	body, err := s.ControlFor(ctx, fmt.Sprintf("/steady/%d", seed), 5*time.Minute)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(body, &f)
}
