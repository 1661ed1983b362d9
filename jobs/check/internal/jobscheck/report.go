package jobscheck

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A Report is the result of a Run.
type Report struct {
	Mode       Mode            `json:"mode"`
	Durability jobs.Durability `json:"durability"`
	Seed       uint64          `json:"seed"`
	For        time.Duration   `json:"for_ns"`

	Names    int `json:"names"`    // job names
	Accepted int `json:"accepted"` // Submits that began a job
	Joined   int `json:"joined"`
	Refused  int `json:"refused"`
	Unknown  int `json:"unknown"` // Submits without an acknowledgement
	Cancels  int `json:"cancels"` // acknowledged
	Waits    int `json:"waits"`   // that returned

	Attempts int            `json:"attempts"`
	Cut      int            `json:"cut"`      // attempts whose process was killed
	Overlaps int            `json:"overlaps"` // pairs of attempts, allowed or not
	States   map[string]int `json:"states"`   // final states
	Faults   map[string]int `json:"faults"`

	// RestartMedian and RestartMost say how long the jobs of killed workers waited
	// for their next attempt.
	RestartMedian time.Duration `json:"restart_median_ns"`
	RestartMost   time.Duration `json:"restart_most_ns"`
	Settled       time.Duration `json:"settled_ns"` // from the last fault until all jobs were over

	Violations []Violation `json:"violations"`
}

// A Violation is one broken rule.
type Violation struct {
	Rule    string   `json:"rule"`
	Job     string   `json:"job,omitempty"`
	IDs     []string `json:"ids,omitempty"`
	Text    string   `json:"text"`
	History []string `json:"history,omitempty"`
}

// report summarizes the history.
func (h *history) report(faults map[string]int, settled time.Duration) *Report {
	r := &Report{
		Mode: h.o.Mode, Durability: h.o.Durability, Seed: h.o.Seed, For: h.o.For, Names: len(h.jobs),
		States: map[string]int{}, Faults: faults, Settled: settled, Violations: h.broken,
	}
	for _, j := range h.jobs {
		r.count(j)
	}
	for s, n := range h.states() {
		r.States[s.String()] = n
	}
	if d := h.restarts(); len(d) > 0 {
		r.RestartMedian, r.RestartMost = d[len(d)/2], d[len(d)-1]
	}
	return r
}

func (r *Report) count(j *job) {
	for _, s := range j.submits {
		switch {
		case s.begins():
			r.Accepted++
		case s.joined:
			r.Joined++
		case s.err == full:
			r.Refused++
		case s.err == unknown:
			r.Unknown++
		}
	}
	for _, c := range j.cancels {
		if c.Err == "" {
			r.Cancels++
		}
	}
	for _, w := range j.waits {
		if w.Err != unknown {
			r.Waits++
		}
	}
	r.Attempts += len(j.attempts)
	for i, a := range j.attempts {
		if a.end == nil {
			r.Cut++
		}
		for _, b := range j.attempts[i+1:] {
			if b.At < a.over() {
				r.Overlaps++
			}
		}
	}
}

// Print writes a table, and the histories of most violations.
func (r *Report) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("mode", "%s, durability %s, seed %d, %v of faults", r.Mode, r.Durability, r.Seed, r.For)
	row("submits", "%d accepted, %d joined, %d refused, %d unknown", r.Accepted, r.Joined, r.Refused, r.Unknown)
	row("jobs", "%d names: %s", r.Names, counts(r.States))
	row("attempts", "%d, of which %d were cut off; %d pairs overlapped", r.Attempts, r.Cut, r.Overlaps)
	row("cancels, waits", "%d acknowledged, %d answered", r.Cancels, r.Waits)
	row("faults", "%s", counts(r.Faults))
	row("after a kill", "next attempt after %v at the median, %v at most", r.RestartMedian.Round(time.Millisecond), r.RestartMost.Round(time.Millisecond))
	row("settled", "%v after the last fault", r.Settled.Round(time.Millisecond))
	row("broken rules", "%d", len(r.Violations))
	t.Flush()
	const most = 20
	for i, v := range r.Violations {
		if i == most {
			fmt.Fprintf(w, "\nand %d more\n", len(r.Violations)-most)
			return
		}
		fmt.Fprintf(w, "\n%s: %s: %s\n  %s\n", v.Rule, v.Job, v.Text, strings.Join(v.History, "\n  "))
	}
}

func counts(n map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[name], name))
	}
	return strings.Join(parts, ", ")
}
