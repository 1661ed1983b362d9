package weirhttp

import (
	"sync/atomic"
	"time"
)

// Stats are what a Handler has done since it was made.
//
// Each request counts in exactly one of Hits, Stale, Joined, Validated, Missed,
// RefusedClient, Refused, Unanswered and Left, at the latest before anybody has the head of
// its answer, however often it was tried. So these add up to Requests, less those
// that still wait; [Stats.Ended] is their sum.
//
// Each call counts in one at most of Failed, Broken and ServerErrors, which add up
// to those that the next handler is to blame for.
type Stats struct {
	Requests uint64 `json:"requests"`

	// Calls avoided, by kind.
	Hits      uint64 `json:"hits"`      // fresh
	Stale     uint64 `json:"stale"`     // while revalidating, on an error, or offline
	Joined    uint64 `json:"joined"`    // another's call answered
	Validated uint64 `json:"validated"` // the origin validated what is stored, without a body
	Fleet     uint64 `json:"fleet"`     // of Hits and Stale, those that another instance had fetched
	// FleetStale are those of Fleet that are of Stale; the rest of it is of Hits.
	FleetStale uint64 `json:"fleet_stale"`

	// Missed are the requests that a call of their own answered, be it for the cache
	// or passed on. In observe mode that is each that was answered.
	Missed uint64 `json:"missed"`
	// Unanswered are those that got an error of ours, other than a refusal: their
	// call has failed, or they wanted only what is stored, and nothing was.
	Unanswered uint64 `json:"unanswered"`

	// StaleOnError are those of Stale that stand in place of an error: a call has
	// failed, or was answered with a status of RFC 5861, here or in another
	// instance, or a limit has refused it. What is stale while it is revalidated
	// is not among them.
	StaleOnError uint64 `json:"stale_on_error"`
	Shed         uint64 `json:"shed"` // of StaleOnError, those given because of overload

	Calls     uint64 `json:"calls"`     // of the next handler
	Refreshes uint64 `json:"refreshes"` // of these, in the background
	Failed    uint64 `json:"failed"`    // of these, without an answer, although somebody waited for it
	Broken    uint64 `json:"broken"`    // of these, ended in the middle of the body, although it was wanted
	Abandoned uint64 `json:"abandoned"` // of these, and of those still queued, canceled as nobody was left

	// ServerErrors are the Calls whose answer had a status of 500 or more, also if it
	// broke off.
	ServerErrors uint64 `json:"server_errors"`

	Released   uint64 `json:"released"`    // waited for a call whose answer could not be shared with them
	Left       uint64 `json:"left"`        // clients that went away before their answer
	LeftMidway uint64 `json:"left_midway"` // clients that went away in the middle of it
	Lagged     uint64 `json:"lagged"`      // readers that fell behind the window

	RefusedClient uint64 `json:"refused_client"` // refused with 429
	Refused       uint64 `json:"refused_limit"`  // refused with 503
	Queued        uint64 `json:"queued"`         // calls that waited for admission
	// Waited is how long they did, in all.
	Waited time.Duration `json:"waited_ns"`

	ObserverPanics uint64 `json:"observer_panics"` // swallowed, see Observer

	Slow SlowStats `json:"slow"`

	InFlight int `json:"in_flight"` // calls now
	Waiting  int `json:"waiting"`   // requests that wait for another's call now
	Streams  int `json:"streams"`   // upgrades and event streams now
	Flights  int `json:"flights"`   // calls that are shared, or refresh, now; see Handler.ActiveFlights

	Observed ObserveStats `json:"observed"`
}

// SlowStats are what was done about slow clients (H24). What a Handler that shares
// its Limiter counts is about its own requests only.
type SlowStats struct {
	ReadAhead uint64 `json:"read_ahead"` // request bodies that were read before admission
	NoMemory  uint64 `json:"no_memory"`  // request bodies that were not, or not whole, as ReadAheadMemory was used up

	CutSending uint64 `json:"cut_sending"` // clients cut because their request body came below MinRate
	CutReading uint64 `json:"cut_reading"` // clients cut because they read the response below MinRate
	CutBlocked uint64 `json:"cut_blocked"` // clients cut as the slowest beyond BlockedShare, while others were queued

	// Blocked are the calls that hold permits of Options.Limiter and wait for their
	// clients now. Of several limiters it is the most. Handlers of a gateway's
	// upstream have one number.
	Blocked int `json:"blocked"`
}

// ObserveStats are what observe mode has found: what would have become of the
// requests, had it been off.
type ObserveStats struct {
	Hits          uint64 `json:"hits"`           // would have been hits
	Joined        uint64 `json:"joined"`         // would have joined a call
	Compared      uint64 `json:"compared"`       // of Hits and Joined, those whose answers were compared
	Differed      uint64 `json:"differed"`       // of these, those that got another answer than they would have
	Queued        uint64 `json:"queued"`         // calls that would have waited at Limiter
	Refused       uint64 `json:"refused"`        // would have been refused by Limiter
	RefusedClient uint64 `json:"refused_client"` // would have been refused by the ClientLimiter
}

// CacheStats are those of a Cache.
type CacheStats struct {
	Bytes     int64  `json:"bytes"` // the bound
	Used      int64  `json:"used"`
	Reserved  int64  `json:"reserved"` // in the buffers of calls in flight
	Responses int    `json:"responses"`
	Stored    uint64 `json:"stored"`
	Evicted   uint64 `json:"evicted"`
	TooBig    uint64 `json:"too_big"`
	Overtaken uint64 `json:"overtaken"` // not stored because of an invalidation
	Purged    uint64 `json:"purged"`
	// Fleet is nil without one.
	Fleet *FleetStats `json:"fleet,omitempty"`
}

