package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// A mill is a server with jobs in every state, and the two ways to it.
type mill struct {
	store   *jobs.Store
	mail    *jobs.Queue[string, string]
	reports *jobs.Queue[string, string] // nobody works on it
	id      map[string]string           // of a job, by its key
	ways    map[string][]string         // the flags that lead here
	release chan struct{}               // ends the job that runs, once
	server  *embedded.Server
	proxy   *httptest.Server
}

const (
	natsToken  = "nats-token-of-the-test"
	adminToken = "admin-token-of-the-test"
)

func newMill(t *testing.T) *mill {
	t.Helper()
	m := &mill{id: map[string]string{}, release: make(chan struct{})}
	var err error
	m.server, err = embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess, Listen: "127.0.0.1:0", Token: natsToken})
	check(t, err)
	t.Cleanup(func() { m.server.Close(context.Background()) })
	nc, err := m.server.Connect()
	check(t, err)
	t.Cleanup(nc.Close)
	m.store, err = jobs.Open(t.Context(), nc, jobs.StoreOptions{Namespace: "shop", Durability: jobs.DurabilityProcess})
	check(t, err)
	t.Cleanup(func() { m.store.Close(context.Background()) })

	m.mail, err = jobs.NewQueue[string, string](t.Context(), m.store, "mail", jobs.QueueOptions{MaxAttempts: 2, RetryInitial: time.Millisecond})
	check(t, err)
	m.reports, err = jobs.NewQueue[string, string](t.Context(), m.store, "reports", jobs.QueueOptions{})
	check(t, err)
	w, err := m.mail.Work(m.handle, jobs.WorkerOptions{Name: "worker-1"})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // hand back what runs
		w.Close(ctx)
	})

	m.proxy = httptest.NewServer(admin.New(nil, admin.Options{Token: adminToken, Jobs: m.store, Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(m.proxy.Close)
	m.ways = map[string][]string{
		"admin": {"--admin", m.proxy.URL, "--token-file", secretFile(t, adminToken)},
		"nats":  {"--nats", m.server.Addr(), "--namespace", "shop", "--token-file", secretFile(t, natsToken)},
	}
	return m
}

// handle does what the input says.
func (m *mill) handle(ctx context.Context, j *jobs.Job[string]) (string, error) {
	switch j.Input {
	case "dead":
		j.Log("connecting to mx.example.com")
		return "", errors.New("send: dial tcp 10.0.0.25:25: connect: connection refused")
	case "failed":
		return "", jobs.Permanent(errors.New("no such customer"))
	case "retrying":
		return "", jobs.RetryIn(errors.New("421 too many connections"), time.Hour+30*time.Minute)
	case "running":
		j.Progress(jobs.Progress{Done: 1400, Total: 4000, Note: "resizing"})
		select {
		case <-m.release:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return "a secret result", nil
}

// submit adds a job, and waits until it is in a state.
func (m *mill) submit(t *testing.T, q *jobs.Queue[string, string], key string, o jobs.SubmitOptions, until jobs.State) {
	t.Helper()
	o.Key = key
	h, err := q.Submit(t.Context(), strings.TrimRight(key, "-0123456789"), o)
	check(t, err)
	m.id[key] = h.ID()
	if until == jobs.StateCanceled {
		check(t, h.Cancel(t.Context()))
	}
	m.until(t, h, func(s jobs.Status) bool { return s.State == until })
}

func (m *mill) until(t *testing.T, h *jobs.Handle[string], ok func(jobs.Status) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var last jobs.Status
	for s, err := range h.Watch(ctx) {
		check(t, err)
		if last = s; ok(s) {
			return
		}
	}
	t.Fatalf("job %s is over, %+v", h.ID(), last)
}

// grind makes a job in each state; the one that runs is the last.
func (m *mill) grind(t *testing.T) {
	t.Helper()
	m.submit(t, m.mail, "done", jobs.SubmitOptions{Owner: "alice"}, jobs.StateDone)
	m.submit(t, m.mail, "dead", jobs.SubmitOptions{}, jobs.StateDead)
	m.submit(t, m.mail, "failed", jobs.SubmitOptions{}, jobs.StateFailed)
	m.submit(t, m.mail, "retrying", jobs.SubmitOptions{}, jobs.StateRetrying)
	m.submit(t, m.mail, "canceled", jobs.SubmitOptions{Delay: time.Hour}, jobs.StateCanceled)
	m.submit(t, m.reports, "delayed", jobs.SubmitOptions{Delay: 5*time.Hour + time.Minute}, jobs.StateQueued)
	m.submit(t, m.reports, "queued", jobs.SubmitOptions{}, jobs.StateQueued)
	m.submit(t, m.mail, "running", jobs.SubmitOptions{}, jobs.StateRunning)
	m.until(t, m.mail.Job(m.id["running"]), func(s jobs.Status) bool { return s.Progress != nil })
	// A job is over before its item has left the queue.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for settled := false; !settled; {
		all, err := m.store.Queues(ctx)
		check(t, err)
		settled = slices.Contains(all, jobs.QueueStatus{Queue: "mail", Taken: 2, Dead: 1})
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the queues are %+v; want 2 taken and 1 dead in mail", all)
		}
	}
}

// state is that of a job now.
func (m *mill) state(t *testing.T, key string) string {
	t.Helper()
	s, err := m.store.Find(t.Context(), m.id[key])
	if errors.Is(err, jobs.ErrNotFound) {
		return "gone"
	}
	check(t, err)
	return s.State.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
	return name
}

// weirJobs runs weir jobs with a way to the jobs, and wants an exit code.
func weirJobs(t *testing.T, way []string, code int, args ...string) *session {
	t.Helper()
	s := newSession()
	if got := s.run(append(append([]string{"jobs"}, args...), way...)...); got != code {
		t.Errorf("jobs %v: exit code %d; want %d\nstdout: %s\nstderr: %s", args, got, code, s.stdout.String(), s.stderr.String())
	}
	return s
}

var (
	aFewSeconds = regexp.MustCompile(`\b\d+s\b`)
	anInstant   = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	aDuration   = regexp.MustCompile(`after \d+(\.\d+)? (µs|ms|s)\b`)
	aFence      = regexp.MustCompile(`fence \d+`)
)

// tame takes from a table what is never the same twice, and its blanks.
func (m *mill) tame(text string) string {
	for key, id := range m.id {
		text = strings.ReplaceAll(text, id, key+"-id")
		text = strings.ReplaceAll(text, id[:8], key+"-short")
	}
	text = aFewSeconds.ReplaceAllString(text, "NOW")
	text = anInstant.ReplaceAllString(text, "INSTANT")
	text = aDuration.ReplaceAllString(text, "after TIME")
	return aFence.ReplaceAllString(words(text), "fence N")
}

func TestJobsListOfEveryState(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	const all = `id state queue try age when error or progress
running-id running mail 1 NOW for NOW 1,400 of 4,000 resizing
queued-id queued reports - NOW due
delayed-id queued reports - NOW in 5h
canceled-id canceled mail - NOW NOW ago jobs: canceled
retrying-id retrying mail 1 NOW in 1h 421 too many connections
failed-id failed mail 1 NOW NOW ago no such customer
dead-id dead mail 2 NOW NOW ago send: dial tcp 10.0.0.25:25: connect: connection refused
done-id done mail 1 NOW NOW ago
`
	for name, way := range m.ways {
		for _, tt := range []struct {
			args string
			want func(line string) bool // of the lines of all
			last string
		}{
			{"list", func(string) bool { return true }, ""},
			{"list --queue reports", func(l string) bool { return strings.Contains(l, " reports ") }, ""},
			{"list --state dead,failed", func(l string) bool { return strings.Contains(l, " dead ") || strings.Contains(l, " failed ") }, ""},
			{"list --queue mail --state queued", nil, "No jobs in queue \"mail\" that are queued.\n"},
			{"list --queue no.such", nil, "No jobs in queue \"no.such\".\n"},
			{"list --limit 2", func(l string) bool { return strings.HasPrefix(l, "running") || strings.HasPrefix(l, "queued") },
				"2 jobs, and there are more: --limit shows them, --queue and --state choose.\n"},
		} {
			want := ""
			for line := range strings.Lines(all) {
				if tt.want != nil && (strings.HasPrefix(line, "id ") || tt.want(line)) {
					want += line
				}
			}
			s := weirJobs(t, way, command.ExitOK, strings.Fields(tt.args)...)
			if got := m.tame(s.stdout.String()); got != words(want+tt.last) || s.stderr.String() != "" {
				t.Errorf("%s: %s wrote\n%s\nstderr: %s\nwant\n%s", name, tt.args, got, s.stderr.String(), want+tt.last)
			}
		}
	}
}

func TestJobsDeadAndQueues(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	for name, way := range m.ways {
		s := weirJobs(t, way, command.ExitOK, "dead")
		want := "id queue try died last error\ndead-id mail 2 NOW ago send: dial tcp 10.0.0.25:25: connect: connection refused\n"
		if got := m.tame(s.stdout.String()); got != words(want) {
			t.Errorf("%s: dead wrote\n%s\nwant\n%s", name, got, want)
		}
		s = weirJobs(t, way, command.ExitOK, "queues")
		want = "queue waiting oldest taken dead\nmail 0 - 2 1\nreports 2 NOW 0 0\n"
		if got := m.tame(s.stdout.String()); got != words(want) {
			t.Errorf("%s: queues wrote\n%s\nwant\n%s", name, got, want)
		}
		var page jobsctl.QueuePage
		decode(t, weirJobs(t, way, command.ExitOK, "queues", "--json").stdout.String(), &page)
		if len(page.Queues) != 2 || page.Queues[0] != (jobs.QueueStatus{Queue: "mail", Taken: 2, Dead: 1}) {
			t.Fatalf("%s: queues --json wrote %+v", name, page)
		}
		reports := page.Queues[1]
		if age := reports.Oldest; age <= 0 || age > time.Minute {
			t.Errorf("%s: the oldest of reports has waited %v; want some time of this test", name, age)
		}
		if reports.Oldest = 0; reports != (jobs.QueueStatus{Queue: "reports", Waiting: 2}) {
			t.Errorf("%s: queues --json wrote %+v", name, page)
		}
	}
}

// decode reads one value, which is all there may be.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		t.Fatalf("%s: %v, more %v; want one value", text, err, d.More())
	}
}

