package metrics

// Limiters: of an upstream, or of a Guard.
var (
	limitPermits    = declare(Amount, "limit.permits", "{call}", "Calls that may run at once.", "limit")
	limitInUse      = declare(Amount, "limit.in_use", "{call}", "Calls that run.", "limit")
	limitQueued     = declare(Amount, "limit.queued", "{call}", "Callers that wait to be admitted.", "limit")
	limitOverloaded = declare(Gauge, "limit.overloaded", "1", "1 while the queue is standing, so that the newest are served first, else 0.", "limit")
	limitLatency    = declare(Gauge, "limit.latency", "s", "Adaptive: the mean latency of the last window.", "limit")
	limitBaseline   = declare(Gauge, "limit.baseline", "s", "Adaptive: the latency with room to spare, 0 until it is known.", "limit")
	limitAdmitted   = declare(Counter, "limit.admitted", "{call}", "Callers that were admitted, at once or after a wait.", "limit")
	limitWaited     = declare(Counter, "limit.waited", "{call}", "Callers that were admitted after a wait.", "limit")
	limitRefused    = declare(Counter, "limit.refused", "{call}", "Callers that were refused: rate_exceeded, queue_full, queue_timeout, wait_too_long (for their deadline), displaced (by others), no_spare (for background work), too_many (units).", "limit", "reason")
)

// Upstreams and their servers.
var (
	upstreamRetries        = declare(Counter, "upstream.retries", "{call}", "Calls that were tried again.", "upstream")
	upstreamRetriesRefused = declare(Counter, "upstream.retries_refused", "{call}", "Calls that were not tried again because of the budget.", "upstream")

	serverHealthy  = declare(Gauge, "server.healthy", "1", "1 while the checks find the server healthy, else 0.", "upstream", "server")
	serverEjected  = declare(Gauge, "server.ejected", "1", "1 while the server is left alone since its calls failed, else 0.", "upstream", "server")
	serverInFlight = declare(Amount, "server.in_flight", "{call}", "Calls of the server now.", "upstream", "server")
	serverCalls    = declare(Counter, "server.calls", "{call}", "Calls of the server.", "upstream", "server")
	serverFailures = declare(Counter, "server.failures", "{call}", "Calls of the server that failed.", "upstream", "server")
)

// A gateway, and a cache of responses.
var (
	gatewayUnrouted = declare(Counter, "gateway.unrouted", "{request}", "Requests that no route matched.")
	gatewayRejected = declare(Counter, "gateway.rejected", "{request}", "Requests that no gateway should answer: CONNECT, h2c upgrades, bad ones.")

	cacheSize      = declare(Amount, "cache.size", "By", "What the cache holds.").named("weir_cache_bytes")
	cacheLimit     = declare(Amount, "cache.limit", "By", "The bound of what the cache holds.")
	cacheResponses = declare(Amount, "cache.responses", "{response}", "Responses in the cache.")
	cacheEvictions = declare(Counter, "cache.evictions", "{response}", "Responses that made room for others.")
	cachePurges    = declare(Counter, "cache.purges", "{response}", "Responses that were purged.")
	cacheTooBig    = declare(Counter, "cache.too_big", "{response}", "Responses that were too big to be stored.")
)

// What a Guard, or a cache, asks of the fleet's tier. The label is empty for a cache of
// responses, whose routes share its connection to the fleet.
var (
	fleetOpen        = declare(Gauge, "fleet.open", "1", "1 while the breaker before the tier is open, so that the instance runs without the fleet, else 0.", "guard")
	fleetAcquires    = declare(Counter, "fleet.acquires", "{key}", "Keys requested: there was a value (fresh), this instance may fetch it (granted), another does (held), or it failed a moment ago (cooling).", "guard", "result")
	fleetUnavailable = declare(Counter, "fleet.unavailable", "{operation}", "Operations of the tier that failed.", "guard")
	fleetLostLeases  = declare(Counter, "fleet.lost_leases", "{lease}", "Leases that could not be extended.", "guard")
	fleetWaits       = declare(Counter, "fleet.waits", "{wait}", "Waits for another instance's answer.", "guard")
	fleetPushes      = declare(Counter, "fleet.pushes", "{push}", "Changes that the tier has told of.", "guard")
	fleetResets      = declare(Counter, "fleet.resets", "{reset}", "How often some changes may have been missed.", "guard")
	fleetPending     = declare(Gauge, "fleet.pending_invalidations", "{invalidation}", "Invalidations that the tier has not acknowledged. What they touch is not taken from it.", "guard")
	fleetBlocked     = declare(Gauge, "fleet.reads_blocked", "1", "1 while an invalidation of everything is pending, so that nothing is taken from the tier, else 0.", "guard")
	fleetQueued      = declare(Counter, "fleet.queued_invalidations", "{invalidation}", "Invalidations that the tier did not acknowledge at first.", "guard")
	fleetReplayed    = declare(Counter, "fleet.replayed_invalidations", "{invalidation}", "Of these, those that it has acknowledged since.", "guard")
)
