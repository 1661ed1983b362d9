package jobs

import (
	"strings"
	"time"
	"unicode"
)

// Bounds of a job's log, see [Job.Log].
const (
	MaxLogLines = 40      // lines that Status.Log keeps of a job
	MaxLogLine  = 256     // bytes of LogLine.Text; the rest of a line is cut
	MaxLogBytes = 4 << 10 // bytes of all lines of Status.Log
)

// A LogLine is a line that a handler wrote with [Job.Log].
type LogLine struct {
	At      time.Time `json:"at"`      // time on the server's clock, as far as it is known to the worker
	Attempt int       `json:"attempt"` // number of the attempt that wrote it
	Text    string    `json:"text"`    // the line, without its end
}

// Log adds a text to the job's log, which Status, weir jobs show and the console's page
// of the job show: one line for each line of the text. It does not block. The last
// MaxLogLines lines of all attempts are kept, with MaxLogBytes in all, until the job is
// retried or forgotten. Lines are stored like Progress, so a worker that is killed can
// lose those of the last MinProgress. After the attempt is over it does nothing. It is
// safe for concurrent use.
//
// Any user who may see the job's Status sees its log, and it is stored as it is: leave
// out what is secret. It is no replacement for the program's log.
func (j *Job[In]) Log(text string) {
	if j.attempt != nil {
		j.attempt.log(text)
	}
}

// log keeps the lines of text for Status, and writes them now or when MinProgress has
// passed.
func (a *attempt) log(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if a.logged == 0 {
		a.lines, a.logged = a.Log, a.Logged // of the attempts before
	}
	// The old lines are being written, perhaps: they are not changed.
	all, at := a.lines[:len(a.lines):len(a.lines)], a.now()
	for line := range strings.Lines(text) {
		line = logText(line)
		if line == "" {
			continue
		}
		all = append(all, LogLine{At: at, Attempt: a.Attempt, Text: line})
		a.logged++
		if len(all) >= 2*MaxLogLines {
			all = lastLines(all)
		}
	}
	a.lines = lastLines(all)
	a.newsLocked()
}

// lastLines returns the last lines, as many as are kept.
func lastLines(all []LogLine) []LogLine {
	from, bytes := len(all), 0
	for from > 0 && len(all)-from < MaxLogLines && bytes+len(all[from-1].Text) <= MaxLogBytes {
		from--
		bytes += len(all[from].Text)
	}
	return append([]LogLine(nil), all[from:]...)
}

// logText returns the text of a line. It has no control characters, of which JSON makes
// six bytes each.
func logText(line string) string {
	line = strings.TrimRightFunc(line, unicode.IsSpace)
	if len(line) > MaxLogLine {
		line = line[:MaxLogLine]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line, ""))
}

// now is the time by the server's clock as far as it is known, or that of a job in memory.
// It is never before the start of the attempt, though the known clock can be behind.
func (a *attempt) now() time.Time {
	if a.clock != nil {
		return a.clock()
	}
	if now := a.w.queue.store.journal.Now(); now.After(a.Started) {
		return now
	}
	return a.Started
}
