package scenarios

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayOriginDown = scenario.Scenario{
	Name:    "gateway-origin-down",
	Title:   "The origin is down, and the gateway has stale responses",
	Asks:    "The gateway has a hundred responses, fresh for a second, which the origin allows to be served stale for an hour on errors (stale-if-error). Then the origin's process ends. Which clients still get a response?",
	Needs:   gatewayNeeds,
	Service: gatewayService,
	Run:     runOriginDown,
}

// The settings of gateway-origin-down.
const (
	soonAfter = "2 s later"
	longAfter = "15 s later"
)

func runOriginDown(ctx context.Context, l *scenario.Lab) error {
	origin, err := l.Serve(ctx, theOrigin, originSetup{})
	if err != nil {
		return err
	}
	fronts, err := startFronts(ctx, l, origin, gatewaySetup{}, allFronts...)
	if err != nil {
		return err
	}
	keys := keyPaths(scenario.Size(l, 100, 20))
	for _, f := range fronts {
		m, err := l.Measure(ctx, origin, oldAnswers(f, "before", keys))
		if err != nil {
			return err
		}
		l.Check(f.variant+", before: all requests succeed", m.Failures == 0, "%d of %d; %s", m.Good, m.Requests, m.FirstFailure)
	}
	if err := origin.Stop(); err != nil {
		return err
	}
	down := time.Now()
	l.Step("the origin is down; its responses become stale")
	settings := []struct {
		name string
		at   time.Duration
	}{{soonAfter, 2 * time.Second}, {longAfter, 15 * time.Second}}
	if l.Small {
		settings = settings[:1]
	}
	for _, s := range settings {
		rest(ctx, s.at-time.Since(down))
		for _, f := range fronts {
			if _, err := l.Measure(ctx, f.server, oldAnswers(f, s.name, keys)); err != nil {
				return err
			}
		}
	}
	judgeOriginDown(l, len(keys))
	return nil
}

// oldAnswers requests each of the responses once.
func oldAnswers(f front, setting string, keys []string) scenario.Job {
	var urls []string
	for _, k := range keys {
		urls = append(urls, f.url+"/brief"+k)
	}
	return scenario.Job{Variant: f.variant, Setting: setting, Warm: true,
		Load: load.Spec{URLs: urls, Clients: 4, Requests: len(urls), Timeout: patience, ExpectBody: originSays}}
}

func judgeOriginDown(l *scenario.Lab, n int) {
	table := result.Table{Title: fmt.Sprintf("Answers to %d requests while the origin is down", n), Head: []string{""}}
	settings := []string{soonAfter, longAfter}
	if l.Small {
		settings = settings[:1]
	}
	for _, v := range allFronts {
		row := []string{v}
		for _, s := range settings {
			row = append(row, fmt.Sprint(medianOf(l, v, s).Good))
		}
		table.Cells = append(table.Cells, row)
	}
	table.Head = slices.Concat(table.Head, settings)
	l.Table(table)
	for _, s := range settings {
		m := medianOf(l, shielded, s)
		l.Check("weir, "+s+": all clients get a stale response", int(m.Good) == n && m.Values[staleAnswers] >= float64(n),
			"%d of %d, %.0f of them stale; %s", m.Good, n, m.Values[staleAnswers], m.FirstFailure)
	}
	last := settings[len(settings)-1]
	l.Row(result.NewRow("answers while the origin is down, without a cache → weir, "+last, "answers", result.Higher).
		Here(float64(medianOf(l, byCaddy, last).Good), float64(medianOf(l, shielded, last).Good)))
	l.Note("nginx serves stale responses for as long as they are in its cache, whatever the origin allows, as configured (proxy_cache_use_stale error). " +
		"Varnish serves them for 10 s after they expire (default_grace), or for the time in stale-while-revalidate; it does not support stale-if-error.")
}
