package jobsctl_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
)

// now is what ages count from in these tests.
var now = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// dead is a job with all that can be said of one.
var dead = jobs.Status{
	ID: "77b0e1c26f0d4b7a9e8d3c2b1a09f8e7", Queue: "mail", State: jobs.StateDead,
	Key: "invoice-2026-11-20/4711", Owner: "shop", Durability: jobs.DurabilityDisk,
	Attempt: 3, Fence: 90_211, Revision: 90_214,
	Submitted: ago(26 * time.Minute), Started: ago(3*time.Minute + 1412*time.Millisecond), Finished: ago(3 * time.Minute),
	Error: "send: dial tcp 10.0.0.25:25: connect: connection refused (after 3 addresses of mx.example.com, the last of them 10.0.0.27)",
	History: []jobs.FailedAttempt{
		{Attempt: 1, Ended: ago(25 * time.Minute), Error: "send: 421 too many connections, try again later", Class: "transient", Worker: "worker-1:4021"},
		{Attempt: 2, Ended: ago(20 * time.Minute), Error: "lease lost: the worker died", Worker: "worker-1:4021"},
		{Attempt: 3, Ended: ago(3 * time.Minute), Error: "send: dial tcp 10.0.0.25:25: connect: connection refused (after 3 addresses of mx.example.com, the last of them 10.0.0.27)", Class: "transient", Worker: "worker-2:118"},
	},
}

// every are jobs in every state, and one with a name as long as they may be.
func every() []jobs.Status {
	return []jobs.Status{
		{ID: "3f9a12c4d0e18b2f7a6c5d4e3f2a1b0c", Queue: "thumbnails", State: jobs.StateRunning, Attempt: 1, Submitted: ago(73 * time.Second), Started: ago(71 * time.Second),
			Progress: &jobs.Progress{Done: 1400, Total: 4000, Note: "resizing to 640 × 480"}},
		{ID: "8812aa01d0e18b2f7a6c5d4e3f2a1b0c", Queue: "mail", State: jobs.StateRetrying, Attempt: 2, Submitted: ago(4 * time.Minute), Started: ago(time.Minute), NotBefore: now.Add(34 * time.Second),
			Error: "send: 421 too many connections,\n\x1b[31mtry again later"},
		{ID: "0c4f77e1d0e18b2f7a6c5d4e3f2a1b0c", Queue: "mail", State: jobs.StateQueued, Submitted: ago(9 * time.Second)},
		{ID: "5e5e5e5ed0e18b2f7a6c5d4e3f2a1b0c", Queue: "mail", State: jobs.StateQueued, Submitted: ago(40 * time.Second), NotBefore: now.Add(5 * time.Hour)},
		dead,
		{ID: "a1a1a1a1d0e18b2f7a6c5d4e3f2a1b0c", Queue: strings.Repeat("reports-of-the-night-", 3) + "1", State: jobs.StateFailed, Attempt: 1, Submitted: ago(50 * time.Hour), Started: ago(49 * time.Hour), Finished: ago(49 * time.Hour),
			Error: "report: no such customer"},
		{ID: "b2b2b2b2d0e18b2f7a6c5d4e3f2a1b0c", Queue: "mail", State: jobs.StateDone, Attempt: 12, Submitted: ago(20 * time.Minute), Started: ago(10 * time.Minute), Finished: ago(9 * time.Minute)},
		{ID: "c3c3c3c3d0e18b2f7a6c5d4e3f2a1b0c", Queue: "mail", State: jobs.StateCanceled, Submitted: ago(3 * time.Hour), Finished: ago(2 * time.Hour), Error: "canceled"},
	}
}

// A look is one way to write something.
type look struct {
	file  string
	write func(io.Writer, jobsctl.Style) error
}

