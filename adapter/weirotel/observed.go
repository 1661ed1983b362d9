package weirotel

import (
	"iter"
	"math"

	"go.opentelemetry.io/otel/attribute"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirhttp"
)

// A reading is a metric that is read when metrics are collected.
type reading struct {
	name, unit, text string
	now              bool // a current value, not a count since the start
	key              attribute.Key
	guard            func(weir.Stats) []point
	route            func(weirhttp.Stats) []point
	alone            func(weirhttp.AloneStats) []point
}

// A point is one number of a reading, for a kind or a reason if there are several.
type point struct {
	value string // of reading.key
	n     int64
}

type number interface{ ~int | ~uint64 }

// one returns a single number without a kind.
func one[N number](n N) []point { return []point{{n: whole(n)}} }

// each returns a number for each kind or reason.
func each[N number](all iter.Seq2[string, N]) (points []point) {
	for value, n := range all {
		points = append(points, of(value, n))
	}
	return points
}

// of returns one of several numbers.
func of[N number](value string, n N) point { return point{value, whole(n)} }

func whole[N number](n N) int64 {
	if uint64(n) > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// readings are all readings.
var readings = []reading{
	{
		name: "weir.avoided", unit: "{call}", text: "Calls and requests that did not start a load.", key: kindKey,
		guard: func(s weir.Stats) []point {
			return []point{of("hit", s.Hits), of("stale", s.StaleHits), of("negative", s.NegativeHits), of("failure", s.MemoHits), of("join", s.Joins)}
		},
		route: func(s weirhttp.Stats) []point {
			return []point{of("hit", s.Hits), of("stale", s.Stale), of("joined", s.Joined), of("validated", s.Validated), of("fleet", s.Fleet)}
		},
	},
	{
		name: "weir.cost", unit: "{unit}", text: "Units of cost: spent by loads and calls, avoided, and refused.", key: kindKey,
		guard: func(s weir.Stats) []point {
			return []point{of("spent", s.Cost.Spent), of("hit", s.Cost.Hits), of("join", s.Cost.Joins), of("fleet", s.Cost.Fleet), of("refused", s.Cost.Refused)}
		},
		route: func(s weirhttp.Stats) []point {
			return []point{of("spent", s.Cost.Spent), of("hit", s.Cost.Hits), of("joined", s.Cost.Joined), of("refused", s.Cost.Refused), of("refused_client", s.Cost.RefusedClient)}
		},
	},
	{
		name: "weir.refused", unit: "{call}", text: "Loads and requests that were refused.", key: reasonKey,
		guard: func(s weir.Stats) []point { return []point{of("limit", s.Refusals), of("stuck", s.StuckRefusals)} },
		route: func(s weirhttp.Stats) []point { return each(s.RefusedBy.All()) },
	},
	{
		name: "weir.failures", unit: "{load}", text: "Loads and calls that failed; not-found is not a failure.", key: kindKey,
		guard: func(s weir.Stats) []point { return []point{of("failed", s.LoadFailures)} },
		route: func(s weirhttp.Stats) []point {
			return []point{of("no_answer", s.Failed), of("broken", s.Broken), of("server_error", s.ServerErrors)}
		},
	},
	{
		name: "weir.loads", unit: "{load}", text: "Loads, and upstream calls of a handler.",
		guard: func(s weir.Stats) []point { return one(s.Loads) },
		route: func(s weirhttp.Stats) []point { return one(s.Calls) },
	},
	{
		name: "weir.refreshes", unit: "{load}", text: "Loads and calls in the background.",
		guard: func(s weir.Stats) []point { return one(s.Refreshes) },
		route: func(s weirhttp.Stats) []point { return one(s.Refreshes) },
	},
	{
		name: "weir.abandoned", unit: "{load}", text: "Loads and calls that were canceled because no caller waited any more.",
		guard: func(s weir.Stats) []point { return one(s.Abandoned) },
		route: func(s weirhttp.Stats) []point { return one(s.Abandoned) },
	},
	{
		name: "weir.stale_on_error", unit: "{call}", text: "Calls and requests that got a stale value instead of an error or a long wait.",
		guard: func(s weir.Stats) []point { return one(s.StaleOnError) },
		route: func(s weirhttp.Stats) []point { return one(s.StaleOnError) },
	},
	{
		name: "weir.running", unit: "{load}", text: "Loads and calls that have not returned.", now: true,
		guard: func(s weir.Stats) []point { return one(s.Running) },
		route: func(s weirhttp.Stats) []point { return one(s.InFlight) },
	},
	{
		name: "weir.abandoned_running", unit: "{call}", text: "Calls whose clients have left, and whose permits are held because the origin may still work on them.", now: true,
		route: func(s weirhttp.Stats) []point { return one(s.AbandonedRunning) },
	},
	ofGuard("weir.calls", "{call}", "Calls; each key of a GetMany counts as one.", func(s weir.Stats) uint64 { return s.Calls() }),
	ofGuard("weir.not_found", "{load}", "Results of loads that were not-found.", func(s weir.Stats) uint64 { return s.NotFound }),
	ofGuard("weir.timeouts", "{load}", "Loads that exceeded LoadTimeout.", func(s weir.Stats) uint64 { return s.LoadTimeouts }),
	ofGuard("weir.panics", "{load}", "Loads that panicked or called runtime.Goexit.", func(s weir.Stats) uint64 { return s.Panics }),
	ofGuard("weir.superseded", "{load}", "Results of loads that a write superseded, and that were not kept.", func(s weir.Stats) uint64 { return s.Superseded }),
	ofGuard("weir.skipped", "{load}", "Refreshes that did not start for lack of a slot or a permit.", func(s weir.Stats) uint64 { return s.RefreshesSkipped }),
	ofGuard("weir.evictions", "{entry}", "Entries that were removed because memory was full.", func(s weir.Stats) uint64 { return s.Evicted }),
	ofGuard("weir.entries", "{entry}", "Entries in memory, approximately.", func(s weir.Stats) int { return s.Entries }),
	ofGuard("weir.flights", "{key}", "Keys with a load in flight that a caller can join.", func(s weir.Stats) int { return s.Flights }),
	ofGuard("weir.refreshing", "{load}", "Loads in the background that have not returned.", func(s weir.Stats) int { return s.Refreshing }),
	ofGuard("weir.stuck", "{load}", "Loads beyond LoadTimeout that have not returned.", func(s weir.Stats) int { return s.Stuck }),
	ofRoute("weir.requests", "{request}", "Requests.", func(s weirhttp.Stats) uint64 { return s.Requests }),
	ofRoute("weir.missed", "{request}", "Requests that were answered by their own call.", func(s weirhttp.Stats) uint64 { return s.Missed }),
	{
		name: "weir.alone", unit: "{request}", text: "Requests among the missed ones that share no response, by reason.", key: reasonKey,
		alone: func(a weirhttp.AloneStats) []point { return each(a.All()) },
	},
	{
		name: "weir.observed", unit: "{request}", text: "Requests of a route in observe mode, by what would have happened to them.", key: kindKey,
		route: func(s weirhttp.Stats) []point { return each(s.Observed.All()) },
	},
	{
		name: "weir.deadlines", unit: "{request}", text: "Requests that state for how long their clients wait, by what became of it.", key: kindKey,
		route: func(s weirhttp.Stats) []point { return each(s.Deadlines.All()) },
	},
	ofRoute("weir.unanswered", "{request}", "Requests that got an error from weir, other than a refusal.", func(s weirhttp.Stats) uint64 { return s.Unanswered }),
	ofRoute("weir.left", "{request}", "Clients that disconnected before their response.", func(s weirhttp.Stats) uint64 { return s.Left }),
	ofRoute("weir.left_midway", "{request}", "Clients that disconnected in the middle of their response.", func(s weirhttp.Stats) uint64 { return s.LeftMidway }),
	ofRoute("weir.lagged", "{request}", "Clients that were cut off because they fell behind others that shared a body.", func(s weirhttp.Stats) uint64 { return s.Lagged }),
	ofRoute("weir.resumed", "{request}", "Clients that fell behind and received the rest through a separate call.", func(s weirhttp.Stats) uint64 { return s.Resumed }),
	{
		name: "weir.slow_clients_cut", unit: "{request}", text: "Clients that were cut for being too slow.", key: reasonKey,
		route: func(s weirhttp.Stats) []point {
			return []point{of("sending", s.Slow.CutSending), of("reading", s.Slow.CutReading), of("blocked", s.Slow.CutBlocked)}
		},
	},
	{
		name: "weir.read_ahead", unit: "{request}", text: "Request bodies that were read before admission, or not for lack of memory.", key: kindKey,
		route: func(s weirhttp.Stats) []point {
			return []point{of("read", s.Slow.ReadAhead), of("no_memory", s.Slow.NoMemory)}
		},
	},
	{
		name: "weir.reads", unit: "{request}", text: "Requests with a body that only read, by whether they could use the cache.", key: kindKey,
		route: func(s weirhttp.Stats) []point {
			return []point{of("looked_up", s.Reads.LookedUp), of("unshared", s.Reads.Unshared)}
		},
	},
	ofRoute("weir.waiting", "{request}", "Requests that wait for another request's call.", func(s weirhttp.Stats) int { return s.Waiting }),
	ofRoute("weir.streams", "{request}", "Upgrades and event streams.", func(s weirhttp.Stats) int { return s.Streams }),
}

// ofGuard returns a reading for Guards only. A field that is an int in Stats is a
// current value.
func ofGuard[N number](name, unit, text string, n func(weir.Stats) N) reading {
	return reading{name: name, unit: unit, text: text, now: stands[N](), guard: func(s weir.Stats) []point { return one(n(s)) }}
}

// ofRoute returns a reading for routes only.
func ofRoute[N number](name, unit, text string, n func(weirhttp.Stats) N) reading {
	return reading{name: name, unit: unit, text: text, now: stands[N](), route: func(s weirhttp.Stats) []point { return one(n(s)) }}
}

func stands[N number]() bool {
	_, ok := any(*new(N)).(int)
	return ok
}
