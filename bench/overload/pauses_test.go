package overload_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/simulate"
)

// A usual run has two scenarios of each grid: nothing is checked about the peers but that
// all contenders come to an end.
var every = flag.Int("pauses", histories.Count(4*41, 41), "run one of this many scenarios with pauses; 1 runs all")

// TestPauses prints the table for sources that pause, and for gates whose process is
// not scheduled. The others are compared with the fixed limit.
func TestPauses(t *testing.T) {
	contenders := slices.DeleteFunc(gates(), func(c simulate.Contender) bool { return c.Name == "ideal" || c.Name == "none" || c.Name == "fixed" })
	contenders = append([]simulate.Contender{fixed()}, contenders...)
	for name, grid := range map[string][]simulate.Scenario{"source": simulate.AllPauses(), "process": simulate.AllAsleep()} {
		t.Run(name, func(t *testing.T) {
			var all [][]simulate.Report
			for _, s := range simulate.EveryNth(grid, *every) {
				reports := simulate.Compare(t, s, contenders...)
				for i := range reports {
					reports[i].Phases = reports[i].Phases[1:] // keep only the steady phase
				}
				all = append(all, reports)
			}
			if err := simulate.Summary(t.Output(), all); err != nil {
				t.Error(err)
			}
			spread(t, all)
		})
	}
}

// spread prints for each gate the least and the median goodput, the median and the
// greatest p99, and how often it keeps up with the first gate.
func spread(t *testing.T, all [][]simulate.Report) {
	w := tabwriter.NewWriter(t.Output(), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "gate\tscenarios\tgoodput: least\tmedian\tat least 0.95 in\tp99: median\tgreatest\tat most 1 in\tat most 1.1 in\t")
	for i := 1; len(all) > 0 && i < len(all[0]); i++ {
		var good, slow []float64
		for _, reports := range all {
			first, p := reports[0].Phase("steady"), reports[i].Phase("steady")
			good = append(good, p.Goodput/first.Goodput)
			slow = append(slow, float64(p.Latency.P99)/float64(first.Latency.P99))
		}
		slices.Sort(good)
		slices.Sort(slow)
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%d\t%.3f\t%.3f\t%d\t%d\t\n", all[0][i].Gate, len(all), good[0], good[len(good)/2], len(good)-below(good, 0.95),
			slow[len(slow)/2], slow[len(slow)-1], below(slow, 1.0005), below(slow, 1.1005))
	}
	w.Flush()
}

// below returns how many of the sorted values are below least.
func below(sorted []float64, least float64) int {
	n, _ := slices.BinarySearch(sorted, least)
	return n
}
