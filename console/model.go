package console

import (
	"context"
	"math"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
)

// A Source provides what a console shows. Its methods are called once per second and
// by requests, several at a time. Implementations embed a [BaseSource].
type Source interface {
	// Snapshot returns the current state. It must be quick.
	Snapshot() Snapshot
	// Detail returns more about a unit, and false if there is no such unit. most
	// bounds the number of flights.
	Detail(unit string, most int) (Detail, bool)
	// HotKeys returns the hot keys of a unit.
	HotKeys(unit string, most int) (inspect.HotKeys, bool)
	// Abilities returns what else the Source can do. It always returns the same.
	Abilities() Abilities

	// embedded is implemented by [BaseSource].
	embedded()
}

// Abilities are optional functions of a Source; nil means not supported.
type Abilities struct {
	// Purge makes a unit forget the entries with one of tags, or all of them. It
	// returns false if there is no such unit.
	Purge func(ctx context.Context, unit string, tags []string, all bool) (bool, error)
}

// A BaseSource has no Abilities. Every Source embeds it, directly or through another
// Source, so that later versions can extend the interface.
type BaseSource struct{}

// Abilities implements [Source].
func (BaseSource) Abilities() Abilities { return Abilities{} }

func (BaseSource) embedded() {}

// A Snapshot is the state at one moment. Counts are since the start. A console sends
// at most MaxUnits units, of which the last is then Others, and the first MaxUnits limits,
// budgets and stores.
type Snapshot struct {
	At      time.Time `json:"at"`                // time of the snapshot
	Units   []Unit    `json:"units"`             // sorted by name
	Limits  []Limit   `json:"limits,omitempty"`  // sorted by name
	Stores  []Store   `json:"stores,omitempty"`  // caches that routes share
	Servers []Server  `json:"servers,omitempty"` // of all upstreams
	Budgets []Budget  `json:"budgets,omitempty"` // of cost
	Tier    *Tier     `json:"tier,omitempty"`    // connection to the fleet's store, nil without a fleet
	Queues  []Queue   `json:"queues,omitempty"`  // of jobs
	// Idempotency is the state of the Idempotency-Keys. nil means that there are none.
	Idempotency *Idempotency `json:"idempotency,omitempty"`
	Process     Process      `json:"process"` // this process
	// Unrouted are the responses that belong to no unit, such as 404 because no route
	// matched. nil means that responses are not counted.
	Unrouted *Responses `json:"unrouted,omitempty"`
	// Omitted is the number of limits, budgets and stores beyond MaxUnits. A Source leaves it
	// 0.
	Omitted int `json:"omitted,omitempty"`
}

// A Unit is a Guard, a route, or a gRPC method.
type Unit struct {
	Name  string `json:"name"`            // name of the Guard or route
	Kind  string `json:"kind"`            // "guard", "route" or "method"
	Limit string `json:"limit,omitempty"` // the name of its Limit
	// Upstream is the Upstream of its Servers, so that a fault of those is shown once.
	Upstream string `json:"upstream,omitempty"`

	// Responses are what clients received. nil means not counted, as for a Guard.
	Responses *Responses `json:"responses,omitempty"`

	// Requests are all requests of a route, all calls and streams of a method, or a
	// Guard's calls for a key; see Guards.
	//
	// Failed are calls that returned an error, including timeouts and panics. A
	// route's call also fails if it gets no response, a status of 500 or more, or a
	// response that breaks off. Calls that were cut off because no request was
	// waiting any more are in Abandoned instead.
	Requests uint64  `json:"requests"`
	Avoided  Avoided `json:"avoided"`
	Refused  Refused `json:"refused"`
	// Cost is nil for a unit that has counted none.
	Cost *Cost `json:"cost,omitempty"`

	// The other ways in which a route's requests end, so that Requests is the sum of
	// Avoided, Refused, these, and the requests in progress. Missed were served by their
	// own call, MissedErrors is the part of these with a status of 500 or more, Unanswered
	// got an error from weir, and Left had gone. A Guard has none of them.
	Missed uint64 `json:"missed"`
	// Alone says why requests in Missed share nothing, the most frequent reason first.
	Alone []Alone `json:"alone,omitempty"`
	// Observed is nil unless a route is in observe mode.
	Observed *Observed `json:"observed,omitempty"`
	// Fallback is nil unless a route has one. The requests that it has got are in Missed.
	Fallback     *Fallback `json:"fallback,omitempty"`
	MissedErrors uint64    `json:"missed_errors"`
	Unanswered   uint64    `json:"unanswered"`
	Left         uint64    `json:"left"`

	Calls        uint64 `json:"calls"`          // of the source: loads
	Refreshes    uint64 `json:"refreshes"`      // of Calls: in the background
	Failed       uint64 `json:"failed"`         // see above
	Timeouts     uint64 `json:"timeouts"`       // the part of Failed that timed out
	Panics       uint64 `json:"panics"`         // the part of Failed that panicked
	Abandoned    uint64 `json:"abandoned"`      // canceled, because no request was waiting
	StaleOnError uint64 `json:"stale_on_error"` // stale responses instead of an error or a long wait

	// The current state.
	Evicted    uint64 `json:"evicted"` // entries removed because memory was full; a Guard's
	Entries    int    `json:"entries"` // in memory; 0 for a route, whose entries are in a Store
	Flights    int    `json:"flights"` // that new requests could join
	Running    int    `json:"running"`
	Refreshing int    `json:"refreshing"`
	Waiting    int    `json:"waiting"` // requests that wait for another request's call
	Stuck      int    `json:"stuck"`

	// Durations since the start. RequestTime is for routes only: a Guard's hits are
	// not timed.
	RequestTime inspect.Durations `json:"request_time"`
	WaitTime    inspect.Durations `json:"wait_time"`
	CallTime    inspect.Durations `json:"call_time"`
}

