package weirprom

// Metrics of Guards and routes; all others are in gateway/metrics. Label values are
// constants and names from the program's configuration: never a key, nor anything
// else that clients send.

// Guards.
var (
	guardAvoided = counter("weir_guard_avoided_total",
		"Calls that did not start a load: answered by a fresh value (hit), a stale one (stale), a remembered not-found (negative) or failure (failure), or by another call's load (join).",
		"guard", "kind")
	guardCost = counter("weir_guard_cost_total",
		"Units of cost: of loads (spent), and what calls would have cost that were answered from memory (hit), joined a load (join), got the value of another instance (fleet), or whose load the limiter refused (refused).",
		"guard", "kind")
	guardCalls            = counter("weir_guard_calls_total", "Calls, whatever their result; each key of a GetMany counts as one.", "guard")
	guardLoads            = counter("weir_guard_loads_total", "Runs of the load function, including refreshes.", "guard")
	guardRefreshes        = counter("weir_guard_refreshes_total", "Loads in the background.", "guard")
	guardFailures         = counter("weir_guard_load_failures_total", "Results of loads that were errors, except not-found; one for each key of a bulk load.", "guard")
	guardNotFound         = counter("weir_guard_not_found_total", "Results of loads that were not-found.", "guard")
	guardTimeouts         = counter("weir_guard_load_timeouts_total", "Loads that exceeded LoadTimeout.", "guard")
	guardPanics           = counter("weir_guard_panics_total", "Loads that panicked or called runtime.Goexit.", "guard")
	guardAbandoned        = counter("weir_guard_abandoned_total", "Loads, including queued ones, that were canceled because no caller waited any more.", "guard")
	guardSuperseded       = counter("weir_guard_superseded_total", "Results of loads that a write superseded, and that were not kept.", "guard")
	guardStaleOnError     = counter("weir_guard_stale_on_error_total", "Calls that got a stale value instead of an error or a long wait.", "guard")
	guardRefused          = counter("weir_guard_refused_total", "Loads that were refused by the limiter (limit) or because of MaxStuck (stuck).", "guard", "reason")
	guardEvictions        = counter("weir_guard_evictions_total", "Entries that were removed because memory was full.", "guard")
	guardSkipped          = counter("weir_guard_refreshes_skipped_total", "Refreshes that did not start for lack of a slot or a permit.", "guard")
	guardEntries          = gauge("weir_guard_entries", "Entries in memory, approximately.", "guard")
	guardFlights          = gauge("weir_guard_flights", "Keys with a load in flight that a caller can join.", "guard")
	guardLoadsRunning     = gauge("weir_guard_loads_running", "Loads whose function has not returned.", "guard")
	guardRefreshesRunning = gauge("weir_guard_refreshes_running", "Loads in the background whose function has not returned.", "guard")
	guardLoadsStuck       = gauge("weir_guard_loads_stuck", "Loads beyond LoadTimeout whose function has not returned.", "guard")
	guardLoadDuration     = histogram("weir_guard_load_duration_seconds", "How long the load function ran.", "guard")
	guardWaitDuration     = histogram("weir_guard_wait_duration_seconds", "How long calls waited for a load, started by themselves or by another call.", "guard")
)

