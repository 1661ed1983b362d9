package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/plain"
)

// Style is how a table looks. The zero Style is plain text, 80 columns wide.
type Style struct {
	Width int  // columns to fill, at least MinWidth; 0 means MinWidth
	Color bool // bold and color, as terminal control sequences
}

// MinWidth is the width of the narrowest table, and of output that is not a terminal.
const MinWidth = 80

// maxWidth is the width of the widest table: wider lines are hard to follow.
const maxWidth = 120

// Table writes r for people: what was measured, the levels as a table, the ratios as
// bars, and notes about problems, if any.
func (r *Report) Table(w io.Writer, s Style) error {
	s.Width = min(max(s.Width, MinWidth), maxWidth)
	var b strings.Builder
	r.intro(&b)
	b.WriteByte('\n')
	r.levels(&b, s)
	b.WriteByte('\n')
	r.bars(&b, s)
	r.notes(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("report: write table: %w", err)
	}
	return nil
}

func (r *Report) intro(b *strings.Builder) {
	fmt.Fprintf(b, "One upstream call: %s.\nIt takes about %s with one call on each CPU.\n", r.Work, figures.Millis(r.CallMS))
	fmt.Fprintf(b, "%s clients request %s keys, some far more often than others, for %gs\nper level, each from a cold start. Every response is checked.\n",
		figures.Count(int64(r.Clients)), figures.Count(int64(r.Keys)), r.LevelS)
	if r.Gateway {
		b.WriteString("From the second level on, weir's gateway runs in front of the service,\nwhich does not change.\n")
	}
	fmt.Fprintf(b, "%s, %s/%s, %d CPUs.\n", r.Machine.Go, r.Machine.OS, r.Machine.Arch, r.Machine.GOMAXPROCS)
}

// columns are the columns of the table, level first. A two-word heading takes two
// lines.
var columns = []struct {
	above, below string
	cell         func(*Level) string
}{
	{"", "level", func(l *Level) string { return l.Name }},
	{"", "requests", func(l *Level) string { return figures.Count(l.Requests) }},
	{"successful", "responses/s", func(l *Level) string { return figures.Rate(l.PerSecond) }},
	{"", "p50", func(l *Level) string { return l.time(l.P50MS) }},
	{"", "p99", func(l *Level) string { return l.time(l.P99MS) }},
	{"", "slowest", func(l *Level) string { return l.time(l.SlowestMS) }},
	{"upstream", "calls", func(l *Level) string { return figures.Count(l.Calls) }},
	{"peak", "concurrency", func(l *Level) string { return figures.Count(int64(l.Peak)) }},
}

// levels writes the table. Free width goes between the columns.
func (r *Report) levels(b *strings.Builder, s Style) {
	rows := [][]string{make([]string, len(columns)), make([]string, len(columns))}
	for c, col := range columns {
		rows[0][c], rows[1][c] = col.above, col.below
	}
	for i := range r.Levels {
		row := make([]string, len(columns))
		for c, col := range columns {
			row[c] = col.cell(&r.Levels[i])
		}
		rows = append(rows, row)
	}

	right := slices.Repeat([]bool{true}, len(columns))
	right[0] = false
	for i, lines := range figures.Columns(rows, right, s.Width) {
		text := strings.Join(lines, "\n")
		if i < 2 {
			text = s.paint(terminal.Bold, text)
		}
		b.WriteString(text + "\n")
	}
}

// bars writes the ratio of each level to the first, one bar each, to scale.
func (r *Report) bars(b *strings.Builder, s Style) {
	if len(r.Levels) == 0 || r.Levels[0].PerSecond == 0 {
		return
	}
	var top float64
	var names, numbers int
	for _, l := range r.Levels {
		top = max(top, l.Ratio)
		names = max(names, utf8.RuneCountInString(l.Name))
		numbers = max(numbers, utf8.RuneCountInString(figures.Times(l.Ratio)))
	}
	fmt.Fprintf(b, "%s\n", s.paint(terminal.Bold, fmt.Sprintf("successful responses per second, %s = 1", r.Levels[0].Name)))
	room := s.Width - names - numbers - 3
	for _, l := range r.Levels {
		fmt.Fprintf(b, "%s %s %s\n", figures.Pad(l.Name, -names), figures.Pad(figures.Times(l.Ratio), numbers),
			s.paint(terminal.Green, figures.Bar(l.Ratio/top, room)))
	}
}

// notes writes remarks about the numbers: a source too slow to renew the cached
// responses, and the first failure of each level, or that there was none.
func (r *Report) notes(b *strings.Builder) {
	if renew := r.RenewS(); r.TTLS > 0 && renew > r.TTLS/2 {
		fmt.Fprintf(b, "\nReloading all %[2]s keys takes %[1]s, and responses are kept for %[3]s.\n"+
			"Run it with fewer --keys to see the full effect of the cache.\n",
			figures.Millis(1000*renew), figures.Count(int64(r.Keys)), figures.Millis(1000*r.TTLS))
	}
	failed := false
	for _, l := range r.Levels {
		if l.Failures > 0 {
			failed = true
			fmt.Fprintf(b, "\n%s: %s of %s requests failed, the first with\n  %s\n",
				l.Name, figures.Count(l.Failures), figures.Count(l.Requests), plain.Line(l.FirstFailure))
		}
	}
	if !failed {
		b.WriteString("\nNo request failed.\n")
	}
}

func (s Style) paint(code, text string) string {
	return terminal.Paint(s.Color, code, text)
}

// time formats v milliseconds for a level with successful responses, and returns a dash for
// other levels.
func (l *Level) time(v float64) string {
	if l.Requests == l.Failures {
		return "-"
	}
	return figures.Millis(v)
}
