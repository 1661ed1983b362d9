package jobscheck

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// An event is one line of the log.
type event struct {
	At   int64  `json:"at"` // now(), in ns
	By   string `json:"by"` // process and life, "worker-2.3"
	What what   `json:"what"`
	// Name is the job's name, which is in its input. For a fault, it is the process
	// that the fault hits.
	Name string `json:"name,omitempty"`
	ID   string `json:"id,omitempty"`
	// From is when the call began that ended at At.
	From    int64  `json:"from,omitempty"`
	Joined  bool   `json:"joined,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Fence   uint64 `json:"fence,omitempty"`
	Result  string `json:"result,omitempty"`
	Err     string `json:"err,omitempty"`
}

// A what is the kind of an event.
type what string

const (
	// Events of submitters. The first of each pair is written before the call, so
	// that the log shows calls whose process died.
	submitting what = "submitting"
	submitted  what = "submitted" // Err: "", or the result of errorName
	canceling  what = "canceling" //
	canceled   what = "canceled"
	waited     what = "waited" // with Result or Err
	quiet      what = "quiet"  // no more submits or waits

	// Events of workers.
	started what = "started"
	ended   what = "ended" // with Result, or with Err, which begins with the class
	kept    what = "kept"  // the Worker reports that a result is kept
	said    what = "said"  // another of the Worker's events

	// Events of faults, written by the program that starts the other processes.
	killed    what = "killed"
	paused    what = "paused"
	continued what = "continued"
	asked     what = "asked" // to stop gracefully
	gone      what = "gone"  // the process has exited
	up        what = "up"    // the process was started
)

// String formats the event as one line of a history, with its time relative to
// beginning.
func (e event) line(beginning int64) string {
	s := fmt.Sprintf("%10.4fs %-13s %-10s", time.Duration(e.At-beginning).Seconds(), e.By, e.What)
	if e.From != 0 {
		s += fmt.Sprintf(" (took %v)", time.Duration(e.At-e.From).Round(10*time.Microsecond))
	}
	if e.Attempt != 0 {
		s += fmt.Sprintf(" attempt %d fence %d", e.Attempt, e.Fence)
	}
	if e.Joined {
		s += " joined"
	}
	if e.Result != "" {
		s += " result " + e.Result
	}
	if e.Err != "" {
		s += " error " + e.Err
	}
	return s
}

// A journal is the log as written by one process.
type journal struct {
	by   string
	file *os.File
}

// openJournal opens the log at path for appending. With O_APPEND and one write per
// line, lines of several processes do not mix.
func openJournal(path, by string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{by, f}, nil
}

// note appends e, with the current time if it has none. An incomplete log is
// worthless, so the process ends if the write fails.
func (j *journal) note(e event) {
	if e.At == 0 {
		e.At = now()
	}
	e.By = j.by
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("jobscheck: writing the log: %v", err))
	}
}

func (j *journal) Close() error { return j.file.Close() }

// readJournal returns all events of a log, sorted by time.
func readJournal(path string) ([]event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("jobscheck: log, line %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(min(max(a.At-b.At, -1), 1)) })
	return events, lines.Err()
}
