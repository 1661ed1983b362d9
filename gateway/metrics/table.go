package metrics

// Limiters: of an upstream, or of a Guard.
var (
	limitPermits    = declare(Amount, "limit.permits", "{call}", "Calls that may run at once.", "limit")
	limitInUse      = declare(Amount, "limit.in_use", "{call}", "Calls that run.", "limit")
	limitQueued     = declare(Amount, "limit.queued", "{call}", "Callers waiting for admission.", "limit")
	limitOverloaded = declare(Gauge, "limit.overloaded", "1", "1 while the queue never empties, so that the newest callers are served first, else 0.", "limit")
	limitStorm      = declare(Gauge, "limit.storm", "1", "1 while most calls end after their clients have left, so that the limit is lowered, else 0.", "limit")
	limitStorms     = declare(Counter, "limit.storms", "{storm}", "Times that the limit was lowered because most calls ended after their clients had left.", "limit")
	limitLate       = declare(Counter, "limit.late", "{call}", "Calls that took longer than usual and ended, or were given up, after their clients had left.", "limit")
	limitLatency    = declare(Gauge, "limit.latency", "s", "Adaptive: the mean latency of the last window.", "limit")
	limitBaseline   = declare(Gauge, "limit.baseline", "s", "Adaptive: the latency with room to spare, 0 until it is known.", "limit")
	limitAdmitted   = declare(Counter, "limit.admitted", "{call}", "Callers that were admitted, at once or after a wait.", "limit")
	limitWaited     = declare(Counter, "limit.waited", "{call}", "Callers that were admitted after a wait.", "limit")
	limitRefused    = declare(Counter, "limit.refused", "{call}", "Callers that were refused: rate_exceeded, queue_full, queue_timeout, wait_too_long (for their deadline), displaced (by others), no_spare (for background work), too_many (units).", "limit", "reason")
)

// Upstreams and their servers.
var (
	upstreamRetries        = declare(Counter, "upstream.retries", "{call}", "Calls that were retried.", "upstream")
	upstreamRetriesRefused = declare(Counter, "upstream.retries_refused", "{call}", "Calls that were not retried because of the budget.", "upstream")

	upstreamLookupFailures = declare(Counter, "upstream.lookup_failures", "{lookup}", "Lookups of the names whose addresses are servers that failed or had no address.", "upstream")

	fallbackRequests = declare(Counter, "fallback.requests", "{request}", "Requests of a route that went to its fallback, the upstream of the label (sent), that could not because the budget of retries was used up (refused), or that would have in observe mode (observed).", "route", "upstream", "reason", "kind")

	serverHealthy   = declare(Gauge, "server.healthy", "1", "1 while the checks find the server healthy, else 0.", "upstream", "server")
	serverEjected   = declare(Gauge, "server.ejected", "1", "1 while the server is ejected because its calls failed, else 0.", "upstream", "server")
	serverPenalized = declare(Gauge, "server.penalized", "1", "1 while the server gets no calls, or one at a time, because it fails where the others do not, else 0.", "upstream", "server")
	serverWeight    = declare(Gauge, "server.weight", "1", "Weight of the server; 0 while it is drained.", "upstream", "server")
	serverHead      = declare(Gauge, "server.head", "s", "Usual time to the head of the server's responses; 0 for the only server of an upstream.", "upstream", "server")
	serverFailing   = declare(Gauge, "server.failing", "1", "Share of failures among the server's latest responses; 0 for the only server of an upstream.", "upstream", "server")
	serverKept      = declare(Counter, "server.kept", "{call}", "Calls with the server's keys, with affinity.", "upstream", "server")
	serverMoved     = declare(Counter, "server.moved", "{call}", "Calls of other servers' keys that the server got because those had no room or had failed.", "upstream", "server")
	serverInFlight  = declare(Amount, "server.in_flight", "{call}", "Calls of the server in flight.", "upstream", "server")
	serverCalls     = declare(Counter, "server.calls", "{call}", "Calls of the server.", "upstream", "server")
	serverFailures  = declare(Counter, "server.failures", "{call}", "Calls of the server that failed.", "upstream", "server")
)

// Hedges of routes that have them.
var (
	hedges        = declare(Counter, "hedges", "{call}", "Second calls for requests whose first call took longer than most, by what became of them: won, lost, failed.", "route", "result")
	hedgesRefused = declare(Counter, "hedges.refused", "{call}", "Second calls that were not sent: budget, time and tenant (not paid for), class (they do not win), servers (no other one works), busy (no permit is free).", "route", "reason")
	hedgesDelay   = declare(Gauge, "hedges.delay", "s", "When most calls get a second one, 0 until it is known.", "route")
)