func TestJobsJSONIsTheStatus(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	want, err := m.store.List(t.Context(), jobs.Filter{})
	check(t, err)
	for name, way := range m.ways {
		wanted := slices.Clone(want)
		for i := range wanted {
			if name == "nats" {
				wanted[i].Durability = 0 // a server does not tell
			}
		}
		var page jobsctl.Page
		s := weirJobs(t, way, command.ExitOK, "list", "--json")
		decode(t, s.stdout.String(), &page)
		if !equalJSON(t, page.Jobs, wanted) || page.More {
			t.Errorf("%s: list --json wrote %s\nwant %+v", name, s.stdout.String(), wanted)
		}
		for _, j := range wanted {
			var one jobs.Status
			s := weirJobs(t, way, command.ExitOK, "show", "--json", j.ID)
			decode(t, s.stdout.String(), &one)
			if want := map[string]int{m.id["dead"]: 2}[j.ID]; len(one.Log) != want {
				t.Errorf("%s: show --json %s has %d lines of the log; want %d", name, j.ID, len(one.Log), want)
			}
			one.Log = nil // as in wanted
			if !equalJSON(t, one, j) {
				t.Errorf("%s: show --json %s wrote %s\nwant %+v", name, j.ID, s.stdout.String(), j)
			}
		}
		decode(t, weirJobs(t, way, command.ExitOK, "list", "--json", "--limit", "3").stdout.String(), &page)
		if len(page.Jobs) != 3 || !page.More {
			t.Errorf("%s: list --json --limit 3 has %d jobs, more %v; want 3, true", name, len(page.Jobs), page.More)
		}
		if text := weirJobs(t, way, command.ExitOK, "list", "--json", "--queue", "none").stdout.String(); !strings.Contains(text, `"jobs": []`) {
			t.Errorf("%s: an empty list is %s; want an empty array", name, text)
		}
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	check(t, err)
	y, err := json.Marshal(b)
	check(t, err)
	return string(x) == string(y)
}

func TestJobsNeverShowInputsAndResults(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.submit(t, m.mail, "a-secret-key-is-shown", jobs.SubmitOptions{}, jobs.StateDone)
	for name, way := range m.ways {
		for _, args := range [][]string{{"list"}, {"list", "--json"}, {"show", m.id["a-secret-key-is-shown"]}, {"show", "--json", m.id["a-secret-key-is-shown"]}} {
			if text := weirJobs(t, way, command.ExitOK, args...).stdout.String(); strings.Contains(text, "secret result") {
				t.Errorf("%s: %v shows the result: %s", name, args, text)
			}
		}
	}
}

func TestJobsShow(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	const want = `job dead-id
queue mail
state dead after 2 attempts
key dead
submitted INSTANT UTC, NOW ago
started INSTANT UTC, NOW ago
finished INSTANT UTC, NOW ago, after TIME
fence N
error send: dial tcp 10.0.0.25:25: connect: connection refused

failed attempts
1 INSTANT transient worker-1
send: dial tcp 10.0.0.25:25: connect: connection refused
2 INSTANT transient worker-1
send: dial tcp 10.0.0.25:25: connect: connection refused

log
1 INSTANT connecting to mx.example.com
2 INSTANT connecting to mx.example.com

weir jobs retry dead-short runs it again, weir jobs drop dead-short forgets it.
`
	for name, way := range m.ways {
		for _, id := range []string{m.id["dead"], m.id["dead"][:jobsctl.MinID], strings.ToUpper(m.id["dead"][:10])} {
			s := weirJobs(t, way, command.ExitOK, "show", id)
			got := m.tame(s.stdout.String())
			if name == "admin" {
				got = strings.Replace(got, "durability process\n", "", 1)
			}
			if got != words(want) {
				t.Errorf("%s: show %s wrote\n%s\nwant\n%s", name, id, got, want)
			}
		}
	}
}

func TestJobsShowWatchFollowsToTheEnd(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"admin", "nats"} {
		m := newMill(t)
		m.grind(t)
		s := newSession()
		s.stderr.on("running, attempt 1", func() { close(m.release) })
		args := append([]string{"jobs", "show", "--watch", m.id["running"]}, m.ways[name]...)
		if code := s.run(args...); code != command.ExitOK {
			t.Errorf("%s: exit code %d; stderr %s", name, code, s.stderr.String())
		}
		lines := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
		if last := m.tame(lines[len(lines)-1]); len(lines) < 2 || !strings.HasPrefix(last, "running-id: done after 1 attempt") ||
			!strings.Contains(lines[0], "35% 1,400 of 4,000 resizing") {
			t.Errorf("%s: stderr %q; want how it ran, and that it is done", name, lines)
		}
		if !strings.Contains(words(s.stdout.String()), "state done after 1 attempt") {
			t.Errorf("%s: stdout %s; want the job as it ended", name, s.stdout.String())
		}

		// What has ended otherwise is an exit code of 1, and is not waited for.
		s = weirJobs(t, m.ways[name], command.ExitFailed, "show", "-w", m.id["failed"])
		if want := "weir: job " + m.id["failed"] + " is failed\n"; !strings.HasSuffix(s.stderr.String(), want) {
			t.Errorf("%s: stderr %q; want %q", name, s.stderr.String(), want)
		}
	}
}

