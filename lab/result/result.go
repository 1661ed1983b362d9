// Package result is what a run of the lab has to tell, for programs: one JSON
// object a line, in the order in which things were measured, so that a run
// that was cut short still says what it knows.
//
// The first line is the run's [Head], each further one a scenario. Units stand
// in the JSON names.
package result

import "time"

// A Run is what one call of the lab has measured.
type Run struct {
	Head      Head
	Scenarios []Scenario
}

// A Head says where and of what a run was made.
type Head struct {
	StartedAt time.Time `json:"started_at"` // UTC
	Commit    string    `json:"commit"`     // short, with -dirty if files were changed
	Size      Size      `json:"size"`
	Machine   Machine   `json:"machine"`
	Notes     []string  `json:"notes,omitempty"` // what the machine did not allow, and the like
}

// A Size is how much a run asks for.
type Size string

const (
	Full  Size = "full"  // what was published, or enough to judge by
	Small Size = "small" // enough to see that it works; nothing that needs time is judged
)

// A Machine is where a run was made.
type Machine struct {
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu"` // the model
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

// A Scenario is what came of one.
type Scenario struct {
	Name         string        `json:"name"`
	Title        string        `json:"title"`
	Asks         string        `json:"asks"`                // the question, in a sentence or two
	Published    *Published    `json:"published,omitempty"` // nil: it repeats nobody's experiment
	Measurements []Measurement `json:"measurements"`
	Rows         []Row         `json:"rows,omitempty"`
	Tables       []Table       `json:"tables,omitempty"`
	Checks       []Check       `json:"checks"`
	Notes        []string      `json:"notes,omitempty"`
	Axis         string        `json:"axis,omitempty"` // what Measurement.X is, with its unit
	ElapsedS     float64       `json:"elapsed_s"`
	Error        string        `json:"error,omitempty"` // why it was not run to its end
}

// Held reports whether the scenario was run and all of its checks hold.
func (s *Scenario) Held() bool {
	for _, c := range s.Checks {
		if !c.Holds {
			return false
		}
	}
	return s.Error == ""
}

// Published is the experiment that a scenario repeats.
type Published struct {
	Title           string   `json:"title"`
	URL             string   `json:"url,omitempty"`
	Setup           string   `json:"setup"`                     // what was done, in our words
	FromSource      []string `json:"from_source,omitempty"`     // what is not in the text but in its authors' code
	Inconsistencies []string `json:"inconsistencies,omitempty"` // where the text contradicts itself
	Flaws           []string `json:"flaws,omitempty"`           // of the set-up, which the scenario shows and repairs
}

// A Measurement is one variant under one load, once.
type Measurement struct {
	Variant string  `json:"variant"`           // "unprotected", "weir", ...
	Setting string  `json:"setting,omitempty"` // what else it was measured with: "12 connections"
	X       float64 `json:"x,omitempty"`       // the setting as a number, where it is one; see Scenario.Axis
	Round   int     `json:"round,omitempty"`   // from 1, of repeats by turns; 0: it was measured once
	Load    string  `json:"load"`              // in words

	Requests     int64         `json:"requests"`
	Good         int64         `json:"good"`
	Failures     int64         `json:"failures"`
	FirstFailure string        `json:"first_failure,omitempty"`
	Statuses     map[int]int64 `json:"statuses,omitempty"` // HTTP status to answers; 0: no answer
	Seconds      float64       `json:"seconds"`
	PerSecond    float64       `json:"good_per_s"`

	Latency *Latency `json:"latency,omitempty"` // of good answers
	Source  *Source  `json:"source,omitempty"`
	Series  []Series `json:"series,omitempty"`
	CPU     *CPU     `json:"cpu,omitempty"`

	Values map[string]float64 `json:"values,omitempty"` // what only this scenario measures
}

// A Latency is a distribution of latencies, in milliseconds, three significant
// digits but for the slowest, which is exact.
type Latency struct {
	P50          float64 `json:"p50_ms"`
	P90          float64 `json:"p90_ms"`
	P99          float64 `json:"p99_ms"`
	P999         float64 `json:"p999_ms"`
	Slowest      float64 `json:"slowest_ms"`
	Mean         float64 `json:"mean_ms"`
	Distribution []Point `json:"distribution,omitempty"` // ascending
}

// A Point is a step of a distribution: that share of the answers took no
// longer.
type Point struct {
	MS    float64 `json:"ms"`
	Share float64 `json:"share"` // 0 to 1
}

// A Source is what the source of the expensive calls has seen.
type Source struct {
	Calls     int64   `json:"calls"`
	Most      int     `json:"most_at_once"`
	LongestMS float64 `json:"longest_ms"`
	MeanMS    float64 `json:"mean_ms"`
}

// Names of series that several scenarios have.
const (
	CallsAtSource = "calls at the source"
	QueueDepth    = "queue depth"
	GoodAnswers   = "good answers"
)

// A Series is something over time, from the start of the load on.
type Series struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"` // "calls/s", "callers", ...
	EveryMS float64   `json:"every_ms"`
	Values  []float64 `json:"values"` // one for each interval
}

