package scenarios

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/lab/result"
)

// tables records a table for each cell, with ratios to base, and one with weir's ratio
// to each of the others.
func (g *grid) tables(cells []gridCell, base string) {
	g.l.Table(g.ratios(cells))
	for _, c := range cells {
		if len(g.l.Measurements(shielded, c.String())) == 0 {
			continue // h2load is missing, which a note says
		}
		g.l.Table(g.details(c, base))
	}
	for _, name := range g.names {
		if why := g.missing[name]; why != "" {
			g.l.Note("%s was not measured: %s.", name, why)
		}
	}
}

// ratios compares weir with all others.
func (g *grid) ratios(cells []gridCell) result.Table {
	others := slices.DeleteFunc(slices.Clone(g.names), func(name string) bool { return name == shielded })
	t := result.Table{Title: "Requests per second of weir, relative to the others in the same round: median and bounds", Head: append([]string{""}, others...)}
	for _, c := range cells {
		row := []string{c.String()}
		for _, name := range others {
			row = append(row, g.ratio(c, shielded, name))
		}
		t.Cells = append(t.Cells, row)
	}
	return t
}

// ratio formats the ratio of two variants in a cell, or says why there is none.
func (g *grid) ratio(c gridCell, of, to string) string {
	if why := g.missing[to]; why != "" {
		return why
	}
	for _, f := range g.sets[c.apart] {
		if _, why := addressOf(f, c); f.variant == to && why != "" {
			return why
		}
	}
	r := g.between(c, of, to)
	if r.Pairs == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Median, r.Low, r.High)
}

// between returns the ratio of the rates of two variants in a cell.
func (g *grid) between(c gridCell, of, to string) result.Interval {
	return result.Ratio(g.l.Rates(of, c.String()), g.l.Rates(to, c.String()))
}

// details has all figures of a cell.
func (g *grid) details(c gridCell, base string) result.Table {
	t := result.Table{Title: fmt.Sprintf("%v: median of %s", c, roundsOf(c.rounds)), Head: []string{
		"", "requests/s", "to " + base, "CPU/request", "RssAnon", "p50", "p99", "failed", "fast path",
	}}
	for _, name := range g.names {
		rounds := g.l.Measurements(name, c.String())
		if len(rounds) == 0 {
			if reason := g.ratio(c, shielded, name); reason != "–" {
				t.Cells = append(t.Cells, []string{name, reason})
			}
			continue
		}
		m := medianOf(g.l, name, c.String())
		row := []string{
			name, valueOf(m.PerSecond, 0), g.ratio(c, name, base),
			valueOf(valueIn(rounds, cpuPerRequest), 1) + " µs", valueOf(valueIn(rounds, anonymous)/(1<<20), 1) + " MiB",
			valueOf(m.Latency.P50, 2) + " ms", valueOf(p99(m), 2) + " ms", fmt.Sprint(failuresOf(rounds)),
		}
		share := ""
		if name == shielded {
			share = valueOf(100*valueIn(rounds, fastShare), 1) + " %"
		}
		row = append(row, share)
		t.Cells = append(t.Cells, row)
	}
	return t
}

func roundsOf(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// valueIn returns the median of a value over the rounds.
func valueIn(rounds []result.Measurement, name string) float64 {
	var all []float64
	for _, m := range rounds {
		all = append(all, m.Values[name])
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

func failuresOf(rounds []result.Measurement) (n int64) {
	for _, m := range rounds {
		n += m.Failures
	}
	return n
}

// judge checks that no request failed in the cells, and a goal for weir.
func (g *grid) judge(cells []gridCell) {
	for _, c := range cells {
		var failed int64
		for _, name := range g.names {
			failed += failuresOf(g.l.Measurements(name, c.String()))
		}
		g.l.Check(c.String()+": no request fails", failed == 0, "%d failed", failed)
	}
}

// goal checks that weir reaches a share of another variant's rate in a cell. If one of
// them was not measured, a note gives the reason.
func (g *grid) goal(c gridCell, to string, least float64) {
	r := g.between(c, shielded, to)
	if r.Pairs == 0 {
		g.l.Note("Whether weir has at least %g of the rate of %s was not judged, %v: %s.", least, to, c, g.ratio(c, shielded, to))
		return
	}
	g.l.CheckTime(fmt.Sprintf("%v: weir has at least %g of the rate of %s", c, least, to), r.Median >= least, "%v", r)
}
