package jobsctl_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain/plaintest"
)

// What jobs brought, and what their servers say, hides nothing from who lists them.
func TestH21_JobsHideNothing(t *testing.T) {
	for _, k := range plaintest.Kinds {
		s := "a" + k.Hidden + "b"
		j := dead
		j.Queue, j.Key, j.Owner, j.ID = s, s, s, s+strings.Repeat("0", 32)
		j.Error = "http://user:secret@h.test/ " + s + "\n\t" + s
		j.Progress = &jobs.Progress{Done: 1, Note: s}
		j.History = []jobs.FailedAttempt{{Attempt: 1, Ended: now, Error: s, Class: s, Worker: s}}
		running := j
		running.State = jobs.StateRunning
		page := jobsctl.Page{Jobs: []jobs.Status{j, running}}
		for name, write := range map[string]func(io.Writer, jobsctl.Style) error{
			"list":    func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteList(w, page, jobsctl.Query{}, s) },
			"dead":    func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteDead(w, page, jobsctl.Query{}, s) },
			"job":     func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, j, s) },
			"running": func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, running, s) },
			"moment":  func(w io.Writer, s jobsctl.Style) error { _, err := io.WriteString(w, s.Moment(running)); return err },
			"queues": func(w io.Writer, style jobsctl.Style) error {
				return jobsctl.WriteQueues(w, []jobs.QueueStatus{{Queue: s}}, style)
			},
			"none": func(w io.Writer, style jobsctl.Style) error {
				return jobsctl.WriteList(w, jobsctl.Page{}, jobsctl.Query{Queue: s}, style)
			},
			"JSON": func(w io.Writer, _ jobsctl.Style) error { return jobsctl.WriteJSON(w, page) },
			"line": func(w io.Writer, _ jobsctl.Style) error { return jobsctl.WriteLine(w, page) },
		} {
			for _, width := range []int{0, 80} {
				var b bytes.Buffer
				if err := write(&b, jobsctl.Style{Width: width, Now: now}); err != nil {
					t.Fatal(err)
				}
				if found := plaintest.Find(b.String()); found != "" || strings.Contains(b.String(), "secret") {
					t.Errorf("%s in %s: %q, found %q; want it escaped, and no password", k.Name, name, b.String(), found)
				}
				if width == 0 && name != "JSON" && name != "line" && !strings.Contains(b.String(), k.Shown) {
					t.Errorf("%s in %s: %q; want %q in it", k.Name, name, b.String(), k.Shown)
				}
			}
		}
	}
}