func TestJobsShowWatchJSONIsALineAtEachChange(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	s := newSession()
	s.stdout.on(`"running"`, func() { close(m.release) })
	if code := s.run(append([]string{"jobs", "show", "--watch", "--json", m.id["running"]}, m.ways["admin"]...)...); code != command.ExitOK {
		t.Errorf("exit code %d; stderr %s", code, s.stderr.String())
	}
	var seen []string
	for in := bufio.NewScanner(strings.NewReader(s.stdout.String())); in.Scan(); {
		var j jobs.Status
		decode(t, in.Text(), &j)
		seen = append(seen, j.State.String())
	}
	if len(seen) < 2 || seen[0] != "running" || seen[len(seen)-1] != "done" {
		t.Errorf("states %q; want running to done", seen)
	}
}

func TestJobsShowWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	s := newSession()
	s.stderr.on("running, attempt 1", func() { s.signals <- os.Interrupt })
	if code := s.run(append([]string{"jobs", "show", "--watch", m.id["running"]}, m.ways["nats"]...)...); code != command.ExitFailed ||
		!strings.HasSuffix(s.stderr.String(), "weir: interrupted\n") {
		t.Errorf("exit code %d, stderr %q; want %d, that it was interrupted", code, s.stderr.String(), command.ExitFailed)
	}
}
