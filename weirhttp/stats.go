package weirhttp

import (
	"iter"
	"sync/atomic"
	"time"
)

// Stats counts what a Handler has done since it was created.
//
// Each request counts in exactly one of Hits, Stale, Joined, Validated, Missed,
// the fields of RefusedBy, Unanswered, FellBack and Left, however often it was tried. It is
// counted before any client has the headers of its response. So these counters add up
// to Requests, less the requests that are still waiting; [Stats.Ended] is their sum.
//
// Each call counts in at most one of Failed, Broken and ServerErrors. They add up to
// the failures for which the next handler is to blame.
type Stats struct {
	Requests uint64 `json:"requests"`

	// Calls avoided, by kind.
	Hits      uint64 `json:"hits"`      // fresh
	Stale     uint64 `json:"stale"`     // stale responses: while revalidating, on an error, or offline
	Joined    uint64 `json:"joined"`    // served by another request's call
	Validated uint64 `json:"validated"` // the origin validated the stored response, without a body
	Fleet     uint64 `json:"fleet"`     // of Hits and Stale, those that another instance had fetched
	// FleetStale is the part of Fleet that is in Stale; the rest is in Hits.
	FleetStale uint64 `json:"fleet_stale"`

	// Missed counts the requests that were served by their own call, for the cache or
	// bypassing it. In observe mode it counts every request that got a response.
	Missed uint64 `json:"missed"`
	// MissedErrors is the part of Missed whose response had a status of 500 or above.
	MissedErrors uint64 `json:"missed_errors"`
	// Unanswered counts the requests that got an error from us other than a
	// rejection: their call failed, or they accepted only stored responses and there
	// was none.
	Unanswered uint64 `json:"unanswered"`

	// FellBack counts the requests that Options.Fallback has responded to.
	FellBack uint64 `json:"fell_back"`

	// StaleOnError counts the requests in Stale that would otherwise have got an
	// error: a call failed, or returned an error status of RFC 5861, here or in
	// another instance, or was rejected by a limit. Stale responses that are served
	// during revalidation do not count.
	StaleOnError uint64 `json:"stale_on_error"`
	Shed         uint64 `json:"shed"` // of StaleOnError, those served because of overload

	Calls     uint64 `json:"calls"`     // of the next handler
	Refreshes uint64 `json:"refreshes"` // calls in the background
	Failed    uint64 `json:"failed"`    // calls without a response, although a client waited for it
	Broken    uint64 `json:"broken"`    // calls that ended in the middle of the body, although it was wanted
	Abandoned uint64 `json:"abandoned"` // running and queued calls, canceled because no client was left

	// ServerErrors counts the Calls whose response had a status of 500 or above, even
	// if it broke off.
	ServerErrors uint64 `json:"server_errors"`

	Released   uint64 `json:"released"`    // waited for a call whose response could not be shared with them
	Left       uint64 `json:"left"`        // clients that left before their response
	LeftMidway uint64 `json:"left_midway"` // clients that left in the middle of it
	// Lagged counts the clients that were cut off because they fell behind others that
	// shared the same body; see Options.Window.
	Lagged uint64 `json:"lagged"`
	// Resumed counts the clients that fell behind and received the rest through a
	// separate call.
	Resumed uint64 `json:"resumed"`

	RefusedClient uint64 `json:"refused_client"` // rejected with 429: the sum of RefusedBy.Client and ClientBudget
	Refused       uint64 `json:"refused"`        // rejected with 503: the sum of the others in RefusedBy, but for TooLarge
	// RefusedBy counts the rejected requests by what has rejected them.
	RefusedBy RefusedStats `json:"refused_by"`
	Queued    uint64       `json:"queued"` // calls that waited for admission
	// Waited is the total time that they waited.
	Waited time.Duration `json:"waited_ns"`

	ObserverPanics uint64 `json:"observer_panics"` // swallowed, see Observer

	// Deadlines counts the requests that state for how long their clients wait.
	Deadlines DeadlineStats `json:"deadlines"`
	// Reads counts the requests with a body that only read.
	Reads ReadStats `json:"reads"`
	Cost  CostStats `json:"cost"`

	Slow SlowStats `json:"slow"` // slow clients of shared bodies

	InFlight int `json:"in_flight"` // calls now
	Waiting  int `json:"waiting"`   // requests that are waiting for another's call now
	Streams  int `json:"streams"`   // upgrades and event streams now
	// AbandonedRunning is how many of the Abandoned calls hold their permit now, because
	// the origin may still work on them; see Options.ReleaseAbandoned.
	AbandonedRunning int `json:"abandoned_running"`
	Flights          int `json:"flights"` // calls that are shared, or refresh, now; see Handler.ActiveFlights

	Observed ObserveStats `json:"observed"` // what observe mode would have saved
}

