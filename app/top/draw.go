package top

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/plain"
)

// A Style sets how the overview looks. The zero Style is plain text, as long and as wide
// as it needs.
type Style struct {
	Width, Height int  // 0: unlimited
	Color         bool // control sequences for color
	Note          string
}

const (
	mostWords = 3  // lines of an incident on a terminal
	mostNext  = 2  // lines of what to do about it
	roomy     = 40 // lines of a terminal that shows the next step of each incident, not only of the worst
)

// A line is a line of text with a color for all of it, or for parts.
type line struct {
	text  string
	paint string // of the whole line
}

// Lines returns the overview, with as many lines as fit. What is left out is said: nothing
// is cut off silently.
func (s Style) Lines(o Overview) []string {
	head := s.head(o)
	sections := [][]line{s.servers(o), s.routes(o), s.limits(o), s.budgets(o), s.queues(o)}
	all := head
	for i, section := range sections {
		if len(section) == 0 {
			continue
		}
		if i != budgetsAt || len(sections[budgetsAt-1]) == 0 {
			all = append(all, line{})
		}
		if s.Height > 0 {
			section = fit(section, s.Height-len(all)-rest(sections[i+1:]))
		}
		all = append(all, section...)
	}
	if s.Height > 0 && len(all) > s.Height {
		all = append(all[:max(s.Height-1, 0)], line{"… the terminal is too low for the rest", terminal.Faint})
	}
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = s.paint(l.paint, s.clip(l.text))
	}
	return out
}

// budgetsAt is the section of the budgets, which follows that of the limits without a space.
const budgetsAt = 3

// rest returns how many lines the following sections need at least.
func rest(sections [][]line) int {
	n := 0
	for _, section := range sections {
		if len(section) > 0 {
			n += min(len(section), 2) + 1
		}
	}
	return n
}

// fit cuts a section to room lines, but to two at least, and says how many rows are left
// out.
func fit(section []line, room int) []line {
	room = max(room, 2)
	if len(section) <= room {
		return section
	}
	left := len(section) - room + 1
	return append(section[:room-1:room-1], line{fmt.Sprintf("… and %d more", left), terminal.Faint})
}

func (s Style) head(o Overview) []line {
	state := o.State
	if state == "" {
		state = "ready"
	}
	if state != "ready" {
		state = "not ready"
	}
	left := fmt.Sprintf("%s %s, up %s, %s", plain.Line(o.Title), plain.Line(o.Version), span(o.Up), state)
	right := o.At.Local().Format("15:04:05")
	if s.Note != "" {
		right = s.Note + "  " + right
	}
	all := []line{{spread(left, right, s.Width), terminal.Bold}}
	for i, x := range o.Incidents {
		if i == 3 && len(o.Incidents) > 4 && s.Height > 0 {
			all = append(all, line{fmt.Sprintf("      … and %d more", len(o.Incidents)-i), terminal.Faint})
			break
		}
		sign := map[string]string{"bad": "ACT  ", "warn": "WATCH", "note": "NOTE "}[x.Level]
		color := map[string]string{"bad": terminal.Red, "warn": terminal.Yellow}[x.Level]
		all = append(all, s.paragraph(sign+" ", x.Subject+": "+x.Text, mostWords, color)...)
		if x.Next != "" && (s.Height == 0 || i == 0 || s.Height >= roomy) {
			all = append(all, s.paragraph("      Next: ", x.Next, mostNext, terminal.Faint)...)
		}
	}
	t := o.Total
	all = append(all, line{})
	if t.Responses != nil {
		color := ""
		if t.Errors > 0 {
			color = terminal.Yellow
		}
		if t.Errors >= 0.05 {
			color = terminal.Red
		}
		errors := t.Errors
		if math.IsNaN(float64(errors)) {
			errors = 0
		}
		all = append(all, line{fmt.Sprintf("clients received %s/s, errors %s, p50 %s, p99 %s", rate(t.Received), percent(errors), seconds(t.P50), seconds(t.P99)), color})
		var parts []string
		for _, class := range classes {
			if v := t.Responses[class]; v > 0 || class != "1xx" {
				parts = append(parts, fmt.Sprintf("%s %s/s", class, rate(v)))
			}
		}
		if v := t.Responses["left"]; v > 0 {
			parts = append(parts, fmt.Sprintf("(left %s/s)", rate(v)))
		}
		all = append(all, line{"  " + strings.Join(parts, "   "), ""})
	}
	saved := fmt.Sprintf("saved %s of %s/s requests; upstream calls %s/s, failed %s/s; refused %s/s", percent(t.Saved), rate(t.Requests), rate(t.Calls), rate(t.Failed), rate(t.Refused))
	for _, text := range s.wrap(saved, 2) {
		all = append(all, line{text, ""})
	}
	if by := refusedLine(t); by != "" {
		for _, text := range s.wrap(by, 2) {
			all = append(all, line{text, terminal.Yellow})
		}
	}
	if o.Cost != nil {
		all = append(all, line{costLine(o), ""})
	}
	return all
}

