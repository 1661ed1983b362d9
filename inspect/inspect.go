package inspect

import "time"

// A Flight is a load or a call that is running or about to run.
type Flight struct {
	Key        any           `json:"-"`                    // the key, or the first of several
	Keys       int           `json:"keys"`                 // number of keys
	State      FlightState   `json:"state"`                // what it waits for, or that it runs
	Age        time.Duration `json:"age_ns"`               // time since it was created
	Joiners    int           `json:"joiners"`              // callers that wait for it now
	Background bool          `json:"background,omitempty"` // a refresh, for which no caller waits
}

// A FlightState is the current state of a Flight.
type FlightState string

// The states of a flight.
const (
	FlightAsking    FlightState = "asking"    // waits for a reply from the fleet
	FlightQueued    FlightState = "queued"    // waits for admission
	FlightRunning   FlightState = "running"   // waits for the source
	FlightStreaming FlightState = "streaming" // the response headers have arrived, the body is arriving
	FlightStuck     FlightState = "stuck"     // timed out or canceled, but its function has not returned
)

// Entries are the numbers of entries in a memory by state. Each entry is in exactly one
// state. The entries are counted one after another, while the memory is in use.
type Entries struct {
	Fresh      int `json:"fresh"`       // served, possibly during a refresh
	RefreshDue int `json:"refresh_due"` // fresh, and the next hit starts a refresh, or may start one
	Stale      int `json:"stale"`       // served at once, within stale-while-revalidate
	OnError    int `json:"on_error"`    // served only if a load fails, within stale-if-error
	Negative   int `json:"negative"`    // the source has no value for the key
	Failing    int `json:"failing"`     // a stored failure is returned instead of a load
	Dead       int `json:"dead"`        // too old to be served, not yet evicted
}

// HotKeys are the busiest keys, each list in descending order.
type HotKeys struct {
	// Window is the approximate time over which calls are counted: older calls count
	// less and less, half after a minute. Zero means that hot keys are off.
	Window time.Duration `json:"window_ns"`
	// Requests and LoadTime are totals over all keys: calls per second, and seconds
	// of loads per second.
	Requests float64 `json:"requests_per_s"`
	LoadTime float64 `json:"load_s_per_s"`

	ByTraffic  []HotKey `json:"by_traffic"`   // Rate is in calls per second
	ByLoadTime []HotKey `json:"by_load_time"` // Rate is in seconds of loads per second
}

// A HotKey is one entry of HotKeys.
type HotKey struct {
	Key  any     `json:"-"`    // the key itself
	Rate float64 `json:"rate"` // calls per second
	// Excess is the most by which Rate can be too high, because there are fewer
	// counters than keys. Apart from sampling, Rate is never too low.
	Excess float64 `json:"excess"`
}
