package soak

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/lab/report/chart"
)

// A Report is the result of a soak.
type Report struct {
	Seed     uint64              `json:"seed"`
	Jobs     string              `json:"jobs"` // where they were kept
	Seconds  float64             `json:"seconds"`
	CPUs     int                 `json:"cpus"`
	Requests []Requests          `json:"requests"`
	Shed     int                 `json:"shed"` // not sent because too many were in flight
	Accepted int                 `json:"jobs_accepted"`
	Purges   int64               `json:"responses_checked_for_age"`
	Oldest   float64             `json:"oldest_after_a_purge_seconds"`
	Found    map[string]int      `json:"found"` // each of mishapKinds
	First    map[string][]string `json:"first,omitempty"`
	Faults   map[string]int      `json:"faults"`
	NotRun   map[string]string   `json:"faults_not_possible,omitempty"` // and why
	Trends   []Trend             `json:"trends"`                        // of the first gateway
	Samples  []sample            `json:"samples"`
}

// Requests counts the requests of a kind.
type Requests struct {
	Kind      string `json:"kind"`
	Sent      int    `json:"sent"`
	Good      int    `json:"good"`
	Explained int    `json:"explained"` // errors that a fault explains
}

// Clean reports whether there were no mishaps and no rising trends.
func (r *Report) Clean() bool {
	for _, n := range r.Found {
		if n > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(r.Trends, func(t Trend) bool { return t.Rises })
}

func (s *soak) report(length time.Duration) *Report {
	r := &Report{
		Seed: s.o.Seed, Jobs: "on each gateway's disk", Seconds: length.Seconds(), CPUs: runtime.NumCPU(), Shed: s.shed,
		Found: make(map[string]int), First: make(map[string][]string), Faults: s.ledger.faults(),
	}
	if s.o.Cluster {
		r.Jobs = "by three NATS servers"
	}
	_, r.NotRun = s.possible()
	v := s.ledger.check.Verdict()
	r.Purges, r.Oldest = v.Answers, v.Oldest.Seconds()
	for _, kind := range s.ledger.kinds() {
		c := s.ledger.ops[kind]
		r.Requests = append(r.Requests, Requests{kind, c.Sent, c.Good, c.Explained})
	}
	for _, kind := range mishapKinds {
		r.Found[kind] = s.ledger.counts[kind]
		for _, m := range s.ledger.told[kind] {
			text := m.What
			if !m.At.IsZero() {
				text = fmt.Sprintf("%.1fs: %s", m.At.Sub(s.began).Seconds(), text)
			}
			r.First[kind] = append(r.First[kind], text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Accepted = len(s.jobs)
	r.Samples = s.samples
	r.Trends = trends(s.samples, min(length, s.o.For))
	return r
}

// Table writes the report as text.
func (r *Report) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "Seed %d, %s, jobs %s, %d processors\n\n", r.Seed, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), r.Jobs, r.CPUs)
	fmt.Fprintln(tw, "Requests\tsent\tgood\terrors that a fault explains")
	total := Requests{Kind: "all"}
	for _, q := range r.Requests {
		if q.Sent == 0 {
			continue // not part of the load, like polls of jobs
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\n", q.Kind, q.Sent, q.Good, q.Explained)
		total.Sent, total.Good, total.Explained = total.Sent+q.Sent, total.Good+q.Good, total.Explained+q.Explained
	}
	fmt.Fprintf(tw, "%s\t%d\t%d\t%d\n", total.Kind, total.Sent, total.Good, total.Explained)
	fmt.Fprintf(tw, "\nFound\tnumber\n")
	for _, kind := range mishapKinds {
		fmt.Fprintf(tw, "%s\t%d\n", kind, r.Found[kind])
	}
	fmt.Fprintf(tw, "\nJobs accepted\t%d\n", r.Accepted)
	fmt.Fprintf(tw, "Responses checked for age\t%d\n", r.Purges)
	fmt.Fprintf(tw, "Oldest after an acknowledged purge\t%.2f s\n", r.Oldest)
	fmt.Fprintf(tw, "\nFaults\tnumber\n")
	for _, f := range faults {
		if n := r.Faults[f.kind]; n > 0 {
			fmt.Fprintf(tw, "%s\t%d\n", f.kind, n)
		} else if why := r.NotRun[f.kind]; why != "" {
			fmt.Fprintf(tw, "%s\tNOT RUN: %s\n", f.kind, why)
		}
	}
	fmt.Fprintf(tw, "\nThe first gateway, last two thirds\tmean\tslope per hour\t95 %% interval\trises\n")
	for _, t := range r.Trends {
		if !t.Measured {
			fmt.Fprintf(tw, "%s\ttoo short to tell\n", t.What)
			continue
		}
		fmt.Fprintf(tw, "%s\t%.1f\t%+.2f\t%+.2f to %+.2f\t%s\n", t.What, t.Mean, t.Slope, t.Low, t.High, map[bool]string{true: "YES", false: "no"}[t.Rises])
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, kind := range mishapKinds {
		for i, text := range r.First[kind] {
			if i == 0 {
				fmt.Fprintf(w, "\n%s, the first:\n", strings.ToUpper(kind[:1])+kind[1:])
			}
			if _, err := fmt.Fprintln(w, "  "+text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Chart draws memory, goroutines and file descriptors of all gateways.
func (r *Report) Chart() []byte {
	p := chart.Picture{Title: fmt.Sprintf("Seed %d, jobs %s: three gateways under load and faults", r.Seed, r.Jobs)}
	names := []string{"weir 0, never killed", "weir 1", "weir 2"}
	colors := chart.NewPalette([][]string{names})
	for _, what := range []struct {
		title string
		of    func(sample) float64
	}{
		{"Memory, MiB", func(s sample) float64 { return s.MemoryMiB }},
		{"Live heap, MiB", func(s sample) float64 { return s.HeapMiB }},
		{"Goroutines", func(s sample) float64 { return s.Goroutines }},
		{"File descriptors", func(s sample) float64 { return s.Files }},
	} {
		l := chart.Lines{Title: what.title, X: chart.Axis{Title: "minutes"}, Y: chart.Axis{Title: what.title}}
		for i, name := range names {
			line := chart.Line{Name: name, Class: colors.Of(name)}
			for _, one := range r.Samples {
				if one.Gateway == i {
					line.Points = append(line.Points, chart.Point{X: one.Second / 60, Y: what.of(one)})
				}
			}
			l.Lines = append(l.Lines, line)
		}
		if p.Legend == nil {
			p.Legend = chart.Keys([]chart.Lines{l})
		}
		p.Panels = append(p.Panels, chart.Panel{Title: what.title, Chart: l})
	}
	return p.SVG()
}
