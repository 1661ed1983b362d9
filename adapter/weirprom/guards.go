package weirprom

import "github.com/weir-go/weir"

// guard sends the metrics of g, except those of its limiters and its fleet.
func (s sink) guard(g guard, st weir.Stats) {
	name := g.name
	put(s, guardAvoided, st.Hits, name, "hit")
	put(s, guardAvoided, st.StaleHits, name, "stale")
	put(s, guardAvoided, st.NegativeHits, name, "negative")
	put(s, guardAvoided, st.MemoHits, name, "failure")
	put(s, guardAvoided, st.Joins, name, "join")
	put(s, guardCost, st.Cost.Spent, name, "spent")
	put(s, guardCost, st.Cost.Hits, name, "hit")
	put(s, guardCost, st.Cost.Joins, name, "join")
	put(s, guardCost, st.Cost.Fleet, name, "fleet")
	put(s, guardCost, st.Cost.Refused, name, "refused")
	put(s, guardCalls, st.Calls(), name)
	put(s, guardLoads, st.Loads, name)
	put(s, guardRefreshes, st.Refreshes, name)
	put(s, guardFailures, st.LoadFailures, name)
	put(s, guardNotFound, st.NotFound, name)
	put(s, guardTimeouts, st.LoadTimeouts, name)
	put(s, guardPanics, st.Panics, name)
	put(s, guardAbandoned, st.Abandoned, name)
	put(s, guardSuperseded, st.Superseded, name)
	put(s, guardStaleOnError, st.StaleOnError, name)
	put(s, guardRefused, st.Refusals, name, "limit")
	put(s, guardRefused, st.StuckRefusals, name, "stuck")
	put(s, guardSkipped, st.RefreshesSkipped, name)
	put(s, guardEvictions, st.Evicted, name)
	put(s, guardEntries, st.Entries, name)
	put(s, guardFlights, st.Flights, name)
	put(s, guardLoadsRunning, st.Running, name)
	put(s, guardRefreshesRunning, st.Refreshing, name)
	put(s, guardLoadsStuck, st.Stuck, name)
	putDurations(s, guardLoadDuration, g.LoadTimes(), name)
	putDurations(s, guardWaitDuration, g.WaitTimes(), name)
}
