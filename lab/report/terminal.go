package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/plain"
)

// Style is the style of a table. The zero Style is plain text, 80 columns wide.
type Style struct {
	Width int  // columns to fill, MinWidth to MaxWidth; 0 means MinWidth
	Color bool // bold text and color, as terminal control sequences
}

// The narrowest and the widest tables. Longer lines are hard to follow.
const (
	MinWidth = 80
	MaxWidth = 120
)

// A printer collects lines for a terminal.
type printer struct {
	Style
	b strings.Builder
}

func newPrinter(s Style) *printer {
	s.Width = min(max(s.Width, MinWidth), MaxWidth)
	return &printer{Style: s}
}

// Scenario writes the results of a scenario: its measurements, the published figures
// next to ours, its own tables, and its checks.
func Scenario(w io.Writer, s result.Scenario, style Style) error {
	p := newPrinter(style)
	p.line(terminal.Bold, s.Name+": "+s.Title)
	p.words("", s.Asks)
	p.part("", p.narrow(medians(&s)))
	for _, text := range remarks(&s) {
		p.words("", text)
	}
	p.part("as published, and here: unprotected → with the pattern", published(&s))
	for _, t := range s.Tables {
		g := ownTable(t)
		p.part(g.Title, g)
	}
	p.checks(s.Checks)
	if len(s.Notes) > 0 {
		p.b.WriteByte('\n')
		for _, note := range s.Notes {
			p.words("- ", note)
		}
	}
	if s.Error != "" {
		p.b.WriteByte('\n')
		p.paintWords(terminal.Red, "", "Did not finish: "+s.Error)
	}
	return p.flush(w)
}

// Summary writes the last table: a line for each scenario, and the failed checks.
func Summary(w io.Writer, run result.Run, style Style) error {
	p := newPrinter(style)
	g := overview(&run, false)
	p.grid(g)
	held, all, broken := 0, 0, 0
	for i := range run.Scenarios {
		s := &run.Scenarios[i]
		held, all = held+checksHeld(s), all+len(s.Checks)
		if s.Error != "" {
			broken++
		}
	}
	p.b.WriteByte('\n')
	for _, s := range run.Scenarios {
		for _, c := range s.Checks {
			if !c.Holds {
				p.paintWords(terminal.Red, "  ", s.Name+" does not hold: "+checkWords(c))
			}
		}
		if s.Error != "" {
			p.paintWords(terminal.Red, "  ", s.Name+" did not finish: "+s.Error)
		}
	}
	switch {
	case held == all && broken == 0:
		p.line(terminal.Green, fmt.Sprintf("All %d checks hold.", all))
	case broken == 0:
		p.line(terminal.Red, fmt.Sprintf("%d of %d checks do not hold.", all-held, all))
	default:
		p.line(terminal.Red, fmt.Sprintf("%d of %d checks do not hold; %d of %d scenarios did not finish.",
			all-held, all, broken, len(run.Scenarios)))
	}
	return p.flush(w)
}

func (p *printer) flush(w io.Writer) error {
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("report: write: %w", err)
	}
	return nil
}

// line writes text as one line, in a color.
func (p *printer) line(code, text string) {
	for _, line := range figures.Wrap(plain.Line(text), p.Width) {
		p.b.WriteString(p.paint(code, line) + "\n")
	}
}

// words writes text on as many lines as needed, the first one after mark, the others
// aligned with it.
func (p *printer) words(mark, text string) { p.paintWords("", mark, text) }

func (p *printer) paintWords(code, mark, text string) {
	if text == "" {
		return
	}
	indent := strings.Repeat(" ", len(mark))
	for i, line := range figures.Wrap(plain.Line(text), p.Width-len(mark)) {
		if i > 0 {
			mark = indent
		}
		p.b.WriteString(mark + p.paint(code, line) + "\n")
	}
}

func (p *printer) paint(code, text string) string {
	return terminal.Paint(p.Color, code, text)
}

// part writes a table below an empty line and a title. It writes nothing if the table
// is empty.
func (p *printer) part(title string, g grid) {
	if len(g.Cells) == 0 {
		return
	}
	p.b.WriteByte('\n')
	if title != "" {
		p.line(terminal.Bold, title)
	}
	p.grid(g)
	if g.Note != "" {
		p.paintWords(terminal.Faint, "", g.Note)
	}
}