// Budgets of upstreams, of routes and of the clients of routes. The label kind is upstream,
// route or client, and the label budget the upstream or the route.
var (
	budgetLeft     = declare(Gauge, "budget.left", "{unit}", "Units of cost that can be spent; negative if some are owed.", "kind", "budget")
	budgetBurst    = declare(Gauge, "budget.burst", "{unit}", "Units of cost that can be spent at once.", "kind", "budget")
	budgetQueued   = declare(Amount, "budget.queued", "{call}", "Calls that wait for units.", "kind", "budget")
	budgetWaited   = declare(Counter, "budget.waited", "{call}", "Calls that were admitted after a wait for units.", "kind", "budget")
	budgetRefused  = declare(Counter, "budget.refused", "{call}", "Calls that were refused for lack of units.", "kind", "budget")
	budgetReturned = declare(Counter, "budget.returned", "{unit}", "Units that estimates had in excess.", "kind", "budget")
	budgetOwed     = declare(Counter, "budget.owed", "{unit}", "Units that estimates lacked.", "kind", "budget")
	budgetForgiven = declare(Counter, "budget.forgiven", "{unit}", "Units that estimates lacked, and that were not taken because of MaxDebt.", "kind", "budget")
)

// A gateway, and a cache of responses.
var (
	gatewayUnrouted = declare(Counter, "gateway.unrouted", "{request}", "Requests that no route matched.")
	gatewayRejected = declare(Counter, "gateway.rejected", "{request}", "Requests that a gateway must not serve: CONNECT, h2c upgrades, malformed requests.")

	cacheSize      = declare(Amount, "cache.size", "By", "Size of the cache's contents.").named("weir_cache_bytes")
	cacheLimit     = declare(Amount, "cache.limit", "By", "Maximum size of the cache's contents.")
	cacheResponses = declare(Amount, "cache.responses", "{response}", "Responses in the cache.")
	cacheEvictions = declare(Counter, "cache.evictions", "{response}", "Responses evicted to make room for others.")
	cachePurges    = declare(Counter, "cache.purges", "{response}", "Responses that were purged.")
	cacheTooBig    = declare(Counter, "cache.too_big", "{response}", "Responses that were too large to be stored.")

	folderSize      = declare(Amount, "folder.size", "By", "Size of the files in the cache folder.").named("weir_folder_bytes")
	folderLimit     = declare(Amount, "folder.limit", "By", "Maximum size of the files in the cache folder.")
	folderResponses = declare(Amount, "folder.responses", "{response}", "Responses in the cache folder.")
	folderHits      = declare(Counter, "folder.hits", "{response}", "Responses found in the cache folder, because memory did not have them.")
	folderWritten   = declare(Counter, "folder.written", "{response}", "Responses written to the cache folder.")
	folderEvictions = declare(Counter, "folder.evictions", "{response}", "Responses evicted from the cache folder to make room for others.")
	folderDropped   = declare(Counter, "folder.dropped", "{response}", "Responses not written to the cache folder: the queue was full, writing paused after an error, or they were too large.")
	folderErrors    = declare(Counter, "folder.errors", "{error}", "Failed operations on files of the cache folder.")
	folderDamaged   = declare(Counter, "folder.damaged", "{response}", "Responses and files of the cache folder with a wrong checksum.")
)

// The Idempotency-Keys of a gateway.
var (
	idempotencyCalls    = declare(Counter, "idempotency.calls", "{call}", "Calls with an Idempotency-Key: that were claimed, which is before they are sent (claimed), and by what became of them: the response is kept (kept), it is not, but the call has run (finished), the server has not done it, so that the key is free (freed), or that is unknown (doubted).", "result")
	idempotencyRequests = declare(Counter, "idempotency.requests", "{request}", "Requests with an Idempotency-Key that made no call: they waited for a running one (joined), received a kept response (replayed), or were refused: the response is not kept (told_done), the outcome is unknown (told_unknown), the key belongs to another request (other_request) or to other credentials (other_credentials), the store has no room (full) or does not work (store_failed).", "result")
	idempotencyUnknown  = declare(Gauge, "idempotency.unknown", "{call}", "Calls whose outcome is unknown, until an operator settles them or their key expires.").named("weir_idempotency_unknown")
	idempotencyKeys     = declare(Gauge, "idempotency.keys", "{key}", "Keys in the store.")
	idempotencyMaxKeys  = declare(Gauge, "idempotency.keys_limit", "{key}", "Maximum number of keys in the store.")
	idempotencySize     = declare(Gauge, "idempotency.size", "By", "Size of the store's contents, with what running calls reserve for their responses.").named("weir_idempotency_bytes")
	idempotencyLimit    = declare(Gauge, "idempotency.limit", "By", "Maximum size of the store's contents.")
)

