package jobsctl

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// A Style is how output looks. The zero Style is plain text of any width.
type Style struct {
	Width int       // columns; 0: as many as it takes, with whole ids
	Color bool      // colour, as terminal control sequences
	Now   time.Time // what ages count from; zero: time.Now
}

// shortID is how much of an id people see: 2³² values.
const shortID = 8

const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	reset  = "\x1b[0m"
)

var stateColors = map[string]string{
	jobs.StateRunning.String(): cyan, jobs.StateRetrying.String(): yellow, jobs.StateDone.String(): green,
	jobs.StateFailed.String(): red, jobs.StateDead.String(): red, jobs.StateCanceled.String(): dim,
}

func (s Style) paint(code, text string) string {
	if !s.Color || code == "" || text == "" {
		return text
	}
	return code + text + reset
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

// since writes how long ago t was. The clocks are two: what is ahead of ours
// was just now.
func (s Style) since(t time.Time) string { return Span(s.now().Sub(t)) }

// Span writes a time with its largest unit, as ages are compared.
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

// firstLine is what there is room for of an error that is a panic with its
// stack, or has lines for another reason.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// cut shortens text to width columns, 0 being any.
func cut(text string, width int) string {
	text = strings.Join(strings.Fields(plain.Line(text)), " ")
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// A column is one of a table.
type column struct {
	head  string
	right bool
	most  int // columns that it may take; 0: any
	color func(cell string) string
}

// minLast is how narrow the last column, of words, may get: narrower, and the
// lines are longer than the width.
const minLast = 12

// table writes rows with one line each; the last column gets what is left of
// the width, and is cut to it.
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
			text = s.paint(bold, text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}