// Alone is a reason why requests share no response, and what changes that, in sentences.
type Alone struct {
	Reason string `json:"reason"`         // as in weir_http_alone_total
	Count  uint64 `json:"count"`          // number of requests
	Text   string `json:"text"`           // the reason in words
	Next   string `json:"next,omitempty"` // the lines of the configuration, or what the service has to do
	// Advise: it concerns many requests, and can be changed.
	Advise bool `json:"advise,omitempty"`
}

// Fallback is the upstream that gets requests to which a route's own does not respond.
type Fallback struct {
	Upstream string `json:"upstream"` // the other one
	Own      string `json:"own"`      // the route's own upstream
	// Counts of requests by reason.
	Reasons []FallbackReason `json:"reasons"`
}

// A FallbackReason counts the requests that a fallback has got for a reason, and those that it
// could not get because the budget of retries was used up, or would have got in observe mode.
type FallbackReason struct {
	Reason  string `json:"reason"`  // down, full, or a status
	Sent    uint64 `json:"sent"`    // went there
	Refused uint64 `json:"refused"` // beyond the budget of retries
	Would   uint64 `json:"would"`   // in observe mode
}

// sent counts the requests that went to the fallback. A nil Fallback has none.
func (f *Fallback) sent() (n uint64) {
	if f == nil {
		return 0
	}
	for _, r := range f.Reasons {
		n += r.Sent
	}
	return n
}

// Observed is what observe mode has found out about the requests of a route: what would have
// happened to them without it.
type Observed struct {
	// Requests, by what would have happened; Compared and Differed are pairs of responses
	// that would have been shared.
	Hits          uint64 `json:"hits"`
	Joined        uint64 `json:"joined"`
	Compared      uint64 `json:"compared"`
	Differed      uint64 `json:"differed"`
	Queued        uint64 `json:"queued"`
	Refused       uint64 `json:"refused"`
	RefusedClient uint64 `json:"refused_client"`
	RefusedBudget uint64 `json:"refused_budget"`
	Text          string `json:"text"`           // the outcome in words
	Next          string `json:"next,omitempty"` // the setting to change next
}

// saved counts the requests that would have needed no call. A nil Observed has none.
func (o *Observed) saved() uint64 {
	if o == nil {
		return 0
	}
	return o.Hits + o.Joined
}

