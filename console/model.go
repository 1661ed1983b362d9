package console

import (
	"context"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
)

// A Source is what a console shows. Its methods are called once a second and by
// requests, several at a time. Implementations embed a [BaseSource].
type Source interface {
	// Snapshot returns how everything stands. It must be quick.
	Snapshot() Snapshot
	// Detail tells more about a unit, and reports false if there is none of that
	// name. most bounds the flights.
	Detail(unit string, most int) (Detail, bool)
	// HotKeys returns a unit's.
	HotKeys(unit string, most int) (inspect.HotKeys, bool)
	// Abilities returns what the Source can do besides, always the same.
	Abilities() Abilities

	// embedded is of [BaseSource].
	embedded()
}

// Abilities are what a Source can do beyond telling how everything stands; nil is
// what it cannot.
type Abilities struct {
	// Purge has a unit forget what has one of tags, or everything. It reports false
	// if there is no such unit.
	Purge func(ctx context.Context, unit string, tags []string, all bool) (bool, error)
}

// A BaseSource is what every Source embeds, or a Source that does, so that later
// versions can add to the interface: it has no Abilities.
type BaseSource struct{}

// Abilities is of [Source].
func (BaseSource) Abilities() Abilities { return Abilities{} }

func (BaseSource) embedded() {}

// A Snapshot is how everything stands. Counts are since the start. Of units and
// of limits a console sends the first MaxUnits.
type Snapshot struct {
	At      time.Time `json:"at"`
	Units   []Unit    `json:"units"`            // by name
	Limits  []Limit   `json:"limits,omitempty"` // by name
	Stores  []Store   `json:"stores,omitempty"`
	Servers []Server  `json:"servers,omitempty"` // of all upstreams
	Tier    *Tier     `json:"tier,omitempty"`
	Queues  []Queue   `json:"queues,omitempty"` // of jobs
	Process Process   `json:"process"`
	// Omitted is how many units and limits there are beyond those. A Source leaves
	// it 0.
	Omitted int `json:"omitted,omitempty"`
}