// RefusedStats counts rejected requests. Each is in exactly one field, which also is the
// status that its client received, unless Options.ErrorHandler changes that.
type RefusedStats struct {
	Limit        uint64 `json:"limit"`         // 503: by Options.Limiter
	Budget       uint64 `json:"budget"`        // 503: by Options.Budget
	Paused       uint64 `json:"paused"`        // 503: by StatedLimits, because the origin has stated a limit or a pause
	Unreachable  uint64 `json:"unreachable"`   // 503: a limit of the fleet could not be reached
	Client       uint64 `json:"client"`        // 429: by Options.ClientLimiter
	ClientBudget uint64 `json:"client_budget"` // 429: by Options.ClientBudget
	TooLarge     uint64 `json:"too_large"`     // 413: the request costs more than a limit or budget allows at all
}

// All yields the name of each field, as in JSON, with its count.
func (s RefusedStats) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for i, n := range [refusals]uint64{s.Limit, s.Budget, s.Paused, s.Unreachable, s.Client, s.ClientBudget, s.TooLarge} {
			if !yield(refusalNames[i], n) {
				return
			}
		}
	}
}

// Total returns the sum of all fields.
func (s RefusedStats) Total() uint64 {
	return s.Limit + s.Budget + s.Paused + s.Unreachable + s.Client + s.ClientBudget + s.TooLarge
}

// ReadStats counts the reads with a body (H32). Each is also in Requests.
type ReadStats struct {
	LookedUp uint64 `json:"looked_up"` // could use the cache
	Unshared uint64 `json:"unshared"`  // forwarded alone: the body was too large, or a condition did not hold
}

// SlowStats counts what was done about slow clients (H24). A Handler that shares its
// Limiter counts only its own requests.
type SlowStats struct {
	ReadAhead uint64 `json:"read_ahead"` // request bodies that were read before admission
	NoMemory  uint64 `json:"no_memory"`  // request bodies that were not, or not completely, because ReadAheadMemory was used up

	CutSending uint64 `json:"cut_sending"` // clients cut off because they sent the request body below MinRate
	CutReading uint64 `json:"cut_reading"` // clients cut off because they read the response below MinRate
	CutBlocked uint64 `json:"cut_blocked"` // clients cut off as the slowest beyond BlockedShare, while others were queued

	// Blocked is how many calls currently hold permits of Options.Limiter and wait
	// for their clients. With several limiters it is the highest number. Handlers of
	// a gateway's upstream have one number.
	Blocked int `json:"blocked"`
}

// ObserveStats are the findings of observe mode: what would have happened to the
// requests without it.
type ObserveStats struct {
	Hits          uint64 `json:"hits"`           // would have been hits
	Joined        uint64 `json:"joined"`         // would have joined a call
	Compared      uint64 `json:"compared"`       // of Hits and Joined, those whose responses were compared
	Differed      uint64 `json:"differed"`       // compared requests that got a different response than they would have
	Queued        uint64 `json:"queued"`         // calls that would have waited at Limiter
	Refused       uint64 `json:"refused"`        // would have been rejected by Limiter
	RefusedClient uint64 `json:"refused_client"` // would have been rejected by the ClientLimiter or the ClientBudget
	RefusedBudget uint64 `json:"refused_budget"` // calls that would have waited for the Budget, and been rejected after its MaxWait
	Expired       uint64 `json:"expired"`        // would have ended before their response, when the time was over that the request states
}

// All yields the count of each field, by its name in metrics.
func (s ObserveStats) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		_ = yield("hit", s.Hits) && yield("joined", s.Joined) && yield("compared", s.Compared) && yield("differed", s.Differed) &&
			yield("queued", s.Queued) && yield("refused", s.Refused) && yield("refused_client", s.RefusedClient) &&
			yield("refused_budget", s.RefusedBudget) && yield("expired", s.Expired)
	}
}

// CacheStats are the statistics of a Cache.
type CacheStats struct {
	Bytes     int64  `json:"bytes"`     // the bound
	Used      int64  `json:"used"`      // bytes in use
	Reserved  int64  `json:"reserved"`  // in the buffers of calls in flight
	Responses int    `json:"responses"` // responses in the cache
	Stored    uint64 `json:"stored"`    // responses stored since the start
	Evicted   uint64 `json:"evicted"`   // responses removed to make room
	TooBig    uint64 `json:"too_big"`   // responses larger than the maximum
	Overtaken uint64 `json:"overtaken"` // not stored because of an invalidation
	Purged    uint64 `json:"purged"`    // responses removed by purges
	// Fleet is nil without a fleet.
	Fleet *FleetStats `json:"fleet,omitempty"`
	// Folder is nil without a folder.
	Folder *FolderStats `json:"folder,omitempty"`
}

