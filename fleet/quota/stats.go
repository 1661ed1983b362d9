package quota

import (
	"sync/atomic"

	"github.com/weir-go/weir/limit"
)

// LimiterStats are the counters of a [Limiter] or a [KeyedLimiter] on this instance
// since it was created. They are read one after another, not atomically.
type LimiterStats struct {
	Admitted uint64         // callers that were admitted, with or without waiting
	Waited   uint64         // the admitted callers that waited for a permit or a response
	Left     uint64         // callers whose context ended while they waited
	Refused  limit.Refusals // callers that were refused

	// Takes counts the requests to the engine, FailedTakes those without a usable
	// response. Leased counts the permits that they returned. Leased permits that are
	// not in Stock and that admitted no caller are lost.
	Takes, FailedTakes, Leased uint64

	// Replaced counts the values of other programs that the engine had under the limiter's
	// keys. Each was replaced, and its limiter began with all its permits.
	Replaced uint64

	// Outage reports that the last call of the engine failed, so that OnFailure
	// applies. Outages counts how often an outage began. The other two count the
	// callers that OnFailure decided on; they are included above as well.
	Outage                        bool
	Outages                       uint64
	OutageAdmitted, OutageRefused uint64

	Queued int // waiting callers; of a Limiter only
	Stock  int // permits available now; of a Limiter only
	Keys   int // remembered keys; of a KeyedLimiter only
}

// A tally counts the outcomes of callers. Its fields are atomics, because the lines
// of a KeyedLimiter have no common lock.
type tally struct {
	admitted, waited, left        atomic.Uint64
	refused                       [len(limit.Refusals{})]atomic.Uint64
	takes, failed, leased         atomic.Uint64
	replaced                      atomic.Uint64
	outageAdmitted, outageRefused atomic.Uint64
}

// stats returns a snapshot of everything but the state of the lines.
func (d *dispenser) stats() LimiterStats {
	s := LimiterStats{
		Admitted:       d.count.admitted.Load(),
		Waited:         d.count.waited.Load(),
		Left:           d.count.left.Load(),
		Takes:          d.count.takes.Load(),
		FailedTakes:    d.count.failed.Load(),
		Leased:         d.count.leased.Load(),
		Replaced:       d.count.replaced.Load(),
		OutageAdmitted: d.count.outageAdmitted.Load(),
		OutageRefused:  d.count.outageRefused.Load(),
	}
	for i := range s.Refused {
		s.Refused[i] = d.count.refused[i].Load()
	}
	s.Outages, s.Outage = d.health.outage()
	return s
}