// Requests of a Guard or a cache to the fleet's tier. The label is empty for a response
// cache, whose routes share its connection to the fleet.
var (
	fleetOpen        = declare(Gauge, "fleet.open", "1", "1 while the circuit breaker of the tier is open, so that the instance runs without the fleet, else 0.", "guard")
	fleetAcquires    = declare(Counter, "fleet.acquires", "{key}", "Keys requested: a value was stored (fresh), this instance received the lease (granted), another instance holds it (held), or the last load failed recently (cooling).", "guard", "result")
	fleetUnavailable = declare(Counter, "fleet.unavailable", "{operation}", "Failed operations of the tier.", "guard")
	fleetLostLeases  = declare(Counter, "fleet.lost_leases", "{lease}", "Leases that could not be renewed.", "guard")
	fleetWaits       = declare(Counter, "fleet.waits", "{wait}", "Waits for another instance's response.", "guard")
	fleetPushes      = declare(Counter, "fleet.pushes", "{push}", "Changes that the tier has announced.", "guard")
	fleetResets      = declare(Counter, "fleet.resets", "{reset}", "How often changes may have been missed.", "guard")
	fleetPending     = declare(Gauge, "fleet.pending_invalidations", "{invalidation}", "Invalidations that the tier has not acknowledged. Values that they affect are not read from it.", "guard")
	fleetBlocked     = declare(Gauge, "fleet.reads_blocked", "1", "1 while an invalidation of everything is pending, so that nothing is read from the tier, else 0.", "guard")
	fleetQueued      = declare(Counter, "fleet.queued_invalidations", "{invalidation}", "Invalidations that the tier did not acknowledge at the first attempt.", "guard")
	fleetReplayed    = declare(Counter, "fleet.replayed_invalidations", "{invalidation}", "Invalidations among these that the tier has acknowledged since.", "guard")
)

// Methods of gRPC. The label interceptor is the Name of the Server or Client, and the label
// method the full name, or others.
var (
	grpcCalls    = declare(Counter, "grpc.calls", "{call}", "Calls and streams, including refused ones.", "interceptor", "method")
	grpcStreams  = declare(Counter, "grpc.streams", "{call}", "Streams that were admitted.", "interceptor", "method")
	grpcAvoided  = declare(Counter, "grpc.avoided", "{call}", "Calls that started no execution: answered by a fresh response (hit), a stale one (stale), or the execution of another call (joined) or instance (fleet).", "interceptor", "method", "kind")
	grpcExecuted = declare(Counter, "grpc.executed", "{call}", "Calls that could be shared, started an execution, and got its response.", "interceptor", "method")
	grpcFailed   = declare(Counter, "grpc.failed", "{call}", "Calls that could be shared and got the failure of an execution, and calls that got an error while they waited.", "interceptor", "method")
	grpcAlone    = declare(Counter, "grpc.alone", "{call}", "Calls that shared nothing: the method is not declared safe (not_safe); they have undeclared metadata (metadata), a peer with an identity (peer), an unknown scope (scope), no message that can be compared (message), too large a request (size), a call option that could matter (call_option), or a connection without one identity (connection); or the response was for one client (private).", "interceptor", "method", "reason")
	grpcRefused  = declare(Counter, "grpc.refused", "{call}", "Calls and streams that were refused by a limiter (limit), or by the limit of their client (client).", "interceptor", "method", "reason")
	grpcAnswers  = declare(Counter, "grpc.responses", "{call}", "Calls and streams that have ended, by what their caller received: a response (ok), a code that is a response, such as NotFound, or the limit of the client (client_error), another code (server_error), or nothing, because it had canceled the call (left).", "interceptor", "method", "class")
	grpcStarted  = declare(Counter, "grpc.executions", "{call}", "Executions, shared or not, and streams.", "interceptor", "method")
	grpcErrors   = declare(Counter, "grpc.errors", "{call}", "Executions and streams that ended without a response: with NotFound (not_found), another code that is a response, such as PermissionDenied (declined), a code that is a failure, or a panic (failure), or because no caller was waiting any more (abandoned).", "interceptor", "method", "kind")
	grpcCost     = declare(Counter, "grpc.cost", "{unit}", "Units of cost of calls that shared nothing and of streams (spent), and the estimates of refused ones (refused). Those of shared executions are in the Guard's.", "interceptor", "method", "kind")
	grpcRunning  = declare(Amount, "grpc.running", "{call}", "Calls that share nothing, and streams, that have not ended.", "interceptor", "method")
)