func looks() []look {
	list := jobsctl.Page{Jobs: every(), More: true}
	deadList := jobsctl.Page{Jobs: []jobs.Status{dead, every()[5]}}
	running := every()[0]
	running.Owner, running.Durability, running.Fence = "alice", jobs.DurabilityMajority, 7
	running.Logged, running.Log = 1242, []jobs.LogLine{
		{At: ago(71 * time.Second), Attempt: 1, Text: "4,000 pictures in /var/spool/pictures"},
		{At: ago(2 * time.Second), Attempt: 1, Text: "/var/spool/pictures/2026/11/20/IMG_0042.jpg has no color profile, so it is treated as sRGB; \x1b[31mits size is 640 × 480"},
	}
	panicked := dead
	panicked.Error = "handler panicked: index out of range [3] with length 3\n\ngoroutine 173 [running]:\nmain.resize({0xd559a0, 0xf17960})\n\t/src/thumbnails/resize.go:42 +0x1c5\n"
	panicked.History = []jobs.FailedAttempt{{Attempt: 3, Ended: ago(time.Minute), Error: panicked.Error}}
	late := dead
	late.Attempt, late.History = 20, nil
	for n := 5; n <= 20; n++ {
		late.History = append(late.History, jobs.FailedAttempt{Attempt: n, Ended: ago(time.Duration(25-n) * time.Minute), Error: "refused"})
	}
	return []look{
		{"list", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteList(w, list, jobsctl.Query{}, s) }},
		{"dead", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteDead(w, deadList, jobsctl.Query{}, s) }},
		{"show", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, dead, s) }},
		{"show-panic", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, panicked, s) }},
		{"show-running", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, running, s) }},
		{"show-queued", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, every()[3], s) }},
		{"show-history", func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, late, s) }},
		{"queues", func(w io.Writer, s jobsctl.Style) error {
			return jobsctl.WriteQueues(w, []jobs.QueueStatus{{Queue: "mail", Waiting: 12_431, Taken: 16, Dead: 3, Oldest: 95 * time.Minute}, {Queue: every()[5].Queue}}, s)
		}},
		{"moments", func(w io.Writer, s jobsctl.Style) error {
			for _, j := range every() {
				if _, err := io.WriteString(w, s.Moment(j)+"\n"); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

func TestGolden(t *testing.T) {
	styles := map[string]jobsctl.Style{
		"80": {Width: 80}, "120": {Width: 120}, "any": {}, "color80": {Width: 80, Color: true},
	}
	for _, l := range looks() {
		for name, style := range styles {
			t.Run(l.file+"-"+name, func(t *testing.T) {
				style.Now = now
				var got bytes.Buffer
				if err := l.write(&got, style); err != nil {
					t.Fatal(err)
				}
				golden.Compare(t, filepath.Join("testdata", l.file+"-"+name+".txt"), got.Bytes())
			})
		}
	}
}

func TestWhatIsWrittenFitsAndHasNoControlCharacters(t *testing.T) {
	for _, l := range looks() {
		if l.file == "moments" {
			continue // cut by who draws them
		}
		for _, width := range []int{0, 80, 100, 120, 300} {
			var b strings.Builder
			if err := l.write(&b, jobsctl.Style{Width: width, Now: now}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); width > 0 && n > width {
					t.Errorf("%s, width %d: a line of %d columns: %q", l.file, width, n, line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.HasSuffix(line, " ") {
					t.Errorf("%s, width %d: control characters or blanks at the end: %q", l.file, width, line)
				}
			}
		}
	}
}

func TestNothingToListSaysOfWhat(t *testing.T) {
	for _, tt := range []struct {
		q    jobsctl.Query
		want string
	}{
		{jobsctl.Query{}, "No jobs.\n"},
		{jobsctl.Query{Queue: "mail"}, "No jobs in queue \"mail\".\n"},
		{jobsctl.Query{Queue: "mail", States: []jobs.State{jobs.StateDead, jobs.StateFailed, jobs.StateDone}}, "No jobs in queue \"mail\" that are dead, failed or done.\n"},
	} {
		var b strings.Builder
		if err := jobsctl.WriteList(&b, jobsctl.Page{}, tt.q, jobsctl.Style{}); err != nil || b.String() != tt.want {
			t.Errorf("WriteList(%+v) wrote %q, %v; want %q", tt.q, b.String(), err, tt.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 999 * time.Millisecond: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m",
		59*time.Minute + 59*time.Second: "59m", time.Hour: "1h", 48*time.Hour - 1: "47h", 48 * time.Hour: "2d", 400 * 24 * time.Hour: "400d",
	} {
		if got := jobsctl.Span(d); got != want {
			t.Errorf("Span(%v) = %q; want %q", d, got, want)
		}
	}
}
