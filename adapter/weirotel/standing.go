package weirotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A standing is a metric of limits, servers, a cache, a gateway or a fleet, that is
// read when metrics are collected.
type standing struct {
	name, unit, text string
	kind             kind
	at               int // in standings
}

// A kind is what a standing is to OpenTelemetry.
type kind int

const (
	counts kind = iota // since the start
	amount             // now, which adds up over several
	state              // now, which does not
	lasts              // as state, in seconds
)

// standings are all of them, as declared below.
var standings []*standing

func declare(kind kind, name, unit, text string) *standing {
	m := &standing{name, unit, text, kind, len(standings)}
	standings = append(standings, m)
	return m
}

// Limiters: of an upstream, or of a Guard.
var (
	limitPermits    = declare(amount, "weir.limit.permits", "{call}", "Calls that may run at once.")
	limitInUse      = declare(amount, "weir.limit.in_use", "{call}", "Calls that run.")
	limitQueued     = declare(amount, "weir.limit.queued", "{call}", "Callers that wait to be admitted.")
	limitOverloaded = declare(state, "weir.limit.overloaded", "1", "1 while the queue is standing, so that the newest are served first, else 0.")
	limitLatency    = declare(lasts, "weir.limit.latency", "s", "Adaptive: the mean latency of the last window.")
	limitBaseline   = declare(lasts, "weir.limit.baseline", "s", "Adaptive: the latency with room to spare, 0 until it is known.")
	limitAdmitted   = declare(counts, "weir.limit.admitted", "{call}", "Callers that were admitted, at once or after a wait.")
	limitWaited     = declare(counts, "weir.limit.waited", "{call}", "Callers that were admitted after a wait.")
	limitRefused    = declare(counts, "weir.limit.refused", "{call}", "Callers that were refused.")
)

// Upstreams and their servers.
var (
	upstreamRetries        = declare(counts, "weir.upstream.retries", "{call}", "Calls that were tried again.")
	upstreamRetriesRefused = declare(counts, "weir.upstream.retries_refused", "{call}", "Calls that were not tried again because of the budget.")

	serverHealthy  = declare(state, "weir.server.healthy", "1", "1 while the checks find the server healthy, else 0.")
	serverEjected  = declare(state, "weir.server.ejected", "1", "1 while the server is left alone since its calls failed, else 0.")
	serverInFlight = declare(amount, "weir.server.in_flight", "{call}", "Calls of the server now.")
	serverCalls    = declare(counts, "weir.server.calls", "{call}", "Calls of the server.")
	serverFailures = declare(counts, "weir.server.failures", "{call}", "Calls of the server that failed.")
)

// A gateway, and its cache of responses.
var (
	gatewayUnrouted = declare(counts, "weir.gateway.unrouted", "{request}", "Requests that no route matched.")
	gatewayRejected = declare(counts, "weir.gateway.rejected", "{request}", "Requests that no gateway should answer: CONNECT, h2c upgrades, bad ones.")

	cacheSize      = declare(amount, "weir.cache.size", "By", "What the cache holds.")
	cacheLimit     = declare(amount, "weir.cache.limit", "By", "The bound of what the cache holds.")
	cacheResponses = declare(amount, "weir.cache.responses", "{response}", "Responses in the cache.")
	cacheEvictions = declare(counts, "weir.cache.evictions", "{response}", "Responses that made room for others.")
	cachePurges    = declare(counts, "weir.cache.purges", "{response}", "Responses that were purged.")
	cacheTooBig    = declare(counts, "weir.cache.too_big", "{response}", "Responses that were too big to be stored.")
)

// What is asked of the fleet's tier: by a Guard, or without one by the cache.
var (
	fleetOpen        = declare(state, "weir.fleet.open", "1", "1 while the breaker before the tier is open, so that the instance goes by itself, else 0.")
	fleetAcquires    = declare(counts, "weir.fleet.acquires", "{key}", "Keys that were asked for.")
	fleetUnavailable = declare(counts, "weir.fleet.unavailable", "{operation}", "Operations of the tier that failed.")
	fleetLostLeases  = declare(counts, "weir.fleet.lost_leases", "{lease}", "Leases that could not be extended.")
	fleetWaits       = declare(counts, "weir.fleet.waits", "{wait}", "Waits for another instance's answer.")
	fleetPushes      = declare(counts, "weir.fleet.pushes", "{push}", "Changes that the tier has told of.")
	fleetResets      = declare(counts, "weir.fleet.resets", "{reset}", "How often some changes may have been missed.")
	fleetPending     = declare(state, "weir.fleet.pending_invalidations", "{invalidation}", "Invalidations that the tier has not acknowledged. What they touch is not taken from it.")
	fleetBlocked     = declare(state, "weir.fleet.reads_blocked", "1", "1 while an invalidation of everything is pending, so that nothing is taken from the tier, else 0.")
	fleetQueued      = declare(counts, "weir.fleet.queued_invalidations", "{invalidation}", "Invalidations that the tier did not acknowledge at first.")
	fleetReplayed    = declare(counts, "weir.fleet.replayed_invalidations", "{invalidation}", "Of these, those that it has acknowledged since.")
)

// instrument makes that of m.
func (m *standing) instrument(of metric.Meter) (metric.Observable, error) {
	switch m.kind {
	case counts:
		return of.Int64ObservableCounter(m.name, metric.WithUnit(m.unit), metric.WithDescription(m.text))
	case amount:
		return of.Int64ObservableUpDownCounter(m.name, metric.WithUnit(m.unit), metric.WithDescription(m.text))
	case state:
		return of.Int64ObservableGauge(m.name, metric.WithUnit(m.unit), metric.WithDescription(m.text))
	}
	return of.Float64ObservableGauge(m.name, metric.WithUnit(m.unit), metric.WithDescription(m.text))
}

// A sink is where what stands is told.
type sink struct {
	to metric.Observer
	of []metric.Observable // of standings
}

// put tells of m, which is no time.
func put[N number](s sink, m *standing, n N, attrs ...attribute.KeyValue) {
	if one, ok := s.of[m.at].(metric.Int64Observable); ok {
		s.to.ObserveInt64(one, whole(n), metric.WithAttributes(attrs...))
	}
}

func putBool(s sink, m *standing, v bool, attrs ...attribute.KeyValue) {
	n := 0
	if v {
		n = 1
	}
	put(s, m, n, attrs...)
}

// putTime tells of m, which is a time.
func putTime(s sink, m *standing, seconds float64, attrs ...attribute.KeyValue) {
	if one, ok := s.of[m.at].(metric.Float64Observable); ok {
		s.to.ObserveFloat64(one, seconds, metric.WithAttributes(attrs...))
	}
}
