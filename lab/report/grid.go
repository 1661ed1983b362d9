package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/lab/result"
)

// A grid is a table, independent of the output format.
type grid struct {
	Title string
	Head  []string
	Right []bool // per column: right-aligned
	Cells [][]string
	Group []string // per row: its group, if any
	Note  string

	Changes bool // cells are changes, and may be broken in narrow tables
}

// settingHead is the head of a column that can move above the rows.
const settingHead = "setting"

// grouped moves the settings from their column to above their rows.
func (g grid) grouped() grid {
	at := slices.Index(g.Head, settingHead)
	if at < 0 {
		return g
	}
	without := func(row []string) []string { return slices.Delete(slices.Clone(row), at, at+1) }
	cells := g.Cells
	g.Head, g.Right, g.Cells = without(g.Head), slices.Delete(slices.Clone(g.Right), at, at+1), nil
	for _, row := range cells {
		g.Group = append(g.Group, row[at])
		g.Cells = append(g.Cells, without(row))
	}
	return g
}

// above returns the heading above that row: the group that begins there, or "".
func (g grid) above(row int) string {
	if row < 0 || len(g.Group) == 0 || row > 0 && g.Group[row] == g.Group[row-1] {
		return ""
	}
	return g.Group[row]
}

// A groupedRow is a row for the template, with the heading above it.
type groupedRow struct {
	Above string
	Cells []string
}

// Rows returns the rows for the template.
func (g grid) Rows() []groupedRow {
	rows := make([]groupedRow, len(g.Cells))
	for i, cells := range g.Cells {
		rows[i] = groupedRow{g.above(i), cells}
	}
	return rows
}

// A column is a column of a table of T. Without has it is always shown; otherwise
// only if has is true of one of the rows.
type column[T any] struct {
	head  string
	right bool
	has   func(T) bool
	cell  func(T) string
}

func gridOf[T any](rows []T, columns []column[T]) grid {
	var g grid
	g.Cells = make([][]string, len(rows))
	for _, c := range columns {
		if c.has != nil && !slices.ContainsFunc(rows, c.has) {
			continue
		}
		g.Head = append(g.Head, c.head)
		g.Right = append(g.Right, c.right)
		for i, row := range rows {
			g.Cells[i] = append(g.Cells[i], c.cell(row))
		}
	}
	return g
}

// medians returns the table of a scenario's measurements, with repeats collapsed.
func medians(s *result.Scenario) grid {
	type group = result.Group
	groups := result.Groups(s.Measurements)
	most, least := 0, 0
	for i, g := range groups {
		n := len(g.Rounds)
		if i == 0 {
			least = n
		}
		most, least = max(most, n), min(least, n)
	}
	time := func(of func(*result.Latency) float64) func(group) string {
		return func(g group) string { return latency(g.Median, of) }
	}
	latencies := func(g group) bool { return g.Median.Latency != nil }
	source := func(g group) bool { return g.Median.Source != nil }
	out := gridOf(groups, []column[group]{
		{"variant", false, nil, func(g group) string { return g.Median.Variant }},
		{settingHead, false, func(g group) bool { return settingOf(g.Median, s.Axis) != "" }, func(g group) string { return settingOf(g.Median, s.Axis) }},
		{"rounds", true, func(group) bool { return most != least }, func(g group) string { return figures.Count(int64(len(g.Rounds))) }},
		{"good/s", true, func(g group) bool { return g.Median.PerSecond > 0 }, func(g group) string { return figures.Rate(g.Median.PerSecond) }},
		{"p50", true, latencies, time(func(l *result.Latency) float64 { return l.P50 })},
		{"p99", true, latencies, time(func(l *result.Latency) float64 { return l.P99 })},
		{"slowest", true, latencies, time(func(l *result.Latency) float64 { return l.Slowest })},
		{"failed", true, func(g group) bool { return g.Median.Requests > 0 }, func(g group) string { return figures.Count(g.Failures()) }},
		{"source calls", true, source, func(g group) string { return calls(g.Median) }},
		{"peak concurrency", true, source, func(g group) string { return atOnce(g.Median) }},
	})
	switch {
	case most > 1 && most == least:
		out.Note = fmt.Sprintf("The median of %d alternating rounds, by successful responses per second; failed is the sum of all rounds.", most)
	case most > 1:
		out.Note = "The median of the rounds, by successful responses per second; failed is the sum of all rounds."
	}
	return out
}