// Avoided are requests that needed no call to the source, by kind: each request
// counts in at most one. A validated request needed a call that transferred no body,
// so it is not shown as avoided.
type Avoided struct {
	Hits      uint64 `json:"hits"`      // requests served fresh from memory
	Stale     uint64 `json:"stale"`     // requests served stale
	Negative  uint64 `json:"negative"`  // a remembered "not found"
	Failures  uint64 `json:"failures"`  // a remembered failure
	Joined    uint64 `json:"joined"`    // served by another request's call
	Validated uint64 `json:"validated"` // revalidated, and still valid: also counted in Calls, or joined such a call
	Fleet     uint64 `json:"fleet"`     // served by another instance's call
}

// Refused are refused requests and loads, by what refused them. Each counts in one of them.
type Refused struct {
	Limit        uint64 `json:"limit"`         // requests that the limit rejected
	Budget       uint64 `json:"budget"`        // of an upstream or a route
	Paused       uint64 `json:"paused"`        // the source has stated a limit or a pause
	Unreachable  uint64 `json:"unreachable"`   // a limit of the fleet could not be reached
	Client       uint64 `json:"client"`        // the client exceeded its rate
	ClientBudget uint64 `json:"client_budget"` // the client exceeded its budget
	TooLarge     uint64 `json:"too_large"`     // it costs more than a limit or budget allows
	Stuck        uint64 `json:"stuck"`         // requests rejected because too many loads are stuck
}

// ours are those that got 503 or Unavailable.
func (r Refused) ours() uint64 { return r.Limit + r.Budget + r.Paused + r.Unreachable + r.Stuck }

// clients are those that got 429 or ResourceExhausted.
func (r Refused) clients() uint64 { return r.Client + r.ClientBudget }

func (r *Refused) add(b Refused) {
	r.Limit += b.Limit
	r.Budget += b.Budget
	r.Paused += b.Paused
	r.Unreachable += b.Unreachable
	r.Client += b.Client
	r.ClientBudget += b.ClientBudget
	r.TooLarge += b.TooLarge
	r.Stuck += b.Stuck
}

// Cost counts units of cost, such as tokens: see weirhttp.Cost and weir.Source.
type Cost struct {
	Spent   uint64 `json:"spent"`   // units that calls to the source cost
	Hits    uint64 `json:"hits"`    // avoided by stored values
	Joined  uint64 `json:"joined"`  // avoided by requests that shared another's call
	Fleet   uint64 `json:"fleet"`   // avoided by another instance's call
	Refused uint64 `json:"refused"` // the estimate of what budgets refused
	// Price is what a unit costs in Currency, 0 if that is not known.
	Price    float64 `json:"price,omitempty"`
	Currency string  `json:"currency,omitempty"`
}

// Avoided is the cost that requests would have had in addition to Spent.
func (c Cost) Avoided() uint64 { return c.Hits + c.Joined + c.Fleet }

// orNil returns c, or nil if nothing was counted.
func (c Cost) orNil() *Cost {
	if c.Spent+c.Avoided()+c.Refused == 0 {
		return nil
	}
	return &c
}

// Responses counts what clients received. Each request is counted once, when it has ended.
type Responses struct {
	Switched    uint64 `json:"1xx"`    // upgrades to another protocol
	Success     uint64 `json:"2xx"`    // responses with 2xx
	Redirect    uint64 `json:"3xx"`    // responses with 3xx
	ClientError uint64 `json:"4xx"`    // responses with 4xx
	ServerError uint64 `json:"5xx"`    // responses with 5xx
	Broken      uint64 `json:"broken"` // responses that broke off, or did not come
	Left        uint64 `json:"left"`   // clients that left, or were too slow
}

// A Limit is the state of a limiter.
type Limit struct {
	Name       string            `json:"name"`                  // name of the limit
	Kind       string            `json:"kind"`                  // "fixed", "adaptive" or "rate"
	Limit      float64           `json:"limit"`                 // concurrent calls, or calls per second; 0 is none
	InUse      int               `json:"in_use"`                // permits in use
	Queued     int               `json:"queued"`                // callers in the queue
	Overloaded bool              `json:"overloaded"`            // waiting does not end in time; the newest callers are served first
	Storm      bool              `json:"storm,omitempty"`       // the limit is lowered, because most calls end too late
	Held       time.Duration     `json:"held_ns"`               // mean time of a call
	Latency    time.Duration     `json:"latency_ns,omitempty"`  // adaptive: of the last window
	Baseline   time.Duration     `json:"baseline_ns,omitempty"` // adaptive: with capacity to spare
	Admitted   uint64            `json:"admitted"`              // callers that received a permit
	Waited     uint64            `json:"waited"`                // admitted callers that queued first
	Left       uint64            `json:"left"`                  // callers whose context ended in the queue
	Refused    map[string]uint64 `json:"refused,omitempty"`     // refused requests, keyed by the reason
}

