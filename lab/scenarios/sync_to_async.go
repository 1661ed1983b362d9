package scenarios

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var syncToAsync = scenario.Scenario{
	Name:  "sync-to-async",
	Title: "From synchronous to asynchronous",
	Asks:  "A handler calls a second service that takes longer than the handler itself. How many more requests does it accept if it submits an event instead, when does the work finish, and is an event lost when the process is killed?",
	Published: &result.Published{
		Title: "highload-patterns: sync to async",
		Setup: "A CPU-bound handler with a call to a second service, against one with an event on a queue (Kafka) that the second service reads; wrk with 1 and with 3 connections, each for 5 s.",
		FromSource: append([]string{
			"The second service does the same with texts of 50 letters, and is held to the same share.",
		}, fromSource...),
	},
	Needs:   []string{"wrk"},
	Service: syncService,
	Run:     runSync,
}

// The variants, in addition to unprotected, which calls the second service, and
// ceiling, which does not.
const (
	secondService = "second service"
	oneShare      = "weir, disk, one share"
)

// queueShare is the CPU share of a process with a queue in it: the handler's share,
// and one for the queue and the worker.
const queueShare = 2 * heldTo

// syncParams configure a process.
type syncParams struct {
	Second string // the second service's address
	Dir    string // for the events
	Lease  time.Duration
}

// published are the published figures.
var published = []struct {
	clients       int
	before, after float64
	gain          float64 // weir's target
}{{1, 56.35, 120.80, 2.0}, {3, 28.53, 87.66, 2.9}}

// A syncRun is the scenario while it runs.
type syncRun struct {
	lab     *scenario.Lab
	params  syncParams
	second  *scenario.Server
	servers map[string]*scenario.Server
	held    bool
}

func runSync(ctx context.Context, l *scenario.Lab) error {
	r := &syncRun{lab: l, servers: make(map[string]*scenario.Server), params: syncParams{Lease: scenario.Size(l, 0, time.Second)}}
	if err := r.start(ctx); err != nil {
		return err
	}
	turn := []string{unprotected, weirDisk, weirProcess, ceiling}
	rounds := scenario.Size(l, 3, 1)
	for round := 1; round <= rounds; round++ {
		for _, p := range published {
			for i := range turn {
				v := turn[(i+round-1)%len(turn)] // so that none is always first
				if err := r.measure(ctx, v, p.clients, round); err != nil {
					return err
				}
			}
			if round == 1 && !l.Small {
				if err := r.measure(ctx, oneShare, p.clients, 0); err != nil {
					return err
				}
			}
		}
	}
	if err := r.killed(ctx); err != nil {
		return err
	}
	r.judge()
	return nil
}

// start starts the second service, and one process for each variant.
func (r *syncRun) start(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "weir-lab")
	if err != nil {
		return err
	}
	r.lab.Defer(func() error { return os.RemoveAll(dir) })
	if r.second, r.held, err = serveHeld(ctx, r.lab, secondService, r.params); err != nil {
		return err
	}
	r.params.Second = r.second.URL
	for v, cpus := range map[string]float64{unprotected: heldTo, ceiling: heldTo, weirDisk: queueShare, weirProcess: queueShare, oneShare: heldTo} {
		p := r.params
		p.Dir = filepath.Join(dir, v)
		if r.servers[v], _, err = serveHeldTo(ctx, r.lab, cpus, v, p); err != nil {
			return err
		}
	}
	r.params.Dir = filepath.Join(dir, "killed")
	return nil
}

// queued reports whether a variant has a queue.
func queued(variant string) bool {
	return variant == weirDisk || variant == weirProcess || variant == oneShare
}

