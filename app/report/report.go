// Package report formats the results of the demo: as a JSON object for programs, and as a
// table with bars for people.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/weir-go/weir/plain"
)

// A Report is one run of all levels. Units are in the JSON names.
type Report struct {
	Source    string    `json:"source"`         // "tile" or "postgres"
	Work      string    `json:"work"`           // what one call does, in words
	CallMS    float64   `json:"call_ms"`        // mean time of a call during preparation, with one call per CPU
	Gateway   bool      `json:"gateway"`        // protected from outside, by a gateway in front of the service
	Clients   int       `json:"clients"`        // each sends its next request after the last response
	Keys      int       `json:"keys"`           // different responses
	Skew      float64   `json:"skew"`           // exponent of the Zipf law of the requested keys
	Rows      int       `json:"rows,omitempty"` // in the PostgreSQL table
	LevelS    float64   `json:"level_s"`        // how long a level sends requests
	TTLS      float64   `json:"ttl_s"`          // how long the levels with a cache keep a response
	Seed      uint64    `json:"seed"`           // of the order of keys
	StartedAt time.Time `json:"started_at"`     // UTC
	Machine   Machine   `json:"machine"`        // where it ran
	Levels    []Level   `json:"levels"`         // in the order of the run
}

// A Machine describes the machine of the measurements.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Go         string `json:"go"`
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	return Machine{
		OS:         runtime.GOOS,
		Arch:       runtime.GOARCH,
		CPUs:       runtime.NumCPU(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Go:         runtime.Version(),
	}
}

// A Level holds the measurements of one level of protection. Times and requests per second
// cover successful responses only.
type Level struct {
	Name         string  `json:"name"`
	Adds         string  `json:"adds"`                    // what it adds to the previous level
	Requests     int64   `json:"requests"`                // all that were sent
	PerSecond    float64 `json:"responses_per_s"`         // successful responses per second
	P50MS        float64 `json:"p50_ms"`                  // three significant digits
	P99MS        float64 `json:"p99_ms"`                  // three significant digits
	SlowestMS    float64 `json:"slowest_ms"`              // exact
	Failures     int64   `json:"failures"`                // requests without a successful response
	FirstFailure string  `json:"first_failure,omitempty"` // why the first of them failed
	Calls        int64   `json:"upstream_calls"`          // calls to the source
	Peak         int     `json:"peak_concurrency"`        // most concurrent calls to the source
	Ratio        float64 `json:"ratio"`                   // PerSecond relative to the first level; 0 if that had none
	ElapsedS     float64 `json:"elapsed_s"`               // until the last response
}

// SetRatios sets every level's Ratio from the levels' PerSecond.
func (r *Report) SetRatios() {
	for i := range r.Levels {
		if first := r.Levels[0].PerSecond; first > 0 {
			r.Levels[i].Ratio = r.Levels[i].PerSecond / first
		}
	}
}

// RenewS returns how many seconds the source takes to compute the responses of all keys.
// The levels with a cache only show their effect if that is well below TTLS.
func (r *Report) RenewS() float64 {
	return r.CallMS / 1000 * float64(r.Keys) / float64(max(1, r.Machine.GOMAXPROCS))
}

// JSON writes r as one object and a newline.
func (r *Report) JSON(w io.Writer) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	err := enc.Encode(r)
	if err == nil {
		_, err = w.Write(plain.JSON(b.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("report: write JSON: %w", err)
	}
	return nil
}
