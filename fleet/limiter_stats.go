package fleet

import (
	"sync/atomic"

	"github.com/weir-go/weir/limit"
)

// LimiterStats is what a [Limiter] or a [KeyedLimiter] has done on this instance since
// it was made. The numbers are read one after another.
type LimiterStats struct {
	Admitted uint64         // callers that were let in, waited or not
	Waited   uint64         // of those, the ones that waited for a permit, or for an answer
	Left     uint64         // callers whose context ended while they waited
	Refused  limit.Refusals // callers that were refused

	// Takes are the questions to the engine, FailedTakes those without an
	// answer that was of use. Leased are the permits that came of them. What
	// was Leased, is not Stock, and nobody was let in with, is lost.
	Takes, FailedTakes, Leased uint64

	// Outage says that the last call of the engine failed: OnFailure applies.
	// Outages counts how often that began. The other two are the callers that
	// were dealt with so; they count above as well.
	Outage                        bool
	Outages                       uint64
	OutageAdmitted, OutageRefused uint64

	Queued int // callers that wait; of a Limiter only
	Stock  int // permits that can be used now; of a Limiter only
	Keys   int // keys that are remembered; of a KeyedLimiter only
}

// A tally is what becomes of callers. They are atomics, as the lines of a KeyedLimiter
// have no lock in common.
type tally struct {
	admitted, waited, left        atomic.Uint64
	refused                       [len(limit.Refusals{})]atomic.Uint64
	takes, failed, leased         atomic.Uint64
	outageAdmitted, outageRefused atomic.Uint64
}

// stats returns a snapshot of all but what lines know.
func (d *dispenser) stats() LimiterStats {
	s := LimiterStats{
		Admitted:       d.count.admitted.Load(),
		Waited:         d.count.waited.Load(),
		Left:           d.count.left.Load(),
		Takes:          d.count.takes.Load(),
		FailedTakes:    d.count.failed.Load(),
		Leased:         d.count.leased.Load(),
		OutageAdmitted: d.count.outageAdmitted.Load(),
		OutageRefused:  d.count.outageRefused.Load(),
	}
	for i := range s.Refused {
		s.Refused[i] = d.count.refused[i].Load()
	}
	s.Outages, s.Outage = d.health.outage()
	return s
}
