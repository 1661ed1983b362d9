// Package result is the machine-readable format of the lab's results: one JSON object
// per line, in the order of measurement, so that a run that was cut short keeps its
// results so far.
//
// The first line is the run's [Head], each further one a scenario. The JSON names
// contain the units.
package result

import "time"

// A Run holds the results of one run of the lab.
type Run struct {
	Head      Head
	Scenarios []Scenario
}

// A Head describes the machine and the commit of a run.
type Head struct {
	StartedAt time.Time `json:"started_at"` // UTC
	Commit    string    `json:"commit"`     // short, with -dirty if files were changed
	Size      Size      `json:"size"`
	Machine   Machine   `json:"machine"`
	Notes     []string  `json:"notes,omitempty"` // for example restrictions of the machine
}

// A Size is the size of a run.
type Size string

const (
	Full  Size = "full"  // as published, or enough to judge
	Small Size = "small" // enough to see that it works; times are not judged
)

// A Machine describes the machine of a run.
type Machine struct {
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu"` // the model
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

// A Scenario is the result of a scenario.
type Scenario struct {
	Name         string        `json:"name"`
	Title        string        `json:"title"`
	Asks         string        `json:"asks"`                // the question, in a sentence or two
	Published    *Published    `json:"published,omitempty"` // nil: it does not repeat a published experiment
	Measurements []Measurement `json:"measurements"`
	Rows         []Row         `json:"rows,omitempty"`
	Tables       []Table       `json:"tables,omitempty"`
	Checks       []Check       `json:"checks"`
	Notes        []string      `json:"notes,omitempty"`
	Axis         string        `json:"axis,omitempty"` // description of Measurement.X, with its unit

	// Engines has the versions of the engines and tools of this run, by name. It is nil
	// in results of before they were recorded.
	Engines map[string]string `json:"engines"`

	ElapsedS float64 `json:"elapsed_s"`
	Error    string  `json:"error,omitempty"` // why it did not finish
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
	Setup           string   `json:"setup"`                     // the set-up, in our words
	FromSource      []string `json:"from_source,omitempty"`     // details that are only in the authors' code
	Inconsistencies []string `json:"inconsistencies,omitempty"` // contradictions in the text
	Flaws           []string `json:"flaws,omitempty"`           // flaws of the set-up, which the scenario shows and repairs
}

// A Measurement is one variant under one load, once.
type Measurement struct {
	Variant string  `json:"variant"`           // "unprotected", "weir", ...
	Setting string  `json:"setting,omitempty"` // other conditions: "12 connections"
	X       float64 `json:"x,omitempty"`       // the setting as a number, if it is one; see Scenario.Axis
	Round   int     `json:"round,omitempty"`   // from 1, for alternating repeats; 0: measured once
	Load    string  `json:"load"`              // in words

	Requests     int64         `json:"requests"`
	Good         int64         `json:"good"`
	Failures     int64         `json:"failures"`
	FirstFailure string        `json:"first_failure,omitempty"`
	Statuses     map[int]int64 `json:"statuses,omitempty"` // HTTP status to number of answers; 0: no response
	Seconds      float64       `json:"seconds"`
	PerSecond    float64       `json:"good_per_s"`

	Latency *Latency `json:"latency,omitempty"` // of successful responses
	Source  *Source  `json:"source,omitempty"`
	Series  []Series `json:"series,omitempty"`
	CPU     *CPU     `json:"cpu,omitempty"`

	Values map[string]float64 `json:"values,omitempty"` // values that only this scenario measures
}

// A Latency is a distribution of latencies, in milliseconds, with three significant
// digits except for the slowest, which is exact.
type Latency struct {
	P50          float64 `json:"p50_ms"`
	P90          float64 `json:"p90_ms"`
	P99          float64 `json:"p99_ms"`
	P999         float64 `json:"p999_ms"`
	Slowest      float64 `json:"slowest_ms"`
	Mean         float64 `json:"mean_ms"`
	Distribution []Point `json:"distribution,omitempty"` // ascending
}

// A Point is a step of a distribution: Share of the answers took at most MS.
type Point struct {
	MS    float64 `json:"ms"`
	Share float64 `json:"share"` // 0 to 1
}

// A Source has the counts of the source of the expensive calls.
type Source struct {
	Calls     int64   `json:"calls"`
	Most      int     `json:"most_at_once"`
	LongestMS float64 `json:"longest_ms"`
	MeanMS    float64 `json:"mean_ms"`
}

// Names of series that several scenarios have.
const (
	CallsAtSource = "calls to the source"
	QueueDepth    = "queue depth"
	GoodAnswers   = "successful responses"
)

// A Series is a value over time, from the start of the load.
type Series struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"` // "calls/s", "callers", ...
	EveryMS float64   `json:"every_ms"`
	Values  []float64 `json:"values"` // one for each interval
}

// A CPU is the CPU use during a load: CPU time divided by elapsed time, so 1 is one
// whole processor.
type CPU struct {
	Generator float64 `json:"generator"`
	Service   float64 `json:"service"`
	Engines   float64 `json:"engines"`
	Pinned    bool    `json:"pinned"` // the generator has dedicated processors
}

// A Better says which of two numbers is better.
type Better string

const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// A Row is a figure with its published counterpart. Figures that were not published
// or not measured are nil.
type Row struct {
	What   string `json:"what"`
	Unit   string `json:"unit"` // "s", "ms", "requests/s", "calls", ...
	Better Better `json:"better"`

	PublishedBefore *float64 `json:"published_before"` // unprotected
	PublishedAfter  *float64 `json:"published_after"`  // with the pattern
	Before          *float64 `json:"before"`           // here, unprotected
	After           *float64 `json:"after"`            // here, weir
	Ceiling         *float64 `json:"ceiling"`          // here, the same server with a constant response
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

// Here returns r with the figures measured here.
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

// PublishedRatio returns how many times better the published figure is with the
// pattern, 0 if unknown. A ratio above 1 is always an improvement.
func (r Row) PublishedRatio() float64 { return r.ratio(r.PublishedBefore, r.PublishedAfter) }

// Ratio is the same for the figures measured here.
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

// A Table is a table that a scenario defines itself.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Cells [][]string `json:"cells"` // columns that contain only numbers are right-aligned
}

// A Check is a requirement and whether it holds.
type Check struct {
	What   string `json:"what"`
	Holds  bool   `json:"holds"`
	Detail string `json:"detail"` // details of the result
}