// A Unit is a Guard, or a route.
type Unit struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`            // "guard" or "route"
	Limit string `json:"limit,omitempty"` // the name of its Limit

	// Requests are all that came, a Guard's calls for a key. See Guards for what
	// is and what is not among those of a Guard.
	//
	// Failed are calls that returned an error, timeouts and panics too. Those of a
	// route are calls without an answer, those that were answered with a status of
	// 500 or more, and those that broke off in the middle of another answer. What was
	// cut off since nobody waited any more is in Abandoned instead.
	Requests uint64  `json:"requests"`
	Avoided  Avoided `json:"avoided"`
	Refused  Refused `json:"refused"`

	Calls        uint64 `json:"calls"`          // of the source: loads
	Refreshes    uint64 `json:"refreshes"`      // of these, in the background
	Failed       uint64 `json:"failed"`         // see above
	Timeouts     uint64 `json:"timeouts"`       // of these
	Panics       uint64 `json:"panics"`         // of these
	Abandoned    uint64 `json:"abandoned"`      // canceled, since nobody waited
	StaleOnError uint64 `json:"stale_on_error"` // answers given in place of an error or a long wait

	// As it stands now.
	Evicted    uint64 `json:"evicted"` // entries removed because memory was full; a Guard's
	Entries    int    `json:"entries"` // in memory; 0 for a route, whose entries are in a Store
	Flights    int    `json:"flights"` // that newcomers could join
	Running    int    `json:"running"`
	Refreshing int    `json:"refreshing"`
	Waiting    int    `json:"waiting"` // requests that wait for another's call
	Stuck      int    `json:"stuck"`

	// How long things took, since the start. Requests are a route's only: the hits
	// of a Guard are not timed.
	RequestTime inspect.Durations `json:"request_time"`
	WaitTime    inspect.Durations `json:"wait_time"`
	CallTime    inspect.Durations `json:"call_time"`
}

// Avoided are requests that needed no call of the source, by kind: each is in one at
// most. Those that were validated needed one, which sent no body, so they are not
// among what is shown as avoided.
type Avoided struct {
	Hits      uint64 `json:"hits"`
	Stale     uint64 `json:"stale"`
	Negative  uint64 `json:"negative"`  // a remembered "not found"
	Failures  uint64 `json:"failures"`  // a remembered failure
	Joined    uint64 `json:"joined"`    // another's call answered
	Validated uint64 `json:"validated"` // asked, and it held: among the Calls too, or joined one
	Fleet     uint64 `json:"fleet"`     // another instance's call answered
}

// Refused are requests and loads that were refused, by kind.
type Refused struct {
	Limit  uint64 `json:"limit"`
	Client uint64 `json:"client"` // a client over its rate
	Stuck  uint64 `json:"stuck"`
}

// A Limit is a limiter.
type Limit struct {
	Name       string            `json:"name"`
	Kind       string            `json:"kind"`  // "fixed", "adaptive" or "rate"
	Limit      float64           `json:"limit"` // calls at once, or a second; 0 is none
	InUse      int               `json:"in_use"`
	Queued     int               `json:"queued"`
	Overloaded bool              `json:"overloaded"`
	Held       time.Duration     `json:"held_ns"`               // mean time of a call
	Latency    time.Duration     `json:"latency_ns,omitempty"`  // adaptive: of the last window
	Baseline   time.Duration     `json:"baseline_ns,omitempty"` // adaptive: with room to spare
	Admitted   uint64            `json:"admitted"`
	Waited     uint64            `json:"waited"`
	Left       uint64            `json:"left"`
	Refused    map[string]uint64 `json:"refused,omitempty"` // by reason
}

// A Store is a memory that several units share.
type Store struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
	Used    int64  `json:"used"`  // bytes
	Bytes   int64  `json:"bytes"` // the bound
	Evicted uint64 `json:"evicted"`
	TooBig  uint64 `json:"too_big"`
	Purged  uint64 `json:"purged"`
}

// A Server is one of an upstream.
type Server struct {
	Upstream string `json:"upstream"`
	URL      string `json:"url"`
	Healthy  bool   `json:"healthy"`
	Ejected  bool   `json:"ejected"`
	InFlight int    `json:"in_flight"`
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`
}

// A Tier is the fleet's engine, as this instance sees it.
type Tier struct {
	Open        bool   `json:"open"` // the breaker: this instance goes alone
	Acquires    uint64 `json:"acquires"`
	Fresh       uint64 `json:"fresh"`
	Granted     uint64 `json:"granted"` // leases
	Held        uint64 `json:"held"`    // found another's
	Cooling     uint64 `json:"cooling"`
	Settled     uint64 `json:"settled"`
	Refused     uint64 `json:"refused"`
	Extended    uint64 `json:"extended"`
	LostLeases  uint64 `json:"lost_leases"`
	Unavailable uint64 `json:"unavailable"`
	Waits       uint64 `json:"waits"`
	Pushes      uint64 `json:"pushes"`
	Resets      uint64 `json:"resets"`

	// Invalidations that the store has not acknowledged: now, and how many there have
	// been. Blocked: nothing of the store is used until it has.
	Pending int    `json:"pending,omitempty"`
	Blocked bool   `json:"blocked,omitempty"`
	Queued  uint64 `json:"queued,omitempty"`
}

// A Queue is one of jobs. Ages are of the oldest.
type Queue struct {
	Name    string        `json:"name"`
	Waiting int           `json:"waiting"`
	Running int           `json:"running"`
	Dead    int           `json:"dead"`
	Age     time.Duration `json:"age_ns"` // of the oldest that waits
	Done    uint64        `json:"done"`   // by this instance, since its start
	Failed  uint64        `json:"failed"`

	// Orphan is there if the queue has jobs and belongs to no route.
	Orphan *Orphan `json:"orphan,omitempty"`
}