func latency(m result.Measurement, of func(*result.Latency) float64) string {
	if m.Latency == nil || m.Good == 0 {
		return nothing
	}
	return figures.Millis(of(m.Latency))
}

func calls(m result.Measurement) string {
	if m.Source == nil {
		return nothing
	}
	return figures.Count(m.Source.Calls)
}

func atOnce(m result.Measurement) string {
	if m.Source == nil {
		return nothing
	}
	return figures.Count(int64(m.Source.Most))
}

// published returns the table of a scenario's figures next to the published ones.
func published(s *result.Scenario) grid {
	g := gridOf(s.Rows, []column[result.Row]{
		{"", false, nil, func(r result.Row) string {
			if r.FromSource {
				return whatOf(r) + " *"
			}
			return whatOf(r)
		}},
		{"published", true, nil, func(r result.Row) string { return change(r.PublishedBefore, r.PublishedAfter, r.PublishedRatio()) }},
		{"here", true, nil, func(r result.Row) string { return change(r.Before, r.After, r.Ratio()) }},
		{"ceiling", true, func(r result.Row) bool { return r.Ceiling != nil }, func(r result.Row) string { return optional(r.Ceiling) }},
		{"note", false, func(r result.Row) bool { return r.Note != "" }, func(r result.Row) string { return r.Note }},
	})
	g.Changes = true
	if slices.ContainsFunc(s.Rows, func(r result.Row) bool { return r.FromSource }) {
		g.Note = "* not in the text but in its authors' source."
	}
	return g
}

// optional formats a number, or its absence.
func optional(v *float64) string {
	if v == nil {
		return nothing
	}
	return figures.Number(*v)
}

func change(before, after *float64, ratio float64) string {
	switch {
	case before == nil && after == nil:
		return nothing
	case ratio == 0:
		return optional(before) + " → " + optional(after)
	}
	return optional(before) + " → " + optional(after) + " " + times(ratio)
}

// overview returns the table of all scenarios, one row each, in order. With whole it
// shows the figures as well as their ratios.
func overview(run *result.Run, whole bool) grid {
	type row = *result.Scenario
	var rows []row
	for i := range run.Scenarios {
		rows = append(rows, &run.Scenarios[i])
	}
	ratios := func(s row) bool { h := headlineOf(s); return h.published > 0 || h.here > 0 }
	return gridOf(rows, []column[row]{
		{"scenario", false, nil, func(s row) string { return s.Name }},
		{"headline", false, func(s row) bool { return len(s.Rows) > 0 }, func(s row) string { return headlineOf(s).what }},
		{"published", true, ratios, func(s row) string { return headlineOf(s).figures(whole, false) }},
		{"here", true, ratios, func(s row) string { return headlineOf(s).figures(whole, true) }},
		{"checks", true, nil, func(s row) string { return fmt.Sprintf("%d/%d", checksHeld(s), len(s.Checks)) }},
		{"took", true, nil, func(s row) string { return figures.Millis(1000 * s.ElapsedS) }},
	})
}

// repeated returns the table of the scenarios that repeat a published experiment: the
// published figures next to those of this run, without and with the pattern.
func repeated(run *result.Run) grid {
	var rows []*result.Scenario
	for i, s := range run.Scenarios {
		if s.Published != nil && len(s.Rows) > 0 {
			rows = append(rows, &run.Scenarios[i])
		}
	}
	return gridOf(rows, []column[*result.Scenario]{
		{"experiment", false, nil, func(s *result.Scenario) string { return s.Title }},
		{"figure", false, nil, func(s *result.Scenario) string { return headlineOf(s).what }},
		{"published", true, nil, func(s *result.Scenario) string { return headlineOf(s).figures(true, false) }},
		{"here", true, nil, func(s *result.Scenario) string { return headlineOf(s).figures(true, true) }},
	})
}

var numeric = regexp.MustCompile(`^[×≈<>~+−-]?\s?[0-9][0-9.,]*\s?(%|[µm]?s|min|h|[kM]i?B|GiB|[a-z]*/s|×)?$`)

// ownTable returns a table that the scenario defined itself. Columns of numbers are
// right-aligned.
func ownTable(t result.Table) grid {
	g := grid{Title: t.Title, Head: slices.Clone(t.Head)}
	for _, row := range t.Cells {
		g.Cells = append(g.Cells, slices.Clone(row))
		for len(g.Head) < len(row) {
			g.Head = append(g.Head, "")
		}
	}
	g.Right = make([]bool, len(g.Head))
	for c := range g.Right {
		numbers := 0
		words := false
		for i := range g.Cells {
			for len(g.Cells[i]) < len(g.Head) {
				g.Cells[i] = append(g.Cells[i], "")
			}
			switch cell := strings.TrimSpace(g.Cells[i][c]); {
			case numeric.MatchString(cell):
				numbers++
			case cell != "" && cell != "-" && cell != nothing:
				words = true
			}
		}
		g.Right[c] = numbers > 0 && !words
	}
	return g
}

