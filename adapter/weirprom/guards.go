package weirprom

import "github.com/weir-go/weir"

// guard sends how g stands.
func (s sink) guard(g guard) {
	name, st := g.name, g.Stats()
	put(s, guardAvoided, st.Hits, name, "hit")
	put(s, guardAvoided, st.StaleHits, name, "stale")
	put(s, guardAvoided, st.NegativeHits, name, "negative")
	put(s, guardAvoided, st.MemoHits, name, "failure")
	put(s, guardAvoided, st.Joins, name, "join")
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
	if f := st.Fleet; f != (weir.FleetStats{}) { // else it is in none, or has not asked it yet
		putBool(s, fleetOpen, f.Open, name)
		s.fleet(name, fleetStats{
			f.Fresh, f.Granted, f.Held, f.Cooling, f.Unavailable, f.LostLeases, f.Waits, f.Pushes, f.Resets,
			f.Queued, f.Replayed, f.Pending, f.Blocked,
		})
	}
}

// fleetStats are what a Guard and a cache have in common.
type fleetStats struct {
	fresh, granted, held, cooling                  uint64
	unavailable, lostLeases, waits, pushes, resets uint64
	queued, replayed                               uint64
	pending                                        int
	blocked                                        bool
}

func (s sink) fleet(guard string, f fleetStats) {
	put(s, fleetAcquires, f.fresh, guard, "fresh")
	put(s, fleetAcquires, f.granted, guard, "granted")
	put(s, fleetAcquires, f.held, guard, "held")
	put(s, fleetAcquires, f.cooling, guard, "cooling")
	put(s, fleetUnavailable, f.unavailable, guard)
	put(s, fleetLostLeases, f.lostLeases, guard)
	put(s, fleetWaits, f.waits, guard)
	put(s, fleetPushes, f.pushes, guard)
	put(s, fleetResets, f.resets, guard)
	put(s, fleetPending, f.pending, guard)
	putBool(s, fleetBlocked, f.blocked, guard)
	put(s, fleetQueued, f.queued, guard)
	put(s, fleetReplayed, f.replayed, guard)
}