// grid writes a table. If it is too wide even when wrapped, it becomes a list with a
// line for each cell of a row.
func (p *printer) grid(g grid) {
	rows := [][]string{heads(g, true), heads(g, false)}
	for _, row := range g.Cells {
		clean := make([]string, len(row))
		for c, cell := range row {
			clean[c] = plain.Line(cell)
		}
		rows = append(rows, clean)
	}
	if strings.Join(rows[0], "") == "" {
		rows = rows[1:]
	}
	first := len(rows) - len(g.Cells)
	laid := figures.Columns(rows, g.Right, p.Width)
	if tooWide(laid, p.Width) {
		p.list(g)
		return
	}
	for i, lines := range laid {
		if above := g.above(i - first); above != "" {
			p.words("", above+":")
		}
		for _, line := range lines {
			if i < first {
				line = p.paint(terminal.Bold, line)
			}
			p.b.WriteString(line + "\n")
		}
	}
}

func tooWide(laid [][]string, width int) bool {
	return slices.ContainsFunc(laid, func(lines []string) bool {
		return slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > width })
	})
}

// heads returns the upper or the lower line of the heads. The heads of columns of
// numbers take two lines, so that such a column is as narrow as its numbers.
func heads(g grid, upper bool) []string {
	out := make([]string, len(g.Head))
	for c, head := range g.Head {
		head = plain.Line(head)
		above, below, two := strings.Cut(head, " ")
		if i := strings.LastIndex(head, " "); two && i > 0 {
			above, below = head[:i], head[i+1:]
		}
		if !two || !g.Right[c] {
			above, below = "", head
		}
		out[c] = below
		if upper {
			out[c] = above
		}
	}
	return out
}

// narrow moves settings above their rows if they would be wrapped.
func (p *printer) narrow(g grid) grid {
	laid := figures.Columns(append([][]string{g.Head}, g.Cells...), g.Right, p.Width)
	if slices.ContainsFunc(laid, func(lines []string) bool { return len(lines) > 1 }) {
		return g.grouped()
	}
	return g
}

func (p *printer) list(g grid) {
	for i, row := range g.Cells {
		if i > 0 {
			p.b.WriteByte('\n')
		}
		for c, cell := range row {
			if cell != "" {
				p.words("  ", strings.TrimPrefix(g.Head[c]+": "+cell, ": "))
			}
		}
	}
}

// failures describes, for each variant, how many of its requests failed, and the
// first failure.
func failures(s *result.Scenario) (all []string) {
	for _, v := range variants(s) {
		var failed, requests int64
		first := ""
		for _, m := range s.Measurements {
			if m.Variant == v {
				failed, requests, first = failed+m.Failures, requests+m.Requests, cmp.Or(first, m.FirstFailure)
			}
		}
		if failed == 0 {
			continue
		}
		text := fmt.Sprintf("%s: %s of %s requests failed", v, figures.Count(failed), figures.Count(requests))
		if first != "" {
			text += ", the first with " + first
		}
		all = append(all, text)
	}
	return all
}

// remarks returns the text below the table of measurements.
func remarks(s *result.Scenario) []string {
	all := failures(s)
	if text := generator(s); text != "" {
		all = append(all, text)
	}
	return all
}

// generator describes the load generator's CPU use: near one processor, the generator
// itself was the bottleneck.
func generator(s *result.Scenario) string {
	var most float64
	known, pinned := false, true
	for _, m := range s.Measurements {
		if m.CPU != nil {
			known, most, pinned = true, max(most, m.CPU.Generator), pinned && m.CPU.Pinned
		}
	}
	where := "which it had to itself"
	switch {
	case !known:
		return ""
	case !pinned:
		where = "shared with the measured services"
	}
	return fmt.Sprintf("The load generator used at most %.2f of a processor, %s.", most, where)
}

func (p *printer) checks(checks []result.Check) {
	if len(checks) == 0 {
		return
	}
	p.b.WriteByte('\n')
	p.line(terminal.Bold, "must hold")
	for _, c := range checks {
		word, code := "holds", terminal.Green
		if !c.Holds {
			word, code = "DOES NOT", terminal.Red
		}
		const column = 10
		for i, line := range figures.Wrap(plain.Line(checkWords(c)), p.Width-column) {
			mark := strings.Repeat(" ", column)
			if i == 0 {
				mark = p.paint(code, word) + mark[len(word):]
			}
			p.b.WriteString(mark + line + "\n")
		}
	}
}

func checkWords(c result.Check) string {
	if c.Detail == "" {
		return c.What
	}
	return c.What + ": " + c.Detail
}