// everything returns the table of all measurements, each round separately.
func everything(s *result.Scenario) grid {
	type m = result.Measurement
	ms := func(of func(*result.Latency) float64) func(m) string {
		return func(x m) string {
			if x.Latency != nil && of(x.Latency) == 0 {
				return nothing // a load tool does not report every percentile
			}
			return latency(x, of)
		}
	}
	latencies := func(x m) bool { return x.Latency != nil }
	source := func(x m) bool { return x.Source != nil }
	cpu := func(x m) bool { return x.CPU != nil }
	columns := []column[m]{
		{"variant", false, nil, func(x m) string { return x.Variant }},
		{settingHead, false, func(x m) bool { return settingOf(x, s.Axis) != "" }, func(x m) string { return settingOf(x, s.Axis) }},
		{"round", true, func(x m) bool { return x.Round > 0 }, func(x m) string { return figures.Count(int64(x.Round)) }},
		{"load", false, func(x m) bool { return x.Load != "" }, func(x m) string { return x.Load }},
		{"requests", true, nil, func(x m) string { return figures.Count(x.Requests) }},
		{"good", true, nil, func(x m) string { return figures.Count(x.Good) }},
		{"failed", true, nil, func(x m) string { return figures.Count(x.Failures) }},
		{"first failure", false, func(x m) bool { return x.FirstFailure != "" }, func(x m) string { return x.FirstFailure }},
		{"statuses", false, func(x m) bool { return len(x.Statuses) > 0 }, statuses},
		{"time", true, nil, func(x m) string { return figures.Millis(1000 * x.Seconds) }},
		{"good/s", true, nil, func(x m) string { return figures.Rate(x.PerSecond) }},
		{"mean", true, latencies, ms(func(l *result.Latency) float64 { return l.Mean })},
		{"p50", true, latencies, ms(func(l *result.Latency) float64 { return l.P50 })},
		{"p90", true, latencies, ms(func(l *result.Latency) float64 { return l.P90 })},
		{"p99", true, latencies, ms(func(l *result.Latency) float64 { return l.P99 })},
		{"p99.9", true, latencies, ms(func(l *result.Latency) float64 { return l.P999 })},
		{"slowest", true, latencies, ms(func(l *result.Latency) float64 { return l.Slowest })},
		{"source calls", true, source, calls},
		{"peak concurrency", true, source, atOnce},
		{"longest call", true, source, func(x m) string { return call(x, func(c *result.Source) float64 { return c.LongestMS }) }},
		{"mean call", true, source, func(x m) string { return call(x, func(c *result.Source) float64 { return c.MeanMS }) }},
		{"CPUs: generator, service, engines", false, cpu, processors},
	}
	return gridOf(s.Measurements, append(columns, values(s.Measurements)...))
}

func call(m result.Measurement, of func(*result.Source) float64) string {
	if m.Source == nil {
		return nothing
	}
	return figures.Millis(of(m.Source))
}

func processors(m result.Measurement) string {
	if m.CPU == nil {
		return nothing
	}
	s := fmt.Sprintf("%.2f, %.2f, %.2f", m.CPU.Generator, m.CPU.Service, m.CPU.Engines)
	if !m.CPU.Pinned {
		s += ", not pinned"
	}
	return s
}

func statuses(m result.Measurement) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(m.Statuses)) {
		name := fmt.Sprint(code)
		if code == 0 {
			name = "no answer"
		}
		all = append(all, name+": "+figures.Count(m.Statuses[code]))
	}
	return strings.Join(all, ", ")
}

// values returns the columns of the values that only this scenario measures.
func values(all []result.Measurement) []column[result.Measurement] {
	names := map[string]bool{}
	for _, m := range all {
		for name := range m.Values {
			names[name] = true
		}
	}
	var columns []column[result.Measurement]
	for _, name := range slices.Sorted(maps.Keys(names)) {
		columns = append(columns, column[result.Measurement]{name, true, nil, func(m result.Measurement) string {
			if v, ok := m.Values[name]; ok {
				return figures.Number(v)
			}
			return nothing
		}})
	}
	return columns
}