// A Budget is the state of a budget of cost.
type Budget struct {
	Name      string  `json:"name"`              // of the upstream or route
	Kind      string  `json:"kind"`              // "upstream", "route", or "client" for that of each client of a route
	PerSecond float64 `json:"per_second"`        // units refilled per second
	Burst     int     `json:"burst"`             // most units that can be spent in one burst
	Left      float64 `json:"left"`              // negative if units are owed; of a client's, 0
	Queued    int     `json:"queued"`            // callers that wait for units
	Waited    uint64  `json:"waited"`            // calls
	Refused   uint64  `json:"refused"`           // calls
	Fleet     bool    `json:"fleet,omitempty"`   // all instances share it
	Outage    bool    `json:"outage,omitempty"`  // the fleet cannot be reached
	Clients   int     `json:"clients,omitempty"` // that are remembered; of kind client
	// Over are the clients that were lately refused most, the first first; of kind client.
	Over []ClientShare `json:"over,omitempty"`
}

// A ClientShare is a client's part of the refusals of a budget.
type ClientShare struct {
	Address string  `json:"address"` // address of the client
	Share   float64 `json:"share"`   // from 0 to 1
}

func (b Budget) key() string { return b.Kind + " " + b.Name }

// Pace says how fast units come back, in the shortest period for which that is a whole number.
func (b Budget) Pace() string {
	const day = 86400
	for _, per := range []struct {
		seconds float64
		name    string
	}{{1, "second"}, {60, "minute"}, {3600, "hour"}} {
		if n := b.PerSecond * per.seconds; n >= 1 && math.Abs(n-math.Round(n)) < 1e-6*n {
			return count(int(math.Round(n))) + " per " + per.name
		}
	}
	return si(b.PerSecond*day) + " per day"
}

// A Store is a memory that several units share.
type Store struct {
	Name    string `json:"name"`    // name of the store
	Entries int    `json:"entries"` // responses in the store
	Used    int64  `json:"used"`    // bytes
	Bytes   int64  `json:"bytes"`   // the bound
	Evicted uint64 `json:"evicted"` // responses removed to make room
	TooBig  uint64 `json:"too_big"` // responses larger than the maximum
	Purged  uint64 `json:"purged"`  // responses removed by purges
}

// A Server is one server of an upstream.
type Server struct {
	Upstream string `json:"upstream"`  // name of its upstream
	URL      string `json:"url"`       // URL of the server, as configured
	Healthy  bool   `json:"healthy"`   // its latest health checks passed, or it has none
	Ejected  bool   `json:"ejected"`   // it gets no calls after failures in a row
	InFlight int    `json:"in_flight"` // calls in flight
	Calls    uint64 `json:"calls"`     // calls since the start
	Failures uint64 `json:"failures"`  // calls that failed
	// Left is when it last got no calls any more, Reason why, and Returned when it got calls again;
	// zero if it has not.
	Left     time.Time `json:"left,omitzero"`
	Returned time.Time `json:"returned,omitzero"`
	Reason   string    `json:"reason,omitempty"`
	// Weight, State, Head (in nanoseconds) and Failing are as in gateway.ServerStats. An empty
	// State means that they are not known.
	Weight  int           `json:"weight,omitempty"`
	State   string        `json:"state,omitempty"`
	Head    time.Duration `json:"head_ns,omitempty"`
	Failing float64       `json:"failing,omitempty"`
	// Name is the host that its address was resolved from.
	Name string `json:"name,omitempty"`
	// Kept and Moved are as in gateway.ServerStats, 0 without affinity.
	Kept  uint64 `json:"kept,omitempty"`
	Moved uint64 `json:"moved,omitempty"`
}

// Penalized reports whether s gets no calls because it fails where the other servers do not, or
// one at a time after that.
func (s Server) Penalized() bool { return s.State == "penalized" || s.State == "trying" }