func (r *syncRun) measure(ctx context.Context, variant string, clients, round int) error {
	s := r.servers[variant]
	j := scenario.Job{
		Load:    load.Spec{URLs: []string{"/handle"}},
		Setting: onConnections(clients),
		Round:   round,
	}
	if variant != ceiling {
		j.Beside = []*scenario.Server{r.second}
	}
	if queued(variant) {
		j.After = func(ctx context.Context, m *result.Measurement) error { return r.drain(ctx, s, m) }
	}
	_, err := r.lab.Wrk(ctx, s, clients, scenario.Size(r.lab, 5*time.Second, time.Second), j)
	return err
}

// judge records the rows, tables and checks.
func (r *syncRun) judge() {
	l := r.lab
	all := medianRounds(l, unprotected, weirDisk, weirProcess, ceiling)
	for _, p := range published {
		setting := onConnections(p.clients)
		waits, events, alone := medianRound(all, unprotected, setting), medianRound(all, weirDisk, setting), medianRound(all, ceiling, setting)
		l.Check("synchronous, "+setting+": each request is a call to the second service", waits.Source.Calls >= waits.Good, "%d calls, %d answers", waits.Source.Calls, waits.Good)
		l.Row(result.NewRow("requests accepted per second, "+setting, "requests/s", result.Higher).Published(p.before, p.after).
			Here(waits.PerSecond, events.PerSecond).Under(alone.PerSecond).
			Noted("synchronous → an event in weir's queue, on disk before the response. The ceiling is the handler that does neither."))
		if !r.held {
			continue
		}
		noteShare(l, alone)
		gain := result.Ratio(l.Rates(weirDisk, setting), l.Rates(unprotected, setting))
		l.CheckTime(fmt.Sprintf("weir, disk, %s: at least %.1f times the requests of synchronous", setting, p.gain), gain.Median >= p.gain, "%v", gain)
		most := result.Ratio(l.Rates(ceiling, setting), l.Rates(unprotected, setting))
		l.CheckTime("waiting for the second service costs throughput, "+setting, most.Median > 1, "without it: %v times as much", most)
	}
	r.nothingLost()
	if !l.Small {
		all = append(all, l.Measurements(oneShare, "")...)
	}
	l.Table(drainTable(all))
	l.Table(usedTable("CPU cost of a request under load, in both services", all))
	l.Note("A process with the queue in it has %g CPU: the handler's share, and one more for the queue and the worker that calls the second service. In the published set-up both were separate processes, and Kafka had no limit. The variant %q has only the handler's share.", queueShare, oneShare)
	l.Note("The second service's work does not disappear: it runs later, at its own speed, and a queue that is filled faster than that grows. The events drained after the load were accepted during it.")
}

// nothingLost checks all rounds of each variant with a queue.
func (r *syncRun) nothingLost() {
	for _, v := range []string{weirDisk, weirProcess, oneShare} {
		var lost, accepted float64
		for _, m := range r.lab.Measurements(v, "") {
			lost += m.Values[jobsLost]
			accepted += m.Values[jobsAccepted]
		}
		if accepted > 0 {
			r.lab.Check(v+": every accepted event reaches the second service", lost == 0, "%.0f of %.0f do not", lost, accepted)
		}
	}
}

// drainTable shows how many events were accepted, how many were completed during the
// load, and how long the rest took.
func drainTable(all []result.Measurement) result.Table {
	t := result.Table{
		Title: "Accepted, completed, drained",
		Head:  []string{"variant", "setting", "accepted per second", "completed per second during the load", "left at the end", "drained after, s"},
	}
	for _, m := range all {
		cells := []string{m.Variant, m.Setting, valueOf(m.PerSecond, 0)}
		switch {
		case m.Variant == ceiling:
			continue
		case queued(m.Variant):
			cells = append(cells, valueOf(m.Values[jobsCompleted]/m.Seconds, 0), valueOf(max(m.Values[jobsAccepted]-m.Values[jobsCompleted], 0), 0), valueOf(m.Values[drainedAfter], 1))
		default:
			cells = append(cells, valueOf(m.PerSecond, 0), "0", "0.0")
		}
		t.Cells = append(t.Cells, cells)
	}
	return t
}