// An Orphan is what is in a queue that belongs to no route.
type Orphan struct {
	Queued   int    `json:"queued"`
	Started  int    `json:"started"`
	Dead     int    `json:"dead"`
	Finished int    `json:"finished"`
	Setting  string `json:"setting"` // by which a route takes it over
}

// A Process is the program.
type Process struct {
	Version    string    `json:"version,omitempty"`
	Go         string    `json:"go"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	State      string    `json:"state"` // "ready", or why not
	Goroutines int       `json:"goroutines"`
	Memory     uint64    `json:"memory"` // bytes of the heap in use
}

// A Detail is more about a unit.
type Detail struct {
	Unit    Unit             `json:"unit"`
	Limit   *Limit           `json:"limit,omitempty"`
	Entries *inspect.Entries `json:"entries,omitempty"` // by state
	Flights []Flight         `json:"flights"`
}

// A Flight is an inspect.Flight whose key is text: the key itself, or, unless
// Options.ShowKeys, a short digest of it under a secret of this process.
type Flight struct {
	Name string `json:"key"`
	inspect.Flight
}

// Hot are hot keys as they are shown.
type Hot struct {
	Enabled bool `json:"enabled"`
	inspect.HotKeys
	ByTraffic  []HotKey `json:"by_traffic"`
	ByLoadTime []HotKey `json:"by_load_time"`
}

// A HotKey is one as it is shown; its name is as that of a Flight.
type HotKey struct {
	Name   string  `json:"key"`
	Rate   float64 `json:"rate"`
	Excess float64 `json:"excess"`
	Share  float64 `json:"share"` // of all, from 0 to 1
}

// A Fleet is who belongs to it.
type Fleet struct {
	Self      string           `json:"self"` // the ID of this instance
	Tier      *Tier            `json:"tier,omitempty"`
	Instances []fleet.Instance `json:"instances"`
	Error     string           `json:"error,omitempty"` // why they are not known
}

// A Hello is the first event.
type Hello struct {
	Title    string            `json:"title"`
	Interval time.Duration     `json:"interval_ns"`
	History  time.Duration     `json:"history_ns"`
	Features Features          `json:"features"`
	Snapshot Snapshot          `json:"snapshot"`
	Total    Series            `json:"total"`  // of all units together
	Units    map[string]Series `json:"units"`  // by name
	Limits   map[string]Series `json:"limits"` // by name
}

// Features are which pages there are.
type Features struct {
	Login   bool `json:"login"` // who asks came in by a login, so there is a logout
	Keys    bool `json:"keys"`  // keys are shown
	Hot     bool `json:"hot"`
	Fleet   bool `json:"fleet"`
	Jobs    bool `json:"jobs"`
	Explain bool `json:"explain"`
	Purge   bool `json:"purge"`
	// Routes says that purge and explain are a gateway's: they want URLs.
	Routes bool `json:"routes"`
}

// A Tick is what each second brings: how things stand, and the next point of each
// series. A unit or a limit that is new begins its series.
type Tick struct {
	Snapshot Snapshot         `json:"snapshot"`
	Total    Point            `json:"total"`
	Units    map[string]Point `json:"units"`
	Limits   map[string]Point `json:"limits"`
}

// A Point is a second of a unit or a limit, by the names of Series; "t" is its
// time, in Unix seconds. What is not known is NaN, which is null in JSON.
type Point map[string]float64

// A Series is the last points, oldest first, a column for each name. The columns
// of units:
//
//	t                                     Unix time in seconds
//	requests hits stale negative failures joined validated fleet
//	calls refreshes failed refused stale_on_error     each per second
//	request_p50 request_p99 wait_p50 wait_p99 call_p50 call_p99    in seconds, null where nothing was timed
//	flights running waiting stuck entries             as they stood
//
// and of limits: t limit in_use queued latency baseline held, times in seconds.
//
// What is counted per second is not known, and null, in the first point of a unit,
// and where its counts have gone down, as they do when it was made anew.
type Series map[string]Column

// A Column is the values of a Series of one name. NaN and the infinities, which
// JSON does not have, are null there; null is NaN.
type Column []float64
