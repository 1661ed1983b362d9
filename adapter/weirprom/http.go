package weirprom

import (
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/metrics"
	"github.com/weir-go/weir/weirhttp"
)

// route sends the metrics of r.
func (s sink) route(name string, r Route) {
	s.counts(name, r.Stats(), r.Alone())
	putDurations(s, httpRequestDuration, r.RequestTimes(), name)
	putDurations(s, httpCallDuration, r.CallTimes(), name)
	putDurations(s, httpWaitDuration, r.WaitTimes(), name)
}

// counts sends the counts of a route.
func (s sink) counts(name string, st weirhttp.Stats, why weirhttp.AloneStats) {
	for reason, n := range why.All() {
		put(s, httpAlone, n, name, reason)
	}
	put(s, httpRequests, st.Requests, name)
	put(s, httpAvoided, st.Hits, name, "hit")
	put(s, httpAvoided, st.Stale, name, "stale")
	put(s, httpAvoided, st.Joined, name, "joined")
	put(s, httpAvoided, st.Validated, name, "validated")
	put(s, httpAvoided, st.Fleet, name, "fleet")
	put(s, httpCost, st.Cost.Spent, name, "spent")
	put(s, httpCost, st.Cost.Hits, name, "hit")
	put(s, httpCost, st.Cost.Joined, name, "joined")
	put(s, httpCost, st.Cost.Refused, name, "refused")
	put(s, httpCost, st.Cost.RefusedClient, name, "refused_client")
	put(s, httpCalls, st.Calls, name)
	put(s, httpRefreshes, st.Refreshes, name)
	put(s, httpFailures, st.Failed, name, "no_answer")
	put(s, httpFailures, st.Broken, name, "broken")
	put(s, httpFailures, st.ServerErrors, name, "server_error")
	put(s, httpStaleOnError, st.StaleOnError, name)
	put(s, httpAbandoned, st.Abandoned, name)
	for reason, n := range st.RefusedBy.All() {
		put(s, httpRefused, n, name, reason)
	}
	put(s, httpMissed, st.Missed, name)
	for kind, n := range st.Observed.All() {
		put(s, httpObserved, n, name, kind)
	}
	for kind, n := range st.Deadlines.All() {
		put(s, httpDeadlines, n, name, kind)
	}
	put(s, httpUnanswered, st.Unanswered, name)
	put(s, httpLeft, st.Left, name)
	put(s, httpLeftMidway, st.LeftMidway, name)
	put(s, httpLagged, st.Lagged, name)
	put(s, httpResumed, st.Resumed, name)
	put(s, httpReadAhead, st.Slow.ReadAhead, name, "read")
	put(s, httpReadAhead, st.Slow.NoMemory, name, "no_memory")
	put(s, httpReads, st.Reads.LookedUp, name, "looked_up")
	put(s, httpReads, st.Reads.Unshared, name, "unshared")
	put(s, httpSlowClients, st.Slow.CutSending, name, "sending")
	put(s, httpSlowClients, st.Slow.CutReading, name, "reading")
	put(s, httpSlowClients, st.Slow.CutBlocked, name, "blocked")
	put(s, httpInFlight, st.InFlight, name)
	put(s, httpLeftRunning, st.AbandonedRunning, name)
	put(s, httpWaiting, st.Waiting, name)
	put(s, httpStreams, st.Streams, name)
}

// routes sends the metrics of a gateway's routes, and marks their names as taken.
func (s sink) routes(st gateway.Stats, called metrics.Names) {
	for name, r := range st.Routes {
		called[name] = true
		d := st.Durations[name]
		s.counts(name, r, st.Alone[name])
		putDurations(s, httpRequestDuration, d.Requests, name)
		putDurations(s, httpCallDuration, d.Calls, name)
		putDurations(s, httpWaitDuration, d.Waits, name)
	}
}