// A CPU is what was used of the machine while a load ran: CPU time by elapsed
// time, so that 1 is one processor's whole.
type CPU struct {
	Generator float64 `json:"generator"`
	Service   float64 `json:"service"`
	Engines   float64 `json:"engines"`
	Pinned    bool    `json:"pinned"` // the generator has processors of its own
}

// A Better says which of two numbers one would rather have.
type Better string

const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// A Row is a figure beside the same figure as it was published. What was not
// published or not measured is nil.
type Row struct {
	What   string `json:"what"`
	Unit   string `json:"unit"` // "s", "ms", "requests/s", "calls", ...
	Better Better `json:"better"`

	PublishedBefore *float64 `json:"published_before"` // unprotected
	PublishedAfter  *float64 `json:"published_after"`  // with the pattern
	Before          *float64 `json:"before"`           // here, unprotected
	After           *float64 `json:"after"`            // here, weir
	Ceiling         *float64 `json:"ceiling"`          // here, the same server answering a constant
	FromSource      bool     `json:"from_source,omitempty"`
	Note            string   `json:"note,omitempty"`
}

// NewRow returns a row without figures.
func NewRow(what, unit string, better Better) Row { return Row{What: what, Unit: unit, Better: better} }

// Published returns r with the published figures.
func (r Row) Published(before, after float64) Row {
	r.PublishedBefore, r.PublishedAfter = &before, &after
	return r
}

// Here returns r with what was measured here.
func (r Row) Here(before, after float64) Row {
	r.Before, r.After = &before, &after
	return r
}

// Under returns r with the ceiling of this machine.
func (r Row) Under(ceiling float64) Row {
	r.Ceiling = &ceiling
	return r
}

// Noted returns r with a note.
func (r Row) Noted(note string) Row {
	r.Note = note
	return r
}

// PublishedRatio is how many times better the published figure became with the
// pattern, 0 if that is not known. A ratio above 1 is always an improvement.
func (r Row) PublishedRatio() float64 { return r.ratio(r.PublishedBefore, r.PublishedAfter) }

// Ratio is the same for what was measured here.
func (r Row) Ratio() float64 { return r.ratio(r.Before, r.After) }

func (r Row) ratio(before, after *float64) float64 {
	if before == nil || after == nil {
		return 0
	}
	num, den := *after, *before
	if r.Better == Lower {
		num, den = den, num
	}
	if den == 0 {
		return 0
	}
	return num / den
}

// A Table is something that a scenario tells in words and numbers of its own.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Cells [][]string `json:"cells"` // a column of nothing but numbers is set to the right
}

// A Check is something that must hold.
type Check struct {
	What   string `json:"what"`
	Holds  bool   `json:"holds"`
	Detail string `json:"detail"` // what was found
}