// FleetStats count the requests of a Cache to its fleet, and the replies.
type FleetStats struct {
	// Open: the Tier's circuit breaker is open, and the instance continues alone. It
	// is false if the Tier has none.
	Open        bool   `json:"open"`
	Acquires    uint64 `json:"acquires"`
	Fresh       uint64 `json:"fresh"` // lookups for which the Tier had a response
	Granted     uint64 `json:"granted"`
	Held        uint64 `json:"held"` // another instance fetched it
	Cooling     uint64 `json:"cooling"`
	Settled     uint64 `json:"settled"` // leases
	Refused     uint64 `json:"refused"` // leases that were settled too late
	Extended    uint64 `json:"extended"`
	LostLeases  uint64 `json:"lost_leases"`
	Writes      uint64 `json:"writes"` // purges
	TagReads    uint64 `json:"tag_reads"`
	Unavailable uint64 `json:"unavailable"` // failed calls of the Tier
	Waits       uint64 `json:"waits"`
	Pushes      uint64 `json:"pushes"`
	Pushed      uint64 `json:"pushed"` // requests answered by a pushed value
	Resets      uint64 `json:"resets"`
	// Pending is how many purges the Tier has not acknowledged yet. Blocked: one of
	// them covers everything, or there were too many, so that nothing from the Tier
	// is used. Queued is how many there have been in total, Replayed how many of them
	// the Tier has acknowledged since.
	Pending  int    `json:"pending"`
	Blocked  bool   `json:"blocked"`
	Queued   uint64 `json:"queued"`
	Replayed uint64 `json:"replayed"`
}

func (c *fleetClient) stats() *FleetStats {
	s := c.client.Stats()
	return &FleetStats{
		Open:     s.Open,
		Acquires: s.Acquires, Fresh: s.Fresh, Granted: s.Granted, Held: s.Held, Cooling: s.Cooling,
		Settled: s.Settled, Refused: s.Refused, Extended: s.Extended, LostLeases: s.LostLeases,
		Writes: s.Writes, TagReads: s.TagReads, Unavailable: s.Unavailable,
		Waits: s.Waits, Pushes: s.Pushes, Pushed: s.PushedUsed, Resets: s.Resets,
		Pending: s.Pending, Blocked: s.Blocked, Queued: s.Queued, Replayed: s.Replayed,
	}
}

// counters is the source of Stats.
type counters struct {
	requests, hits, stale, shed, joined, validated         atomic.Uint64
	calls, refreshes, failed, broken, abandoned            atomic.Uint64
	released, left, lagged, queued, resumed                atomic.Uint64
	refused                                                [refusals]atomic.Uint64
	fleetStale, serverErrors, staleOnError, observerPanics atomic.Uint64
	missed, missedErrors, unanswered, leftMidway           atomic.Uint64
	readAhead, noMemory                                    atomic.Uint64
	reads, unshared                                        atomic.Uint64
	cutSending, cutReading, cutBlocked                     atomic.Uint64
	costSpent, costHits, costJoined, costRefused           atomic.Uint64
	costRefusedClient, fellBack                            atomic.Uint64
	deadlineStated, deadlineMalformed, deadlineExpired     atomic.Uint64
	deadlineNoChance                                       atomic.Uint64
	// fleetHits is not included in hits, so that both only ever grow for a client
	// that subtracts one of the Stats from the other.
	fleetHits                  atomic.Uint64
	waited                     atomic.Int64 // ns
	inFlight, waiting, streams atomic.Int64
	leftRunning                atomic.Int64
}

// Ended returns how many requests have ended: all Requests except those that are
// still waiting.
func (s Stats) Ended() uint64 {
	return s.Hits + s.Stale + s.Joined + s.Validated + s.Missed + s.RefusedBy.Total() + s.Unanswered + s.FellBack + s.Left
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
		Missed: c.missed.Load(), MissedErrors: c.missedErrors.Load(), Unanswered: c.unanswered.Load(), FellBack: c.fellBack.Load(),
		Released: c.released.Load(), Left: c.left.Load(), LeftMidway: c.leftMidway.Load(), Lagged: c.lagged.Load(), Resumed: c.resumed.Load(),
		Queued: c.queued.Load(),
		Waited: time.Duration(c.waited.Load()), InFlight: int(c.inFlight.Load()),
		Waiting: int(c.waiting.Load()), Streams: int(c.streams.Load()), AbandonedRunning: int(c.leftRunning.Load()),
	}
	s.RefusedBy = RefusedStats{
		Limit: c.refused[refusedLimit].Load(), Budget: c.refused[refusedBudget].Load(), Paused: c.refused[refusedPaused].Load(),
		Unreachable: c.refused[refusedUnreachable].Load(), Client: c.refused[refusedClient].Load(),
		ClientBudget: c.refused[refusedClientBudget].Load(), TooLarge: c.refused[refusedTooLarge].Load(),
	}
	s.RefusedClient = s.RefusedBy.Client + s.RefusedBy.ClientBudget
	s.Refused = s.RefusedBy.Total() - s.RefusedClient - s.RefusedBy.TooLarge
	s.Deadlines = DeadlineStats{Stated: c.deadlineStated.Load(), Malformed: c.deadlineMalformed.Load(), Expired: c.deadlineExpired.Load(), NoChance: c.deadlineNoChance.Load()}
	s.Reads = ReadStats{LookedUp: c.reads.Load(), Unshared: c.unshared.Load()}
	s.Cost = CostStats{Spent: c.costSpent.Load(), Hits: c.costHits.Load(), Joined: c.costJoined.Load(), Refused: c.costRefused.Load(), RefusedClient: c.costRefusedClient.Load(), Price: h.o.Cost.Price, Currency: h.o.Cost.Currency}
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
