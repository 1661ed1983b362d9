package jobsctl

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// The maximum width of a queue's name in a table: less if errors need the width.
const (
	mostQueue    = 20
	narrowQueue  = 12
	narrowerThan = 100

	narrowestQueue = 8 // beside labels
	narrowLabel    = 24
	wideLabel      = 40
)

var (
	idColumn      = column{head: "id"}
	stateColumn   = column{head: "state", color: func(cell string) string { return stateColors[cell] }}
	attemptColumn = column{head: "try", right: true}
)

func (s Style) queueColumn() column {
	if s.Width < narrowerThan {
		return column{head: "queue", most: narrowQueue}
	}
	return column{head: "queue", most: mostQueue}
}

// WriteList writes the result of q as a table, a line for each job.
func WriteList(w io.Writer, p Page, q Query, s Style) error {
	if len(p.Jobs) == 0 {
		return put(w, "No jobs"+q.words()+".\n")
	}
	columns := []column{idColumn, stateColumn, s.queueColumn(), attemptColumn,
		{head: "age", right: true}, {head: "when"}, {head: "job"}, {head: "error or progress"}}
	rows := make([][]string, len(p.Jobs))
	labels := false
	for i, j := range p.Jobs {
		labels = labels || j.Label != ""
		rows[i] = []string{s.id(j.ID), j.State.String(), plain.Line(j.Queue), count(j.Attempt),
			s.since(j.Submitted), s.when(j), s.label(j), remark(j)}
	}
	switch narrow := s.Width > 0 && s.Width < narrowerThan; {
	case !labels:
		columns, rows = without(columns, rows, "job")
	case narrow:
		columns, rows = without(columns, rows, "age") // when says more
		columns[2].most = narrowestQueue
	}
	return put(w, s.table(columns, rows)+p.footer())
}

// label returns a job's label, shortened in its middle: both ends of a path matter.
func (s Style) label(j jobs.Status) string {
	text := plain.Line(j.Label)
	most := wideLabel
	if s.Width < narrowerThan {
		most = narrowLabel
	}
	runes := []rune(text)
	if s.Width == 0 || len(runes) <= most {
		return text
	}
	end := most / 2
	return string(runes[:most-1-end]) + "…" + string(runes[len(runes)-end:])
}

// without removes the column with that head.
func without(columns []column, rows [][]string, head string) ([]column, [][]string) {
	at := slices.IndexFunc(columns, func(c column) bool { return c.head == head })
	for i := range rows {
		rows[i] = slices.Delete(rows[i], at, at+1)
	}
	return slices.Delete(columns, at, at+1), rows
}

// WriteDead writes the dead list: how often each job was tried, when it died, and why.
func WriteDead(w io.Writer, p Page, q Query, s Style) error {
	if len(p.Jobs) == 0 {
		return put(w, "No jobs"+q.words()+".\n")
	}
	columns := []column{idColumn, s.queueColumn(), attemptColumn, {head: "died", right: true}, {head: "last error"}}
	rows := make([][]string, len(p.Jobs))
	for i, j := range p.Jobs {
		rows[i] = []string{s.id(j.ID), plain.Line(j.Queue), count(j.Attempt), s.ago(j), firstLine(j.Error)}
	}
	return put(w, s.table(columns, rows)+p.footer())
}

// countColumns is the width of a queue's numbers, enough for a million waiting jobs.
const countColumns = 38

// WriteQueues writes how many unfinished and dead jobs each queue has.
func WriteQueues(w io.Writer, all []jobs.QueueStatus, s Style) error {
	if len(all) == 0 {
		return put(w, "No queue has been used yet.\n")
	}
	rows := make([][]string, len(all))
	for i, q := range all {
		oldest := "-"
		if q.Waiting > 0 {
			oldest = Span(q.Oldest)
		}
		name := plain.Line(q.Queue)
		if q.Paused {
			name = "(paused) " + name
		}
		rows[i] = []string{name, figures.Count(int64(q.Waiting)), oldest,
			figures.Count(int64(q.Taken)), figures.Count(int64(q.Dead))}
	}
	return put(w, s.table([]column{{head: "queue", most: max(narrowQueue, s.Width-countColumns)}, {head: "waiting", right: true}, {head: "oldest", right: true},
		{head: "taken", right: true}, {head: "dead", right: true}}, rows))
}

// footer writes a line that there are more jobs.
func (p Page) footer() string {
	if !p.More {
		return ""
	}
	return fmt.Sprintf("%s jobs, and there are more: --limit shows them, --queue and --state choose.\n", figures.Count(int64(len(p.Jobs))))
}

// words describes the jobs that the query selects.
func (q Query) words() string {
	var b strings.Builder
	if q.Queue != "" {
		fmt.Fprintf(&b, " in queue %q", q.Queue)
	}
	if len(q.States) > 0 {
		b.WriteString(" that are " + Words(q.States, "or"))
	}
	return plain.Line(b.String())
}

// when describes a job's state in time: how long it has run, when it starts, or when it
// ended.
func (s Style) when(j jobs.Status) string {
	switch {
	case j.State.Terminal():
		return s.ago(j)
	case j.State == jobs.StateRunning:
		return "for " + s.since(j.Started)
	case j.NotBefore.After(s.now()):
		return "in " + Span(j.NotBefore.Sub(s.now()))
	}
	return "due"
}

func (s Style) ago(j jobs.Status) string {
	if j.Finished.IsZero() {
		return "-"
	}
	return s.since(j.Finished) + " ago"
}

// remark summarizes a job in one line.
func remark(j jobs.Status) string {
	if j.State == jobs.StateRunning && j.Progress != nil {
		return progress(*j.Progress)
	}
	return firstLine(j.Error)
}

func progress(p jobs.Progress) string {
	text := figures.Count(p.Done)
	if p.Total > 0 {
		text += " of " + figures.Count(p.Total)
	}
	return strings.TrimSpace(text + " " + p.Note)
}

// count is a number of attempts.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func put(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