// A Tier is the fleet's engine, as seen by this instance.
type Tier struct {
	Open bool `json:"open"` // the breaker: this instance works alone
	// Lookups, by their outcome; leases, and what became of them; requests that waited for
	// another instance; messages of changed keys; and how often some may have been missed.
	Acquires    uint64 `json:"acquires"`
	Fresh       uint64 `json:"fresh"`
	Granted     uint64 `json:"granted"` // leases
	Held        uint64 `json:"held"`    // another instance holds the lease
	Cooling     uint64 `json:"cooling"`
	Settled     uint64 `json:"settled"`
	Refused     uint64 `json:"refused"`
	Extended    uint64 `json:"extended"`
	LostLeases  uint64 `json:"lost_leases"`
	Unavailable uint64 `json:"unavailable"`
	Waits       uint64 `json:"waits"`
	Pushes      uint64 `json:"pushes"`
	Resets      uint64 `json:"resets"`

	// Pending and Queued are the invalidations that the store has not acknowledged:
	// now, and in total. If Blocked, nothing in the store is used until it has.
	Pending int    `json:"pending,omitempty"`
	Blocked bool   `json:"blocked,omitempty"`
	Queued  uint64 `json:"queued,omitempty"`
}

// A Queue is one queue of jobs.
type Queue struct {
	Name    string        `json:"name"`             // name of the queue
	Waiting int           `json:"waiting"`          // jobs that wait
	Running int           `json:"running"`          // jobs that run
	Dead    int           `json:"dead"`             // jobs that are dead
	Age     time.Duration `json:"age_ns"`           // of the oldest waiting job
	Done    uint64        `json:"done"`             // jobs that this instance completed since its start
	Failed  uint64        `json:"failed"`           // jobs that ended failed or dead in this instance since its start
	Paused  bool          `json:"paused,omitempty"` // none of its jobs starts

	// Orphan is set if the queue has jobs and belongs to no route.
	Orphan *Orphan `json:"orphan,omitempty"`
}

// Idempotency is the state of the calls with an Idempotency-Key, and of the store with their
// responses.
type Idempotency struct {
	Unknown  int   `json:"unknown"`   // calls with an unknown outcome
	Keys     int   `json:"keys"`      // keys in the store
	MaxKeys  int   `json:"max_keys"`  // the bound of Keys
	Bytes    int64 `json:"bytes"`     // size of the store's contents
	MaxBytes int64 `json:"max_bytes"` // the bound of Bytes
}

// used returns the share of the store that is in use.
func (i Idempotency) used() float64 {
	return max(float64(i.Keys)/max(1, float64(i.MaxKeys)), float64(i.Bytes)/max(1, float64(i.MaxBytes)))
}

// An Orphan counts the jobs in a queue that belongs to no route.
type Orphan struct {
	Queued   int    `json:"queued"`   // jobs that wait
	Started  int    `json:"started"`  // jobs that had begun
	Dead     int    `json:"dead"`     // jobs that are dead
	Finished int    `json:"finished"` // jobs whose results are kept
	Setting  string `json:"setting"`  // the setting with which a route takes it over
}

// A Process describes the program.
type Process struct {
	Version    string    `json:"version,omitempty"` // version of the program
	Go         string    `json:"go"`                // version of Go
	PID        int       `json:"pid"`               // ID of the process
	Started    time.Time `json:"started"`           // time at which the process started
	State      string    `json:"state"`             // "ready", or why it is not
	Goroutines int       `json:"goroutines"`        // number of goroutines
	Memory     uint64    `json:"memory"`            // bytes of the heap in use
}

// A Detail has more about a unit.
type Detail struct {
	Unit    Unit             `json:"unit"`              // the unit itself
	Limit   *Limit           `json:"limit,omitempty"`   // its limit, nil without one
	Entries *inspect.Entries `json:"entries,omitempty"` // numbers of entries by state
	Flights []Flight         `json:"flights"`           // loads that run or wait
}

// A Flight is an inspect.Flight whose key is text: the key itself with
// Options.ShowKeys, otherwise a short digest of it under a secret of this process.
type Flight struct {
	Name string `json:"key"` // the key, as text
	inspect.Flight
}