// paragraph wraps text behind a sign, and cuts it to that many lines on a terminal.
func (s Style) paragraph(sign, text string, most int, paint string) []line {
	text = plain.Line(words(text))
	lines := s.wrap(text, 6)
	if extra := utf8.RuneCountInString(sign) - 6; extra > 0 {
		lines = s.wrap(text, 6+extra)
	}
	if s.Height > 0 && len(lines) > most {
		lines = append(lines[:most-1:most-1], lines[most-1]+" …")
	}
	out := make([]line, len(lines))
	for i, text := range lines {
		if i > 0 {
			sign = strings.Repeat(" ", utf8.RuneCountInString(sign))
		}
		out[i] = line{sign + text, paint}
	}
	return out
}

// words returns text of the console without its thin spaces.
func words(text string) string { return strings.ReplaceAll(text, "\u202f", " ") }

// refusedLine says what refuses requests, "" if nothing does.
func refusedLine(r Rates) string {
	var parts []string
	for _, by := range refusals {
		if v := r.RefusedBy[by.name]; v > 0 {
			parts = append(parts, rate(v)+"/s "+by.text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "refused: " + strings.Join(parts, ", ")
}

// costLine describes the cost of all routes.
func costLine(o Overview) string {
	say := func(n uint64, money func(*Money) float64) string {
		if o.Cost.Money != nil {
			if v := money(o.Cost.Money); v > 0 && v < 0.01 {
				return "<0.01 " + plain.Line(o.Cost.Money.Currency)
			}
			return fmt.Sprintf("%.2f %s", money(o.Cost.Money), plain.Line(o.Cost.Money.Currency))
		}
		return figures.Count(int64(min(n, math.MaxInt64))) //nolint:gosec // bounded
	}
	text := fmt.Sprintf("cost %s/s; since the start %s spent, %s avoided", rate(o.Total.CostSpent),
		say(o.Cost.Spent, func(m *Money) float64 { return m.Spent }), say(o.Cost.Avoided, func(m *Money) float64 { return m.Avoided }))
	if o.Cost.Refused > 0 {
		text += ", " + say(o.Cost.Refused, func(m *Money) float64 { return m.Refused }) + " refused"
	}
	return text
}

func (s Style) servers(o Overview) []line {
	rows := [][]string{{"upstream", "server", "state", "in flight"}}
	paint := []string{terminal.Bold}
	for _, one := range o.Servers {
		rows = append(rows, []string{plain.Line(one.Upstream), plain.Line(one.URL), one.State, figures.Count(int64(one.InFlight))})
		paint = append(paint, map[bool]string{true: terminal.Red}[one.State != "healthy"])
	}
	return s.table(rows, paint, []bool{false, false, false, true}, 1)
}

func (s Style) routes(o Overview) []line {
	rows := [][]string{{"route", "requests/s", "errors", "saved", "calls/s", "failed/s", "refused/s", "p99", "in flight"}}
	if o.Total.Responses == nil {
		rows[0][0] = "guard"
	}
	paint := []string{terminal.Bold}
	for _, r := range o.Routes {
		errors := "-"
		if r.Responses != nil {
			errors = percent(max0(r.Errors))
		}
		rows = append(rows, []string{plain.Line(r.Name), rate(r.Requests), errors, r.saved(), rate(r.Calls), rate(r.Failed), rate(r.Refused), seconds(r.P99), figures.Count(int64(r.InFlight))})
		color := ""
		switch {
		case r.Errors >= 0.05 || r.Calls > 0 && r.Failed >= 0.5*r.Calls || r.Stuck > 0:
			color = terminal.Red
		case r.Errors > 0 || r.Failed > 0 || r.Refused > 0:
			color = terminal.Yellow
		case r.Requests == 0:
			color = terminal.Faint
		}
		paint = append(paint, color)
	}
	return s.table(rows, paint, []bool{false, true, true, true, true, true, true, true, true}, 0)
}

// saved is the share that is saved, or that would be without observe mode.
func (r Route) saved() string {
	if r.Observed == nil {
		return percent(r.Saved)
	}
	return "(" + percent(r.WouldSave) + ")"
}

func (s Style) limits(o Overview) []line {
	rows := [][]string{{"limit", "kind", "in use", "queued"}}
	paint := []string{terminal.Bold}
	for _, l := range o.Limits {
		use := fmt.Sprintf("%d of %s", l.InUse, figures.Number(math.Floor(l.Limit*10)/10))
		if l.Kind == "rate" {
			use = "-"
		}
		rows = append(rows, []string{plain.Line(l.Name), l.Kind, use, figures.Count(int64(l.Queued))})
		paint = append(paint, map[bool]string{true: terminal.Yellow}[l.Queued > 0])
	}
	return s.table(rows, paint, []bool{false, false, true, true}, 0)
}

func (s Style) budgets(o Overview) []line {
	used := false
	rows := [][]string{{"budget", "left", "of", "refill", "queued", "refused", "mostly"}}
	paint := []string{terminal.Bold}
	for _, b := range o.Budgets {
		left, spender := figures.Count(int64(math.Floor(b.Left))), ""
		if b.Kind == "client" {
			left = "-"
			if len(b.Over) > 0 {
				used, spender = true, fmt.Sprintf("%s (%s)", plain.Line(b.Over[0].Address), percent(number(b.Over[0].Share)))
			}
		}
		rows = append(rows, []string{plain.Line(b.Kind + " " + b.Name), left, figures.Count(int64(b.Burst)), words(b.Pace()), figures.Count(int64(b.Queued)), figures.Count(int64(min(b.Refused, math.MaxInt64))), spender}) //nolint:gosec // bounded
		paint = append(paint, map[bool]string{true: terminal.Yellow}[b.Kind != "client" && b.Left < 1 || b.Outage])
	}
	if !used {
		for i := range rows {
			rows[i] = rows[i][:6]
		}
	}
	return s.table(rows, paint, []bool{false, true, true, true, true, true, false}, len(rows[0])-1)
}

func (s Style) queues(o Overview) []line {
	rows := [][]string{{"jobs", "waiting", "taken", "dead"}}
	paint := []string{terminal.Bold}
	for _, q := range o.Queues {
		name := plain.Line(q.Name)
		if q.Paused {
			name = "(paused) " + name
		}
		rows = append(rows, []string{name, figures.Count(int64(q.Waiting)), figures.Count(int64(q.Taken)), figures.Count(int64(q.Dead))})
		paint = append(paint, map[bool]string{true: terminal.Yellow}[q.Dead > 0 || q.Paused])
	}
	return s.table(rows, paint, []bool{false, true, true, true}, 0)
}

// table aligns rows, of which the first is the head. If they are too wide, the cells of the
// column give are shortened, with an ellipsis in the middle: both ends of a URL matter.
func (s Style) table(rows [][]string, paint []string, right []bool, give int) []line {
	if len(rows) == 1 {
		return nil
	}
	widths := make([]int, len(rows[0]))
	sum := 2 * (len(widths) - 1)
	for _, row := range rows {
		for c, cell := range row {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	for _, w := range widths {
		sum += w
	}
	if s.Width > 0 && sum > s.Width {
		widths[give] = max(widths[give]-(sum-s.Width), 8)
	}
	out := make([]line, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for c, cell := range row {
			if c > 0 {
				b.WriteString("  ")
			}
			if c == give {
				cell = middle(cell, widths[c])
			}
			if right[c] {
				b.WriteString(figures.Pad(cell, widths[c]))
			} else {
				b.WriteString(figures.Pad(cell, -widths[c]))
			}
		}
		out[i] = line{strings.TrimRight(b.String(), " "), paint[i]}
	}
	return out
}

func (s Style) paint(code, text string) string {
	return terminal.Paint(s.Color, code, text)
}

func (s Style) wrap(text string, before int) []string {
	if s.Width <= 0 || utf8.RuneCountInString(text) <= s.Width-before {
		return []string{text}
	}
	return figures.Wrap(text, max(s.Width-before, 20))
}

// clip cuts text to the width.
func (s Style) clip(text string) string {
	if s.Width <= 0 || utf8.RuneCountInString(text) <= s.Width {
		return text
	}
	return string([]rune(text)[:max(s.Width-1, 0)]) + "…"
}

// middle shortens text in its middle.
func middle(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	end := (width - 1) / 2
	return string(runes[:width-1-end]) + "…" + string(runes[len(runes)-end:])
}

// spread puts left and right at the two ends of a line.
func spread(left, right string, width int) string {
	gap := width - utf8.RuneCountInString(left) - utf8.RuneCountInString(right)
	return left + strings.Repeat(" ", max(gap, 2)) + right
}

func max0(n number) number {
	if math.IsNaN(float64(n)) {
		return 0
	}
	return n
}

// rate formats a number per second, as the console does.
func rate(v float64) string {
	switch {
	case v > 0 && v < 0.01:
		return "<0.01"
	case v >= 999_500:
		return three(v/1e6) + "M"
	case v >= 999.5:
		return three(v/1e3) + "k"
	}
	return three(v)
}

// three formats v with at most three significant digits.
func three(v float64) string {
	digits := 2
	switch {
	case v >= 99.95:
		digits = 0
	case v >= 9.995:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// percent formats a share. 100 % and 0 % are exactly 1 and 0.
func percent(n number) string {
	p := float64(n) * 100
	switch {
	case math.IsNaN(p):
		return "-"
	case p == 0 || p == 100:
		return fmt.Sprintf("%.0f %%", p)
	case p >= 99:
		return fmt.Sprintf("%.1f %%", math.Floor(p*10)/10)
	case p < 0.1:
		return "<0.1 %"
	case p < 10:
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", p)
}

// seconds formats a duration.
func seconds(n number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return figures.Millis(float64(n) * 1000)
}

// span formats how long the program has run.
func span(s float64) string {
	d := time.Duration(max(s, 0) * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Write writes the overview as text.
func Write(w io.Writer, o Overview, s Style) error {
	_, err := io.WriteString(w, strings.Join(s.Lines(o), "\n")+"\n")
	return err
}
