package jobsctl

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// clock is how instants are written.
const clock = "2006-01-02 15:04:05"

// nameWidth is that of the names before a job's facts.
const nameWidth = 10

// WriteJob writes all that is known of a job, its failed attempts last.
func WriteJob(w io.Writer, j jobs.Status, s Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", s.paint(terminal.Bold, "job"), s.paint(terminal.Bold, plain.Line(j.ID)))
	fact := func(name, text string) {
		if text == "" {
			return
		}
		for i, line := range s.wrap(text, nameWidth+4) {
			if i > 0 {
				name = ""
			}
			if name == "state" {
				line = s.paint(stateColors[j.State.String()], line)
			}
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %s  %s", figures.Pad(name, -nameWidth), line), " ") + "\n")
		}
	}
	fact("label", j.Label)
	fact("queue", j.Queue)
	fact("state", s.state(j))
	fact("key", j.Key)
	fact("owner", j.Owner)
	fact("limit key", j.LimitKey)
	for i, name := range slices.Sorted(maps.Keys(j.Headers)) {
		title := ""
		if i == 0 {
			title = "headers"
		}
		fact(title, name+": "+j.Headers[name])
	}
	fact("submitted", s.instant(j.Submitted))
	if !j.NotBefore.IsZero() && !j.State.Terminal() && j.State != jobs.StateRunning {
		fact("not before", j.NotBefore.UTC().Format(clock)+", "+s.ahead(j.NotBefore))
	}
	fact("started", s.instant(j.Started))
	fact("finished", s.finished(j))
	fact("durability", j.Durability.String())
	if j.Progress != nil && j.State != jobs.StateDone {
		fact("progress", progress(*j.Progress))
	}
	if j.Fence > 0 {
		fact("fence", strconv.FormatUint(j.Fence, 10))
	}
	if j.Snoozes > 0 {
		fact("snoozes", strconv.Itoa(j.Snoozes))
	}
	fact("error", j.Error)
	s.history(&b, j)
	s.log(&b, j)
	return put(w, b.String()+next(j))
}

// state is the state with the number of attempts.
func (s Style) state(j jobs.Status) string {
	switch n := j.Attempt; {
	case j.State == jobs.StateRunning || j.State == jobs.StateRetrying && n > 0:
		return fmt.Sprintf("%s, attempt %d", j.State, n)
	case n == 0:
		return j.State.String()
	case n == 1:
		return j.State.String() + " after 1 attempt"
	default:
		return fmt.Sprintf("%s after %d attempts", j.State, n)
	}
}

// history writes the failed attempts, each with the first line of its error:
// all of the last one has been written.
func (s Style) history(b *strings.Builder, j jobs.Status) {
	if len(j.History) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", s.paint(terminal.Bold, "failed attempts"))
	for _, a := range j.History {
		parts := []string{a.Ended.UTC().Format(clock)}
		for _, part := range []string{a.Class, a.Worker} {
			if part != "" {
				parts = append(parts, cut(part, 0))
			}
		}
		fmt.Fprintf(b, "  %3d  %s\n", a.Attempt, strings.Join(parts, "  "))
		for _, line := range s.wrap(firstLine(a.Error), 7) {
			fmt.Fprintf(b, "       %s\n", s.paint(terminal.Red, line))
		}
	}
	if left := j.History[0].Attempt - 1; left > 0 && len(j.History) == jobs.MaxHistory {
		fmt.Fprintf(b, "  The %d before them are not kept.\n", left)
	}
}

// log writes the log, each line with its attempt and time.
func (s Style) log(b *strings.Builder, j jobs.Status) {
	if j.Logged == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", s.paint(terminal.Bold, "log"))
	if left := j.Logged - len(j.Log); left > 0 {
		fmt.Fprintf(b, "  The %s before these are not kept.\n", figures.Count(int64(left)))
	}
	for _, line := range j.Log {
		before := fmt.Sprintf("  %3d  %s  ", line.Attempt, line.At.UTC().Format(clock))
		for i, text := range s.wrap(line.Text, len(before)) {
			if i > 0 {
				before = strings.Repeat(" ", len(before))
			}
			b.WriteString(before + text + "\n")
		}
	}
}

// next says what to do with a job that did not come to an end as it should.
func next(j jobs.Status) string {
	id := plain.Line(j.ID[:min(len(j.ID), shortID)])
	switch j.State {
	case jobs.StateFailed, jobs.StateDead:
		return fmt.Sprintf("\nweir jobs retry %s runs it again, weir jobs drop %s forgets it.\n", id, id)
	case jobs.StateCanceled:
		return fmt.Sprintf("\nweir jobs retry %s runs it after all.\n", id)
	}
	return ""
}

// wrap breaks text at its own lines, and at the width, less what stands before
// it.
func (s Style) wrap(text string, before int) []string {
	var out []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, " \r\n")
		if strings.HasPrefix(line, "\t") { // the places of a stack
			line = "  " + strings.TrimSpace(line)
		}
		line = plain.Line(line)
		if room := max(s.Width-before, minLast); s.Width > 0 && utf8.RuneCountInString(line) > room {
			out = append(out, figures.Wrap(line, room)...)
		} else {
			out = append(out, line)
		}
	}
	return out
}

// instant is a time and how long ago that was; empty for none.
func (s Style) instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(clock) + " UTC, " + s.since(t) + " ago"
}

func (s Style) ahead(t time.Time) string {
	if t.After(s.now()) {
		return "in " + Span(t.Sub(s.now()))
	}
	return "due"
}

// finished is when a job was over, and how long the last attempt took.
func (s Style) finished(j jobs.Status) string {
	text := s.instant(j.Finished)
	if text != "" && !j.Started.IsZero() && !j.Finished.Before(j.Started) {
		text += ", after " + figures.Millis(float64(j.Finished.Sub(j.Started))/float64(time.Millisecond))
	}
	return text
}

// barRoom is how wide the bar of a progress is.
const barRoom = 20

// Moment says in one line how a job stands, for a line that is drawn again and
// again.
func (s Style) Moment(j jobs.Status) string {
	text := s.state(j)
	switch when := s.when(j); {
	case j.State == jobs.StateRunning:
		text += " for " + max(s.now().Sub(j.Started), 0).Truncate(time.Second).String()
	case when != "due":
		text += " " + when
	}
	if p := j.Progress; p != nil && !j.State.Terminal() {
		if p.Total > 0 {
			share := min(max(float64(p.Done)/float64(p.Total), 0), 1)
			text += " " + figures.Pad(figures.Bar(share, barRoom), -barRoom) + fmt.Sprintf(" %3.0f%%", 100*share)
		}
		text += " " + progress(*p)
	} else if j.Error != "" {
		text += ": " + firstLine(j.Error)
	}
	return cut(text, 0)
}