// Hot has the hot keys of a unit, formatted for display.
type Hot struct {
	Enabled bool `json:"enabled"` // hot keys are counted
	inspect.HotKeys
	ByTraffic  []HotKey `json:"by_traffic"`   // keys with the most calls
	ByLoadTime []HotKey `json:"by_load_time"` // keys whose loads take the most time
}

// A HotKey is a hot key for display; Name is formatted as that of a Flight.
type HotKey struct {
	Name   string  `json:"key"`
	Unit   string  `json:"unit,omitempty"` // if the list is of all units
	Rate   float64 `json:"rate"`           // calls per second
	Excess float64 `json:"excess"`         // the most by which Rate may be too high
	Share  float64 `json:"share"`          // of all, from 0 to 1
}

// A Fleet lists the instances of the fleet.
type Fleet struct {
	Self      string           `json:"self"`            // the ID of this instance
	Tier      *Tier            `json:"tier,omitempty"`  // connection to the fleet's store, nil without a fleet
	Instances []fleet.Instance `json:"instances"`       // instances that have announced themselves
	Error     string           `json:"error,omitempty"` // why Instances is not known
}

// A Hello is the first event of a stream.
type Hello struct {
	Title    string            `json:"title"`       // Options.Title
	Interval time.Duration     `json:"interval_ns"` // Options.Interval
	History  time.Duration     `json:"history_ns"`  // Options.History
	Features Features          `json:"features"`    // pages and actions that this console has
	Snapshot Snapshot          `json:"snapshot"`    // the latest snapshot
	Total    Series            `json:"total"`       // of all units together
	Units    map[string]Series `json:"units"`       // keyed by name
	Limits   map[string]Series `json:"limits"`      // keyed by name
	// Incidents are what needs attention now, the worst first.
	Incidents []Incident `json:"incidents"`
}

// Features says which pages there are.
type Features struct {
	Login   bool `json:"login"`   // the client has logged in, so it can log out
	Keys    bool `json:"keys"`    // keys are shown
	Hot     bool `json:"hot"`     // hot keys
	Fleet   bool `json:"fleet"`   // the page of the fleet
	Jobs    bool `json:"jobs"`    // the page of jobs
	Explain bool `json:"explain"` // the explanation of a request
	Purge   bool `json:"purge"`   // purges
	// Idempotency says that there are Idempotency-Keys.
	Idempotency bool `json:"idempotency"`
	// Routes says that Purge and Explain take URLs, as those of a gateway do.
	Routes bool `json:"routes"`
}

// A Tick is sent every second: the current Snapshot, and the next point of each
// series. A new unit or limit starts a new series.
type Tick struct {
	Snapshot Snapshot         `json:"snapshot"`
	Total    Point            `json:"total"`  // all units together
	Units    map[string]Point `json:"units"`  // keyed by name
	Limits   map[string]Point `json:"limits"` // keyed by name
	// Incidents are what needs attention now, the worst first.
	Incidents []Incident `json:"incidents"`
}

// A Point is one second of a unit or a limit, by the column names of Series; "t" is
// its time, in Unix seconds. Unknown values are NaN, which is null in JSON.
type Point map[string]float64

// A Series has the last points, oldest first, with a column for each name. The
// columns of units:
//
//	t                                     Unix time in seconds
//	requests hits stale negative failures joined validated fleet
//	calls refreshes failed refused refused_client stale_on_error     each per second
//	refused_budget refused_paused refused_unreachable                of refused, each per second
//	refused_client_budget                                            of refused_client, per second
//	too_large                                                        per second
//	observed                                                         hits and joins of observe mode, per second
//	missed missed_errors unanswered gone                             each per second; of a Guard: from the others
//	cost_spent cost_avoided cost_refused                             units per second
//	http_1xx http_2xx http_3xx http_4xx http_5xx http_broken http_left     each per second
//	request_p50 request_p99 wait_p50 wait_p99 call_p50 call_p99    in seconds, null where nothing was timed
//	flights running waiting stuck entries             as they stood
//
// The columns of limits: t limit in_use queued latency baseline held, times in
// seconds.
//
// A count per second is the difference between two points, so it is null in a unit's
// first point. It is also null in the first point after the unit was recreated, which
// shows in a count that has decreased.
type Series map[string]Column

// A Column has the values of one name in a Series. NaN and infinities, which JSON
// does not have, are written as null; null is read as NaN.
type Column []float64
