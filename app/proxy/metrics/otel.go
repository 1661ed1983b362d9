package metrics

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	otelmetric "go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/jobs"
)

// queueKey is the attribute that names a queue of jobs.
const queueKey = attribute.Key("weir.queue")

// routeKey and classKey are the attributes of weir.responses.
const (
	routeKey = attribute.Key("weir.route")
	classKey = attribute.Key("weir.class")
)

// Observe exports the metrics of the jobs and of the program to OpenTelemetry, for
// users without Prometheus. The version is not included, because the resource contains
// it. Only Queues, Responses and Program of o are used.
func Observe(of otelmetric.Meter, o Options) error {
	var faults []error
	var all []otelmetric.Observable
	made := func(one otelmetric.Observable, err error) {
		faults = append(faults, err)
		all = append(all, one)
	}
	amount := func(name, unit, text string) otelmetric.Int64Observable {
		one, err := of.Int64ObservableUpDownCounter(name, otelmetric.WithUnit(unit), otelmetric.WithDescription(text))
		made(one, err)
		return one
	}
	state := func(name, text string) otelmetric.Int64Observable {
		one, err := of.Int64ObservableGauge(name, otelmetric.WithUnit("1"), otelmetric.WithDescription(text))
		made(one, err)
		return one
	}
	count := func(name, unit, text string) otelmetric.Int64Observable {
		one, err := of.Int64ObservableCounter(name, otelmetric.WithUnit(unit), otelmetric.WithDescription(text))
		made(one, err)
		return one
	}
	waiting, running := amount("weir.jobs.waiting", "{job}", jobsWaiting.Help), amount("weir.jobs.running", "{job}", jobsRunning.Help)
	dead := amount("weir.jobs.dead", "{job}", jobsDead.Help)
	paused := state("weir.jobs.paused", jobsPaused.Help)
	oldest, err := of.Float64ObservableGauge("weir.jobs.oldest", otelmetric.WithUnit("s"), otelmetric.WithDescription(jobsOldest.Help))
	made(oldest, err)
	wants, open := state("weir.ready", ready.Help), amount("weir.connections", "{connection}", connections.Help)
	done, failed := count("weir.config.reloads", "{reload}", reloads.Help), count("weir.config.reload_failures", "{reload}", reloadFailures.Help)
	received := count("weir.responses", "{response}", responses.Help)
	fast := count("weir.fast.requests", "{request}", fastRequests.Help)
	reset := count("weir.uploads.reset", "{connection}", uploadsReset.Help)
	last := state("weir.config.last_reload_ok", lastReloadOK.Help)
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	_, err = of.RegisterCallback(func(_ context.Context, to otelmetric.Observer) error {
		for _, q := range queues(o) {
			queue := otelmetric.WithAttributes(queueKey.String(q.Queue))
			to.ObserveInt64(waiting, int64(q.Waiting), queue)
			to.ObserveInt64(running, int64(q.Taken), queue)
			to.ObserveInt64(dead, int64(q.Dead), queue)
			to.ObserveInt64(paused, int64(truth(q.Paused)), queue)
			to.ObserveFloat64(oldest, q.Oldest.Seconds(), queue)
		}
		if o.Responses != nil {
			for route, counts := range o.Responses() {
				for class, n := range counts {
					to.ObserveInt64(received, int64(n), otelmetric.WithAttributes(routeKey.String(route), classKey.String(tally.Names[class]))) //nolint:gosec // it takes centuries to overflow
				}
			}
		}
		p := o.Program()
		to.ObserveInt64(wants, int64(truth(p.Ready)))
		to.ObserveInt64(open, int64(p.Connections))
		to.ObserveInt64(fast, int64(p.FastRequests))  //nolint:gosec // it takes centuries to overflow
		to.ObserveInt64(reset, int64(p.UploadsReset)) //nolint:gosec // as above
		to.ObserveInt64(done, int64(p.Reloads))
		to.ObserveInt64(failed, int64(p.FailedReloads))
		to.ObserveInt64(last, int64(truth(!p.LastReloadFailed)))
		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// queues returns the queues that o reports.
func queues(o Options) []jobs.QueueStatus {
	if o.Queues == nil {
		return nil
	}
	return o.Queues()
}
