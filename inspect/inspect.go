package inspect

import "time"

// A Flight is a load, or a call, that runs or is about to.
type Flight struct {
	Key        any           `json:"-"`    // the key, of several the first
	Keys       int           `json:"keys"` // how many it is for
	State      FlightState   `json:"state"`
	Age        time.Duration `json:"age_ns"`  // since it came into being
	Joiners    int           `json:"joiners"` // who wait for it now
	Background bool          `json:"background,omitempty"`
}

// A FlightState says what a Flight does.
type FlightState string

// The states of a flight.
const (
	FlightAsking    FlightState = "asking"    // it asks the fleet
	FlightQueued    FlightState = "queued"    // it waits for admission
	FlightRunning   FlightState = "running"   // the source works
	FlightStreaming FlightState = "streaming" // the answer's head is there, its body comes
	FlightStuck     FlightState = "stuck"     // given up, but its function has not returned
)

// Entries are how many entries of a memory are in which state, counted one after
// another while it is used. Each is in one.
type Entries struct {
	Fresh      int `json:"fresh"`       // served, or being refreshed
	RefreshDue int `json:"refresh_due"` // fresh, and the next hit refreshes, or draws whether it does
	Stale      int `json:"stale"`       // served at once, within stale-while-revalidate
	OnError    int `json:"on_error"`    // served only where a load fails, within stale-if-error
	Negative   int `json:"negative"`    // what the source does not have
	Failing    int `json:"failing"`     // with a remembered failure in place of loads
	Dead       int `json:"dead"`        // too old for anything, not yet evicted
}

// HotKeys are the busiest keys, each list beginning with the most.
type HotKeys struct {
	// Window is over which time the counts are taken, about: older calls count
	// less and less, after a minute half. Zero means that hot keys are off.
	Window time.Duration `json:"window_ns"`
	// Requests and LoadTime are of all keys together: calls per second, and seconds
	// of loads per second.
	Requests float64 `json:"requests_per_s"`
	LoadTime float64 `json:"load_s_per_s"`

	ByTraffic  []HotKey `json:"by_traffic"`   // Rate is in calls per second
	ByLoadTime []HotKey `json:"by_load_time"` // Rate is in seconds of loads per second
}

// A HotKey is one of them.
type HotKey struct {
	Key  any     `json:"-"`
	Rate float64 `json:"rate"`
	// Excess is by how much Rate may be too high at most, because counters are
	// fewer than keys. It is never too low but for sampling.
	Excess float64 `json:"excess"`
}
