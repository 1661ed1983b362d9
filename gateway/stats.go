package gateway

import (
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Stats are what a Gateway has done, by route and by upstream. Each request is among
// the Requests of its route, or in Unrouted or Rejected; those that Config.Front has
// answered are in none of them.
type Stats struct {
	Cache     weirhttp.CacheStats       `json:"cache"`
	Routes    map[string]weirhttp.Stats `json:"routes"`
	Durations map[string]RouteDurations `json:"durations"` // by route
	Upstreams map[string]UpstreamStats  `json:"upstreams"`
	Unrouted  uint64                    `json:"unrouted"` // requests that no route matched
	Rejected  uint64                    `json:"rejected"` // CONNECT, h2c upgrades, bad requests, forwarding loops, bodies that say that they are too long, and all after Close
}

// RouteDurations are how long things took on a route, see [weirhttp.Handler].
type RouteDurations struct {
	Requests inspect.Durations `json:"requests"`
	Calls    inspect.Durations `json:"calls"`
	Waits    inspect.Durations `json:"waits"`
}

// UpstreamStats are those of one Upstream.
type UpstreamStats struct {
	Limit    LimitStats    `json:"limit"`
	Servers  []ServerStats `json:"servers"`
	Retries  uint64        `json:"retries"`
	NoBudget uint64        `json:"retries_refused"` // by the budget
}

// ServerStats are those of one server.
type ServerStats struct {
	URL      string `json:"url"`
	Healthy  bool   `json:"healthy"`
	Ejected  bool   `json:"ejected"`
	InFlight int    `json:"in_flight"`
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`
}

// Stats returns a snapshot. Each part of it is true at one instant, but not all
// of them at the same.
func (g *Gateway) Stats() Stats {
	now := g.now.Load()
	s := Stats{
		Cache:     g.cache.Stats(),
		Routes:    make(map[string]weirhttp.Stats, len(now.handlers)),
		Durations: make(map[string]RouteDurations, len(now.handlers)),
		Upstreams: make(map[string]UpstreamStats, len(now.sources)),
		Unrouted:  g.unrouted.Load(),
		Rejected:  g.rejected.Load(),
	}
	for _, h := range now.handlers {
		s.Routes[h.route.Name] = h.http.Stats()
		s.Durations[h.route.Name] = RouteDurations{h.http.RequestTimes(), h.http.CallTimes(), h.http.WaitTimes()}
	}
	for name, src := range now.sources {
		servers, retries, refused := src.pool.Stats()
		u := UpstreamStats{Limit: src.calls.now.Load().look(), Retries: retries, NoBudget: refused}
		u.Limit.Blocked = src.shared.Blocked()
		for _, one := range servers {
			u.Servers = append(u.Servers, ServerStats(one))
		}
		s.Upstreams[name] = u
	}
	return s
}

// LimitStats are those of an upstream's limit: how it stands, and what it has
// done. All of it but Blocked was true at the same instant.
type LimitStats struct {
	Kind       string        `json:"kind"`  // "fixed", "adaptive", or "none" for no cap
	Limit      int           `json:"limit"` // calls at once, 0 for no cap
	InUse      int           `json:"in_use"`
	Queued     int           `json:"queued"`
	Overloaded bool          `json:"overloaded"` // the queue is standing: the newest are served first
	Held       time.Duration `json:"held_ns"`    // mean time of a call
	Wait       time.Duration `json:"wait_ns"`    // of a newcomer at the end of the queue
	Blocked    int           `json:"blocked"`    // of InUse, those that wait for their clients
	Admitted   uint64        `json:"admitted"`
	Waited     uint64        `json:"waited"` // of these
	Left       uint64        `json:"left"`   // the queue, before their turn
	Refused    uint64        `json:"refused"`
	// RefusedBy are those by reason, such as "queue full": see limit.Reason. It is
	// nil for none.
	RefusedBy map[string]uint64 `json:"refused_by,omitempty"`
	// Baseline and Latency are of an adaptive limit: what a call takes with room to
	// spare, as far as it is known, and what it took in the last window. 0 before the
	// first.
	Baseline time.Duration `json:"baseline_ns,omitempty"`
	Latency  time.Duration `json:"latency_ns,omitempty"`
}

// look returns how g stands.
func (g *gate) look() LimitStats {
	s := g.stats()
	return LimitStats{
		Kind: g.kind, Limit: s.Limit, InUse: s.InUse, Queued: s.Queued, Overloaded: s.Overloaded, Held: s.Held, Wait: s.Wait,
		Admitted: s.Admitted, Waited: s.Waited, Left: s.Left, Refused: s.Refused.Total(),
		RefusedBy: byReason(s.Refused), Baseline: s.Baseline, Latency: s.Latency,
	}
}

func byReason(refused limit.Refusals) map[string]uint64 {
	var m map[string]uint64
	for reason, n := range refused {
		if n > 0 {
			if m == nil {
				m = make(map[string]uint64)
			}
			m[limit.Reason(reason).String()] = n //nolint:gosec // an index of an array of reasons
		}
	}
	return m
}
