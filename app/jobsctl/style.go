package jobsctl

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// A Style sets how output looks. The zero Style is plain text of any width.
type Style struct {
	Width int       // columns; 0: unlimited, with full ids
	Color bool      // color, as terminal control sequences
	Now   time.Time // reference for ages; zero: time.Now
}

// shortID is how many characters of an id are shown: 2³² values.
const shortID = 8

var stateColors = map[string]string{
	jobs.StateRunning.String(): terminal.Cyan, jobs.StateRetrying.String(): terminal.Yellow, jobs.StateDone.String(): terminal.Green,
	jobs.StateFailed.String(): terminal.Red, jobs.StateDead.String(): terminal.Red, jobs.StateCanceled.String(): terminal.Faint,
}

func (s Style) paint(code, text string) string {
	return terminal.Paint(s.Color, code, text)
}

func (s Style) now() time.Time {
	if s.Now.IsZero() {
		return time.Now()
	}
	return s.Now
}

func (s Style) id(id string) string {
	if s.Width > 0 {
		id = id[:min(len(id), shortID)]
	}
	return plain.Line(id)
}

// since formats how long ago t was. t comes from another clock: if it is in the future, it
// counts as just now.
func (s Style) since(t time.Time) string { return Span(s.now().Sub(t)) }

// Span formats a duration in its largest unit, which makes ages easy to compare.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// firstLine returns the first line of an error, which may be a panic with its stack.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// cut shortens text to width columns; 0 means no limit.
func cut(text string, width int) string {
	text = strings.Join(strings.Fields(plain.Line(text)), " ")
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// A column is a column of a table.
type column struct {
	head  string
	right bool
	most  int // columns that it may take; 0: any
	color func(cell string) string
}

// Since formats how long ago t was, and Until how long it is until t.
func (s Style) Since(t time.Time) string { return s.since(t) }

// Until is described at Since.
func (s Style) Until(t time.Time) string { return Span(t.Sub(s.now())) }

// Table returns a table, a line for each row. The last column has words, and is cut to the
// width.
func (s Style) Table(heads []string, rows [][]string) string {
	var columns []column
	for _, head := range heads {
		columns = append(columns, column{head: head})
	}
	return s.table(columns, rows)
}

// minLast is the minimum width of the last column, which holds words. If less is left,
// lines are longer than the width.
const minLast = 12

// table writes one line per row; the last column gets the remaining width and is cut to it.
func (s Style) table(columns []column, rows [][]string) string {
	last := len(columns) - 1
	widths := make([]int, len(columns))
	for c, col := range columns {
		widths[c] = utf8.RuneCountInString(col.head)
		for _, row := range rows {
			if c < last && s.Width > 0 {
				row[c] = cut(row[c], col.most)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
		}
	}
	room := 0
	if s.Width > 0 {
		room = s.Width - 2*last
		for _, w := range widths[:last] {
			room -= w
		}
		room = max(room, minLast)
	}
	var b strings.Builder
	for n := -1; n < len(rows); n++ {
		var line strings.Builder
		for c, col := range columns {
			text, width := col.head, widths[c]
			if n >= 0 {
				text = rows[n][c]
			}
			switch {
			case c == last && !col.right:
				text = cut(text, room)
			case col.right:
				text = figures.Pad(text, width)
			default:
				text = figures.Pad(text, -width)
			}
			if c > 0 {
				line.WriteString("  ")
			}
			if n >= 0 && col.color != nil {
				text = s.paint(col.color(strings.TrimSpace(text)), text)
			}
			line.WriteString(text)
		}
		text := strings.TrimRight(line.String(), " ")
		if n < 0 {
			text = s.paint(terminal.Bold, text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}