// HTTP handlers and routes.
var (
	httpRequests = counter("weir_http_requests_total", "Requests.", "route")
	httpAvoided  = counter("weir_http_avoided_total",
		"Requests that did not need a call: answered by a fresh response (hit), a stale one (stale), another request's call (joined), or after the origin sent no body (validated). Those of kind fleet, fetched by another instance, are included in hit and stale.",
		"route", "kind")
	httpCost = counter("weir_http_cost_total",
		"Units of cost: of upstream calls (spent), and what requests would have cost that were answered by a stored response (hit), shared another request's call (joined), or were refused by a budget (refused) or by their client's budget (refused_client).",
		"route", "kind")
	httpCalls           = counter("weir_http_calls_total", "Upstream calls, including refreshes.", "route")
	httpRefreshes       = counter("weir_http_refreshes_total", "Calls in the background.", "route")
	httpFailures        = counter("weir_http_call_failures_total", "Calls without a response (no_answer), those that broke off in the middle of one (broken), and those whose response had a status of 500 or more (server_error). A call has one kind only; calls canceled because no client waited any more have none.", "route", "kind")
	httpStaleOnError    = counter("weir_http_stale_on_error_total", "Requests that got a stale response because a call failed, returned an error status, or was refused by a limiter.", "route")
	httpAbandoned       = counter("weir_http_abandoned_total", "Calls that were canceled because no client waited any more.", "route")
	httpRefused         = counter("weir_http_refused_total", "Requests that were refused: with 503 by a limiter (limit), by a budget (budget), because the origin has stated a limit or a pause (paused), or because a limit of the fleet could not be reached (unreachable); with 429 because of the rate of their client (client) or its budget (client_budget); with 413 because they cost more than a limit or budget allows (too_large).", "route", "reason")
	httpLeft            = counter("weir_http_left_total", "Clients that disconnected before their response.", "route")
	httpMissed          = counter("weir_http_missed_total", "Requests that were answered by their own call.", "route")
	httpAlone           = counter("weir_http_alone_total", "Requests among the missed ones that share no response, by reason: apart, if one is stored for requests with other fields; credentials, request, the name of a bypass, or what the response says, as the detail of Cache-Status.", "route", "reason")
	httpObserved        = counter("weir_http_observed_total", "Requests of a route in observe mode, by what would have happened to them: answered by a stored response (hit) or another request's call (joined), queued, or refused with 503 (refused) or 429 (refused_client), or refused because of a budget (refused_budget), or ended because the time was over that they state (expired). Of the responses that would have been shared, those that were compared (compared), and that differed (differed).", "route", "kind")
	httpUnanswered      = counter("weir_http_unanswered_total", "Requests that got an error from weir, other than a refusal: their call failed, or they accepted only a stored response.", "route")
	httpLeftMidway      = counter("weir_http_left_midway_total", "Clients that disconnected in the middle of their response.", "route")
	httpLagged          = counter("weir_http_lagged_total", "Clients that were cut off because they fell behind others that shared a body.", "route")
	httpResumed         = counter("weir_http_resumed_total", "Clients that fell behind and received the rest through a separate call.", "route")
	httpReadAhead       = counter("weir_http_read_ahead_total", "Request bodies that were read before admission (read), and those that were not, or not whole, for lack of memory (no_memory).", "route", "kind")
	httpDeadlines       = counter("weir_http_deadlines_total", "Requests that state for how long their clients wait (stated), the ones whose time was over before there was a response (expired), those that were refused because less was left than calls take (no_chance), and those with a time that cannot be read (malformed).", "route", "kind")
	httpReads           = counter("weir_http_reads_total", "Requests with a body that only read: those that could use the cache (looked_up), and those that were forwarded alone because of their size, their fields or a condition (unshared).", "route", "kind")
	httpSlowClients     = counter("weir_http_slow_clients_cut_total", "Clients that were disconnected: their request body arrived below the minimum rate (sending), they read the response below it (reading), or they were the slowest of too many while others were queued (blocked).", "route", "reason")
	httpInFlight        = gauge("weir_http_in_flight", "Calls in flight.", "route")
	httpLeftRunning     = gauge("weir_http_abandoned_running", "Calls whose clients have left, and whose permits are held because the origin may still work on them.", "route")
	httpWaiting         = gauge("weir_http_waiting", "Requests that are waiting for another request's call.", "route")
	httpStreams         = gauge("weir_http_streams", "Upgrades and event streams in progress.", "route")
	httpRequestDuration = histogram("weir_http_request_duration_seconds", "How long requests took, to the end of their response.", "route")
	httpCallDuration    = histogram("weir_http_call_duration_seconds", "How long calls took, to their response headers.", "route")
	httpWaitDuration    = histogram("weir_http_wait_duration_seconds", "How long requests waited for another request's call, to its response headers.", "route")
)
