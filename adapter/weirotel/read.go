package weirotel

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// gateway tells how a gateway stands, but for its routes, and takes the names of its
// upstreams.
func (s sink) gateway(st gateway.Stats, taken names) {
	put(s, gatewayUnrouted, st.Unrouted)
	put(s, gatewayRejected, st.Rejected)
	for name, u := range st.Upstreams {
		taken[name] = true
		s.upstream(name, u)
	}
	s.cache(st.Cache)
}

func (s sink) upstream(name string, u gateway.UpstreamStats) {
	upstream := upstreamKey.String(name)
	put(s, upstreamRetries, u.Retries, upstream)
	put(s, upstreamRetriesRefused, u.NoBudget, upstream)
	for _, one := range u.Servers {
		server := serverKey.String(one.URL)
		putBool(s, serverHealthy, one.Healthy, upstream, server)
		putBool(s, serverEjected, one.Ejected, upstream, server)
		put(s, serverInFlight, one.InFlight, upstream, server)
		put(s, serverCalls, one.Calls, upstream, server)
		put(s, serverFailures, one.Failures, upstream, server)
	}
	l := u.Limit
	if l.Kind == "none" {
		return // it has nothing to tell
	}
	var refused limit.Refusals
	for reason := range refused {
		refused[reason] = l.RefusedBy[limit.Reason(reason).String()] //nolint:gosec // an index of an array of reasons
	}
	s.concurrency(name, limit.ConcurrencyStats{
		Limit: l.Limit, InUse: l.InUse, Queued: l.Queued, Overloaded: l.Overloaded,
		Admitted: l.Admitted, Waited: l.Waited, Refused: refused,
	})
	if l.Kind == "adaptive" {
		putTime(s, limitLatency, l.Latency.Seconds(), limitKey.String(name))
		putTime(s, limitBaseline, l.Baseline.Seconds(), limitKey.String(name))
	}
}

func (s sink) cache(st weirhttp.CacheStats) {
	put(s, cacheSize, int(st.Used))
	put(s, cacheLimit, int(st.Bytes))
	put(s, cacheResponses, st.Responses)
	put(s, cacheEvictions, st.Evicted)
	put(s, cachePurges, st.Purged)
	put(s, cacheTooBig, st.TooBig)
	if f := st.Fleet; f != nil {
		s.fleet(fleetStats{f.Open, f.Fresh, f.Granted, f.Held, f.Cooling, f.Unavailable, f.LostLeases, f.Waits, f.Pushes, f.Resets, f.Queued, f.Replayed, f.Pending, f.Blocked})
	}
}

// fleetStats are what a Guard and a cache have in common.
type fleetStats struct {
	open                                           bool
	fresh, granted, held, cooling                  uint64
	unavailable, lostLeases, waits, pushes, resets uint64
	queued, replayed                               uint64
	pending                                        int
	blocked                                        bool
}

// guardFleet tells what a Guard asks of its fleet, if it is in one and has.
func (s sink) guardFleet(name string, f weir.FleetStats) {
	if f != (weir.FleetStats{}) {
		s.fleet(fleetStats{f.Open, f.Fresh, f.Granted, f.Held, f.Cooling, f.Unavailable, f.LostLeases, f.Waits, f.Pushes, f.Resets, f.Queued, f.Replayed, f.Pending, f.Blocked}, guardKey.String(name))
	}
}

// fleet tells of f; of names the Guard, if it is one's.
func (s sink) fleet(f fleetStats, of ...attribute.KeyValue) {
	putBool(s, fleetOpen, f.open, of...)
	for result, n := range map[string]uint64{"fresh": f.fresh, "granted": f.granted, "held": f.held, "cooling": f.cooling} {
		put(s, fleetAcquires, n, append(slices.Clip(of), resultKey.String(result))...)
	}
	put(s, fleetUnavailable, f.unavailable, of...)
	put(s, fleetLostLeases, f.lostLeases, of...)
	put(s, fleetWaits, f.waits, of...)
	put(s, fleetPushes, f.pushes, of...)
	put(s, fleetResets, f.resets, of...)
	put(s, fleetPending, f.pending, of...)
	putBool(s, fleetBlocked, f.blocked, of...)
	put(s, fleetQueued, f.queued, of...)
	put(s, fleetReplayed, f.replayed, of...)
}

// names are those that a collection has used for a limiter, each once.
type names map[string]bool

// take returns name, or if it is taken another one, or that with a number.
func (n names) take(name, another string) string {
	for i := 2; n[name]; i++ {
		name = another
		if n[name] {
			name += " " + strconv.Itoa(i)
		}
	}
	n[name] = true
	return name
}

// limiters tells how those of the Guards stand, one that several share once: each
// under its own name, or the Guard's if it has none. Of limiters from elsewhere only
// those can be told that have the Stats of one of package limit.
func (s sink) limiters(guards map[string]weir.Inspector, taken names) {
	told := map[limit.Limiter]bool{}
	for _, guard := range slices.Sorted(maps.Keys(guards)) { // always in one order, for the names
		for _, l := range limit.Parts(guards[guard].Limiter()) {
			if !reflect.ValueOf(l).Comparable() || told[l] {
				continue
			}
			told[l] = true
			tell := s.limiter(l)
			if tell == nil {
				continue
			}
			name := guard
			if n, ok := l.(interface{ Name() string }); ok && n.Name() != "" {
				name = n.Name()
			}
			tell(taken.take(name, guard+":"+name))
		}
	}
}

// limiter returns what tells how l stands under a name, or nil.
func (s sink) limiter(l limit.Limiter) func(name string) {
	switch l := l.(type) {
	case interface{ Stats() limit.AdaptiveStats }:
		return func(name string) {
			st := l.Stats()
			s.concurrency(name, st.ConcurrencyStats)
			putTime(s, limitLatency, st.Latency.Seconds(), limitKey.String(name))
			putTime(s, limitBaseline, st.Baseline.Seconds(), limitKey.String(name))
		}
	case interface {
		Stats() limit.ConcurrencyStats
	}:
		return func(name string) { s.concurrency(name, l.Stats()) }
	case interface{ Stats() limit.RateStats }:
		return func(name string) {
			st := l.Stats()
			of := limitKey.String(name)
			put(s, limitQueued, st.Queued, of)
			put(s, limitAdmitted, st.Admitted, of)
			put(s, limitWaited, st.Waited, of)
			s.refusals(of, st.Refused)
		}
	}
	return nil
}

func (s sink) concurrency(name string, st limit.ConcurrencyStats) {
	of := limitKey.String(name)
	put(s, limitPermits, st.Limit, of)
	put(s, limitInUse, st.InUse, of)
	put(s, limitQueued, st.Queued, of)
	putBool(s, limitOverloaded, st.Overloaded, of)
	put(s, limitAdmitted, st.Admitted, of)
	put(s, limitWaited, st.Waited, of)
	s.refusals(of, st.Refused)
}

func (s sink) refusals(of attribute.KeyValue, r limit.Refusals) {
	for reason := limit.RateExceeded; int(reason) < len(r); reason++ {
		put(s, limitRefused, r[reason], of, reasonKey.String(underscored(reason.String())))
	}
}
