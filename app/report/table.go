package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is how a table looks. The zero Style is plain text, 80 columns wide.
type Style struct {
	Width int  // columns to fill, at least MinWidth; 0 means MinWidth
	Color bool // bold and colour, as terminal control sequences
}

// MinWidth is the narrowest table, and that of output that is no terminal.
const MinWidth = 80

// Wider lines than maxWidth, or columns further apart than maxGap, are hard
// to follow.
const (
	maxWidth = 120
	maxGap   = 3
)

const (
	bold  = "\x1b[1m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

// Table writes r for people: what was done, the levels as a table, the ratio
// as bars, and what went wrong, if anything.
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
	fmt.Fprintf(b, "One call: %s, about %s.\n", r.Work, ms(r.CallMS))
	fmt.Fprintf(b, "%s clients ask for %s keys, some far more often than others,\n%gs a level, each from a cold start.\n",
		count(int64(r.Clients)), count(int64(r.Keys)), r.LevelS)
	fmt.Fprintf(b, "%s, %s/%s, %d CPUs.\n", r.Machine.Go, r.Machine.OS, r.Machine.Arch, r.Machine.GOMAXPROCS)
}

// columns are the table's, level first. A head of two words stands on two
// lines.
var columns = []struct {
	above, below string
	cell         func(*Level) string
}{
	{"", "level", func(l *Level) string { return l.Name }},
	{"", "requests", func(l *Level) string { return count(l.Requests) }},
	{"requests", "a second", func(l *Level) string { return rate(l.PerSecond) }},
	{"", "p50", func(l *Level) string { return l.time(l.P50MS) }},
	{"", "p99", func(l *Level) string { return l.time(l.P99MS) }},
	{"", "slowest", func(l *Level) string { return l.time(l.SlowestMS) }},
	{"", "failed", func(l *Level) string { return count(l.Failures) }},
	{"calls at", "source", func(l *Level) string { return count(l.Calls) }},
	{"most at", "once", func(l *Level) string { return count(int64(l.MostAtOnce)) }},
}

// levels writes the table. What the width leaves free goes between the
// columns.
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

	widths, sum := make([]int, len(columns)), 0
	for c := range columns {
		for _, row := range rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
		}
		sum += widths[c]
	}
	gap := min(max(1, (s.Width-sum)/(len(columns)-1)), maxGap)
	for i, row := range rows {
		var line strings.Builder
		line.WriteString(pad(row[0], -widths[0]))
		for c := 1; c < len(row); c++ {
			line.WriteString(pad(row[c], gap+widths[c]))
		}
		text := strings.TrimRight(line.String(), " ")
		if i < 2 {
			text = s.paint(bold, text)
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
		numbers = max(numbers, utf8.RuneCountInString(times(l.Ratio)))
	}
	fmt.Fprintf(b, "%s\n", s.paint(bold, fmt.Sprintf("requests a second, %s = 1", r.Levels[0].Name)))
	room := s.Width - names - numbers - 3
	for _, l := range r.Levels {
		fmt.Fprintf(b, "%s %s %s\n", pad(l.Name, -names), pad(times(l.Ratio), numbers),
			s.paint(green, bar(l.Ratio/top, room)))
	}
}

// notes writes what to make of the numbers: a source too slow to renew what is
// kept, and the levels' first failures.
func (r *Report) notes(b *strings.Builder) {
	if renew := r.RenewS(); r.TTLS > 0 && renew > r.TTLS/2 {
		fmt.Fprintf(b, "\nIt takes %s to renew all %s keys, and they are kept for %s. As busy as\n"+
			"this machine is now, fewer --keys show more.\n",
			ms(1000*renew), count(int64(r.Keys)), ms(1000*r.TTLS))
	}
	for _, l := range r.Levels {
		if l.Failures > 0 {
			fmt.Fprintf(b, "\n%s: %s of %s requests failed, the first with\n  %s\n",
				l.Name, count(l.Failures), count(l.Requests), oneLine(l.FirstFailure))
		}
	}
}

func (s Style) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return code + text + reset
}

// time is ms for a level that has good answers, and a dash for one that has
// none.
func (l *Level) time(v float64) string {
	if l.Requests == l.Failures {
		return "-"
	}
	return ms(v)
}

// pad fills s with blanks to |width| columns, on the left if width is
// positive, on the right if it is negative.
func pad(s string, width int) string {
	blanks := strings.Repeat(" ", max(0, max(width, -width)-utf8.RuneCountInString(s)))
	if width < 0 {
		return s + blanks
	}
	return blanks + s
}

// bar draws share, 0 to 1, of room columns, to an eighth of a column. A share
// above 0 is never invisible.
func bar(share float64, room int) string {
	eighths := int(math.Round(share * float64(room) * 8))
	if share > 0 {
		eighths = max(eighths, 1)
	}
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s
}

// ms writes a time of v milliseconds with three digits at most.
func ms(v float64) string {
	switch {
	case v == 0:
		return "0 ms"
	case v < 0.9995:
		return digits(v*1000) + " µs"
	case v < 999.5:
		return digits(v) + " ms"
	default:
		return digits(v/1000) + " s"
	}
}

// rate writes a number a second: whole from 10 on.
func rate(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return count(int64(math.Round(v)))
}

// times writes a ratio.
func times(v float64) string { return "×" + rate(v) }

// oneLine writes s without control characters, which could come from a server
// and mean something to the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// digits writes v with one decimal below ten, otherwise as a whole number.
func digits(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// count writes n with a comma between thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