// FleetStats count what a Cache has asked its fleet, and the replies.
type FleetStats struct {
	// Open: the tier's breaker is open, the instance goes on alone. It is
	// false where the tier has none.
	Open        bool   `json:"open"`
	Acquires    uint64 `json:"acquires"`
	Fresh       uint64 `json:"fresh"` // of these: there was an answer
	Granted     uint64 `json:"granted"`
	Held        uint64 `json:"held"` // another fetched it
	Cooling     uint64 `json:"cooling"`
	Settled     uint64 `json:"settled"` // leases
	Refused     uint64 `json:"refused"` // of what came too late
	Extended    uint64 `json:"extended"`
	LostLeases  uint64 `json:"lost_leases"`
	Writes      uint64 `json:"writes"` // purges
	TagReads    uint64 `json:"tag_reads"`
	Unavailable uint64 `json:"unavailable"` // calls of the tier that failed
	Waits       uint64 `json:"waits"`
	Pushes      uint64 `json:"pushes"`
	Resets      uint64 `json:"resets"`
	// Pending are the purges that the tier has not acknowledged, now. Blocked: one
	// of them is of everything, or there were too many, so that nothing of the tier
	// is used. Queued is how many there have been, Replayed how many of them the
	// tier has acknowledged since.
	Pending  int    `json:"pending"`
	Blocked  bool   `json:"blocked"`
	Queued   uint64 `json:"queued"`
	Replayed uint64 `json:"replayed"`
}

func (c *fleetClient) stats() *FleetStats {
	s := c.client.Stats()
	out := &FleetStats{
		Acquires: s.Acquires, Fresh: s.Fresh, Granted: s.Granted, Held: s.Held, Cooling: s.Cooling,
		Settled: s.Settled, Refused: s.Refused, Extended: s.Extended, LostLeases: s.LostLeases,
		Writes: s.Writes, TagReads: s.TagReads, Unavailable: s.Unavailable,
		Waits: s.Waits, Pushes: s.Pushes, Resets: s.Resets,
		Pending: s.Pending, Blocked: s.Blocked, Queued: s.Queued, Replayed: s.Replayed,
	}
	if state := c.o.Tier.Abilities().State; state != nil {
		out.Open = state().Open
	}
	return out
}

// counters are the source of Stats.
type counters struct {
	requests, hits, stale, shed, joined, validated         atomic.Uint64
	calls, refreshes, failed, broken, abandoned            atomic.Uint64
	released, left, lagged, refusedClient, refused, queued atomic.Uint64
	fleetStale, serverErrors, staleOnError, observerPanics atomic.Uint64
	missed, unanswered, leftMidway                         atomic.Uint64
	readAhead, noMemory                                    atomic.Uint64
	cutSending, cutReading, cutBlocked                     atomic.Uint64
	// fleetHits are not among hits, so that either only ever grows for who subtracts
	// one of the Stats from the other.
	fleetHits                  atomic.Uint64
	waited                     atomic.Int64 // ns
	inFlight, waiting, streams atomic.Int64
}

// Ended is how many requests have been answered, refused or left: all Requests but
// those that still wait.
func (s Stats) Ended() uint64 {
	return s.Hits + s.Stale + s.Joined + s.Validated + s.Missed + s.RefusedClient + s.Refused + s.Unanswered + s.Left
}

// Stats returns a snapshot.
func (h *Handler) Stats() Stats {
	c := &h.count
	fleetHits, fleetStale := c.fleetHits.Load(), c.fleetStale.Load()
	s := Stats{
		Requests: c.requests.Load(), Hits: c.hits.Load() + fleetHits, Stale: c.stale.Load(), Shed: c.shed.Load(),
		Joined: c.joined.Load(), Validated: c.validated.Load(), Fleet: fleetHits + fleetStale, FleetStale: fleetStale,
		Calls: c.calls.Load(), Refreshes: c.refreshes.Load(), Failed: c.failed.Load(),
		Broken: c.broken.Load(), Abandoned: c.abandoned.Load(),
		ServerErrors: c.serverErrors.Load(), StaleOnError: c.staleOnError.Load(), ObserverPanics: c.observerPanics.Load(),
		Missed: c.missed.Load(), Unanswered: c.unanswered.Load(),
		Released: c.released.Load(), Left: c.left.Load(), LeftMidway: c.leftMidway.Load(), Lagged: c.lagged.Load(),
		RefusedClient: c.refusedClient.Load(), Refused: c.refused.Load(), Queued: c.queued.Load(),
		Waited: time.Duration(c.waited.Load()), InFlight: int(c.inFlight.Load()),
		Waiting: int(c.waiting.Load()), Streams: int(c.streams.Load()),
	}
	s.Slow = SlowStats{
		ReadAhead: c.readAhead.Load(), NoMemory: c.noMemory.Load(), CutSending: c.cutSending.Load(),
		CutReading: c.cutReading.Load(), CutBlocked: c.cutBlocked.Load(), Blocked: h.blocked(),
	}
	h.cache.mu.Lock()
	s.Flights = h.active.n
	h.cache.mu.Unlock()
	if h.shadow != nil {
		s.Observed = h.shadow.stats()
	}
	return s
}
