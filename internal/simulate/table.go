package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Table writes the reports of several gates in one scenario, with a row for each gate
// in each phase, under the name of the phase. A scenario without phases has one
// phase, the whole run. Ratios are relative to the first report, which should be the
// ideal gate's.
//
// Rates are in calls per second, and times are virtual. "capacity" and "rate"
// describe the source, in calls at once and in calls per second. "of ideal" applies
// to goodput and to the 99th percentile as seen by the caller. "settled" is in mean
// service times; see [Settled].
func Table(w io.Writer, reports ...Report) error {
	if len(reports) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "%s\n", reports[0].Scenario); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range max(1, len(reports[0].Phases)) {
		first := reports[0].at(i)
		fmt.Fprintln(tw, left(first.Name)+header)
		for _, r := range reports {
			row(tw, left(r.Gate), r.at(i), first)
		}
	}
	return tw.Flush()
}

const header = "\toffered\tpossible\tgoodput\tof ideal\trefused\ttimed out\tp50\tp99\tof ideal\tmax\tsource p99\tin flight\tlimit\tmin..max\tcapacity\trate\tsettled\tkept\t"

// left pads a name to the usual width. The other columns are aligned to the right,
// and this one is easier to read when aligned to the left.
func left(name string) string { return fmt.Sprintf("%-26s", name) }

func (r *Report) at(i int) Phase {
	if len(r.Phases) == 0 {
		return r.Whole
	}
	return r.Phases[i]
}

func row(w io.Writer, gate string, p, ideal Phase) {
	limit, span, settled := "-", "-", "never"
	if p.Limit.Known {
		limit = fmt.Sprintf("%.1f", p.Limit.Mean)
		span = fmt.Sprintf("%d..%d", p.Limit.Min, p.Limit.Max)
	}
	if p.Settled.After >= 0 {
		settled = fmt.Sprintf("%.0f", p.Settled.After)
	}
	seconds := (p.To - p.From).Seconds()
	fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%s\t%s\t%s\t%v\t%v\t%s\t%v\t%v\t%.1f\t%s\t%s\t%.1f\t%.0f\t%s\t%.2f\t\n",
		gate, float64(p.Offered)/seconds, p.Possible, p.Goodput, ratio(p.Goodput, ideal.Goodput),
		percent(p.Refused, p.Offered), percent(p.WaitTimedOut+p.CallTimedOut+p.LoadTimedOut, p.Offered),
		short(p.Latency.P50), short(p.Latency.P99), ratio(float64(p.Latency.P99), float64(ideal.Latency.P99)),
		short(p.Latency.Max), short(p.SourceLatency.P99), p.InFlight, limit, span, p.Capacity, p.Rate, settled, p.Settled.Kept)
}

// Summary writes one row for each phase of each scenario; an element of runs has the
// reports of one scenario. It has two columns for each gate except the first: its
// goodput and its 99th percentile as seen by the callers, as ratios to the first
// gate.
func Summary(w io.Writer, runs [][]Report) error {
	if len(runs) == 0 || len(runs[0]) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%-80s\t", "goodput and p99, of "+runs[0][0].Gate)
	for _, r := range runs[0][1:] {
		fmt.Fprintf(tw, "%s\tp99\t", r.Gate)
	}
	fmt.Fprintln(tw)
	for _, reports := range runs {
		for i := range max(1, len(reports[0].Phases)) {
			first := reports[0].at(i)
			fmt.Fprintf(tw, "%-80s\t", reports[0].Scenario+": "+first.Name)
			for _, r := range reports[1:] {
				p := r.at(i)
				fmt.Fprintf(tw, "%s\t%s\t", ratio(p.Goodput, first.Goodput),
					ratio(float64(p.Latency.P99), float64(first.Latency.P99)))
			}
			fmt.Fprintln(tw)
		}
	}
	return tw.Flush()
}

func ratio(v, of float64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v/of)
}

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}

// short rounds d to about three digits.
func short(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
