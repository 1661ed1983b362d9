package cli_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/jobs"
)

func TestJobsRetryCancelDropOne(t *testing.T) {
	t.Parallel()
	for name := range map[string]bool{"admin": true, "nats": true} {
		m := newMill(t)
		m.grind(t)
		way := m.ways[name]
		for _, tt := range []struct{ verb, key, says, now string }{
			{"cancel", "queued", "canceled", "canceled"},
			{"cancel", "canceled", "canceled", "canceled"}, // again
			{"cancel", "retrying", "canceled", "canceled"},
			{"cancel", "running", "canceled", "canceled"},
			{"retry", "queued", "queued again", "queued"},
			{"drop", "dead", "dropped", "gone"},
			{"drop", "done", "dropped", "gone"},
			{"drop", "canceled", "dropped", "gone"},
		} {
			id := m.id[tt.key]
			s := weirJobs(t, way, command.ExitOK, tt.verb, id[:12])
			if got, state := strings.Fields(s.stdout.String()), m.state(t, tt.key); got[0] != id || strings.Join(got[2:], " ") != tt.says || state != tt.now {
				t.Errorf("%s: %s of %s wrote %q, and it is %s; want %s, %s", name, tt.verb, tt.key, s.stdout.String(), state, tt.says, tt.now)
			}
		}
		// A job that is retried is worked on again.
		weirJobs(t, way, command.ExitOK, "retry", m.id["failed"])
		m.until(t, m.mail.Job(m.id["failed"]), func(s jobs.Status) bool { return s.State == jobs.StateFailed })
	}
}

func TestJobsSeveralAtOnceGoOnPastAFault(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	for name, way := range m.ways {
		s := weirJobs(t, way, command.ExitFailed, "cancel", "000000", m.id["done"], m.id["failed"][:8], m.id["delayed"][:8])
		wantOut := m.id["delayed"] + "  reports  canceled\n"
		wantErr := "weir: there is no job 000000, or no longer: what is over is kept for a time only. \"weir jobs list\" shows what there is\n" +
			"weir: job " + m.id["done"] + " is done: only jobs that are queued, running or retrying can be canceled\n" +
			"weir: job " + m.id["failed"] + " is failed: only jobs that are queued, running or retrying can be canceled\n"
		if s.stdout.String() != wantOut || s.stderr.String() != wantErr {
			t.Errorf("%s: stdout %s\nstderr %s\nwant %s\n%s", name, s.stdout.String(), s.stderr.String(), wantOut, wantErr)
		}
	}
}

func TestJobsConflictsSayWhatToDo(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	for name, way := range m.ways {
		for _, tt := range []struct{ verb, key, want string }{
			{"drop", "queued", ` is queued: only jobs that are done, failed, dead or canceled can be dropped; to be rid of it, "weir jobs cancel ` + m.id["queued"][:8] + `" first`},
			{"retry", "running", " is running: only jobs that are failed, dead or canceled can be queued again"},
			{"retry", "done", " is done: only jobs that are failed, dead or canceled can be queued again"},
			{"cancel", "dead", " is dead: only jobs that are queued, running or retrying can be canceled"},
		} {
			before := m.state(t, tt.key)
			s := weirJobs(t, way, command.ExitFailed, tt.verb, m.id[tt.key])
			if want := "weir: job " + m.id[tt.key] + tt.want + "\n"; s.stderr.String() != want || s.stdout.String() != "" || m.state(t, tt.key) != before {
				t.Errorf("%s: %s of %s: stdout %q, stderr %q, state %s; want nothing, %q, %s",
					name, tt.verb, tt.key, s.stdout.String(), s.stderr.String(), m.state(t, tt.key), want, before)
			}
		}
	}
}

func TestJobsAllInAState(t *testing.T) {
	t.Parallel()
	for name := range map[string]bool{"admin": true, "nats": true} {
		m := newMill(t)
		for _, key := range []string{"dead-1", "dead-2", "dead-3", "dead-4"} {
			m.submit(t, m.mail, key, jobs.SubmitOptions{}, jobs.StateDead)
		}
		m.submit(t, m.mail, "failed", jobs.SubmitOptions{}, jobs.StateFailed)
		way := m.ways[name]

		// There is no terminal to confirm on.
		s := weirJobs(t, way, command.ExitFailed, "drop", "--all", "--state", "dead", "--queue", "mail")
		if want := "weir: drop 4 dead jobs of queue \"mail\"? Say it with --yes; nothing was done\n"; s.stderr.String() != want || m.state(t, "dead-1") != "dead" {
			t.Errorf("%s: without --yes: %q, and a job is %s; want %q, dead", name, s.stderr.String(), m.state(t, "dead-1"), want)
		}
		for _, tt := range []struct{ args, want string }{
			{"drop --all --state dead --queue reports --yes", "0 dead jobs of queue \"reports\": dropped\n"},
			{"drop --all --state dead --queue mail --yes", "4 dead jobs of queue \"mail\": dropped\n"},
			{"drop --all --state dead,failed -y", "1 dead or failed job of all queues: dropped\n"},
		} {
			s := weirJobs(t, way, command.ExitOK, strings.Fields(tt.args)...)
			if s.stdout.String() != tt.want || s.stderr.String() != "" {
				t.Errorf("%s: %s: stdout %q, stderr %q; want %q", name, tt.args, s.stdout.String(), s.stderr.String(), tt.want)
			}
		}
		for key := range m.id {
			if got := m.state(t, key); got != "gone" {
				t.Errorf("%s: %s is %s; want it gone", name, key, got)
			}
		}
	}
}

func TestJobsRetryAllJSON(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	for _, key := range []string{"canceled-1", "canceled-2"} {
		m.submit(t, m.reports, key, jobs.SubmitOptions{}, jobs.StateCanceled)
	}
	s := weirJobs(t, m.ways["nats"], command.ExitOK, "retry", "--all", "--state", "canceled", "--yes", "--json")
	var got struct{ Jobs []jobsctl.Outcome }
	decode(t, s.stdout.String(), &got)
	if len(got.Jobs) != 2 || got.Jobs[0].Did != "queued again" || got.Jobs[0].Queue != "reports" || got.Jobs[0].Error != "" {
		t.Errorf("wrote %s; want both queued again", s.stdout.String())
	}
	if a, b := m.state(t, "canceled-1"), m.state(t, "canceled-2"); a != "queued" || b != "queued" {
		t.Errorf("they are %s and %s; want queued", a, b)
	}
	// What fails is in the JSON, and an exit code.
	s = weirJobs(t, m.ways["nats"], command.ExitFailed, "drop", "--json", m.id["canceled-1"])
	got.Jobs = nil
	decode(t, s.stdout.String(), &got)
	if len(got.Jobs) != 1 || got.Jobs[0].Did != "" || !strings.Contains(got.Jobs[0].Error, "is queued") {
		t.Errorf("wrote %s; want why it was not dropped", s.stdout.String())
	}
}

func TestJobsAmbiguousIDNamesThem(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	// Two keys whose ids begin alike, for this namespace and queue, are found by
	// trying: 2^12 keys are enough for one pair with 6 of 32 characters.
	ids := map[string]string{}
	var a, b string
	for n := 0; b == ""; n++ {
		h, err := m.reports.Submit(t.Context(), "queued", jobs.SubmitOptions{})
		check(t, err)
		if other, there := ids[h.ID()[:jobsctl.MinID]]; there {
			a, b = other, h.ID()
		}
		ids[h.ID()[:jobsctl.MinID]] = h.ID()
	}
	for name, way := range m.ways {
		s := weirJobs(t, way, command.ExitFailed, "show", a[:jobsctl.MinID])
		got := s.stderr.String()
		if !strings.HasPrefix(got, "weir: "+a[:6]+" is the beginning of several ids: ") || !strings.HasSuffix(got, "; give more of it\n") ||
			!strings.Contains(got, a[:10]+" (reports, queued)") || !strings.Contains(got, b[:10]+" (reports, queued)") {
			t.Errorf("%s: stderr %q; want both, %s and %s", name, got, a[:10], b[:10])
		}
		if s := weirJobs(t, way, command.ExitFailed, "drop", a[:jobsctl.MinID]); s.stdout.String() != "" {
			t.Errorf("%s: drop of %s wrote %q", name, a[:jobsctl.MinID], s.stdout.String())
		}
	}
}

func TestJobsWrongUsageNamesEveryFault(t *testing.T) {
	token := secretFile(t, "x")
	empty := secretFile(t, "")
	const where = "where are the jobs? --admin http://127.0.0.1:9090 asks a running proxy, --nats nats://127.0.0.1:4222 the servers that keep them"
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"jobs list", []string{where}},
		{"jobs list --admin localhost:9090 --nats nats://h", []string{"--admin and --nats: want one of them, not both"}},
		{"jobs list --admin ftp://h --state lost --limit 0", []string{
			"--admin: want http://host:port, as weir proxy --admin has it",
			"--limit=0: want a whole number, 1 to 100000",
			`--state=lost: "lost" is no state; want queued, running, retrying, done, failed, dead or canceled`,
		}},
		{"jobs list --admin http://me:s3cret@h", []string{"--admin: wants no user and no password in it"}},
		{"jobs list --admin http://h/jobs", []string{"--admin: want nothing after the port"}},
		{"jobs list --nats nats://me:s3cret@h:4222", []string{"--nats: wants no user and no password in it"}},
		{"jobs list --nats h:4222", []string{"--nats: want nats://host:port or tls://host:port"}},
		{"jobs list --admin h:1 --namespace a --user b --creds c", []string{
			"--namespace: can only be used with --nats; a proxy has its own setting", "--user: can only be used with --nats", "--creds: can only be used with --nats",
		}},
		{"jobs list --nats nats://h --token-file " + token + " --user me", []string{
			"--token-file, --user and --creds: want one of them", "--user and --password-file: want both or none",
		}},
		{"jobs list --nats nats://h --token-file " + token + ".none", []string{"--token-file: open "}},
		{"jobs list --nats nats://h --token-file " + empty, []string{"--token-file=" + empty + ": want a file with one line, of 1 to 4096 bytes"}},
		{"jobs show --admin h:1 12345", []string{`"12345" is no id; want 32 characters, 0-9 and a-f, or the first 6 or more of them`}},
		{"jobs retry --admin h:1", []string{`which jobs? want ids, as "weir jobs list" shows them, or --all with --state`}},
		{"jobs retry --admin h:1 --state dead 123456", []string{"--state: can only be used with --all"}},
		{"jobs retry --admin h:1 --all", []string{"--all: wants --state too, failed, dead or canceled"}},
		{"jobs retry --admin h:1 --all --state dead 123456 xyzxyz", []string{`"xyzxyz" is no id`, "--all: want no ids beside it"}},
		{"jobs retry --admin h:1 --all --state done", []string{"--state=done: want failed, dead or canceled"}},
		{"jobs cancel --admin h:1 --all --state dead", []string{"--state=dead: want queued, running or retrying"}},
		{"jobs drop --admin h:1 --all --state running", []string{"--state=running: want done, failed, dead or canceled"}},
	} {
		s := newSession()
		args := strings.Fields(tt.args)
		if code := s.run(args...); code != command.ExitUsage || s.stdout.String() != "" {
			t.Errorf("%s: exit code %d, stdout %q; want %d, nothing", tt.args, code, s.stdout.String(), command.ExitUsage)
		}
		got := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
		if last := `Run "weir jobs ` + args[1] + ` --help" for the flags and their bounds.`; len(got) != len(tt.want)+1 || got[len(got)-1] != last {
			t.Errorf("%s: stderr %q; want %d lines and a pointer to the help", tt.args, got, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(got[i], "weir jobs "+args[1]+": "+want) {
				t.Errorf("%s: line %d = %q; want %q", tt.args, i, got[i], want)
			}
		}
		if strings.Contains(s.stderr.String(), "s3cret") {
			t.Errorf("%s: stderr tells a password: %s", tt.args, s.stderr.String())
		}
	}
}

func TestJobsVariablesAreFlags(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.submit(t, m.reports, "queued", jobs.SubmitOptions{}, jobs.StateQueued)
	nats, token := m.server.Addr(), m.ways["nats"][5]
	for _, tt := range []struct {
		env  map[string]string
		args []string
		code int
	}{
		{map[string]string{"WEIR_JOBS_ADMIN": m.proxy.URL, "WEIR_JOBS_TOKEN_FILE": m.ways["admin"][3]}, nil, command.ExitOK},
		{map[string]string{"WEIR_JOBS_NATS": nats, "WEIR_JOBS_NAMESPACE": "shop", "WEIR_JOBS_TOKEN_FILE": token}, nil, command.ExitOK},
		{map[string]string{"WEIR_JOBS_NATS": nats, "WEIR_JOBS_ADMIN": m.proxy.URL}, nil, command.ExitUsage},
		// A flag wins, and leaves no room for a variable of the other way.
		{map[string]string{"WEIR_JOBS_ADMIN": "localhost:1", "WEIR_JOBS_NAMESPACE": "none", "WEIR_JOBS_TOKEN_FILE": "none"}, m.ways["nats"], command.ExitOK},
		// What only NATS needs does not stand in the way as a variable.
		{map[string]string{"WEIR_JOBS_NAMESPACE": "shop", "WEIR_JOBS_USER": "me"}, m.ways["admin"], command.ExitOK},
	} {
		s := newSession()
		s.env = tt.env
		code := s.run(append([]string{"jobs", "list"}, tt.args...)...)
		if code != tt.code || code == command.ExitOK && !strings.Contains(s.stdout.String(), m.id["queued"]) {
			t.Errorf("%v %v: exit code %d; want %d\nstdout %s\nstderr %s", tt.env, tt.args, code, tt.code, s.stdout.String(), s.stderr.String())
		}
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestJobsErrorsSayWhatToDoNext(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	nobody := closedPort(t)
	bare := httptest.NewServer(admin.New(nil, admin.Options{}))
	defer bare.Close()
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(m.proxy.URL, http.StatusFound))
	defer elsewhere.Close()
	wrong := secretFile(t, "wrong")
	for _, tt := range []struct{ args, want string }{
		{"--admin " + nobody, "http://" + nobody + " does not answer (dial tcp " + nobody + ": connect: connection refused): is the address right, and does weir proxy run with --admin there?"},
		{"--admin " + m.proxy.URL, m.proxy.URL + " wants its token: --token-file FILE, the one that the proxy has as admin.token_file"},
		{"--admin " + m.proxy.URL + " --token-file " + wrong, m.proxy.URL + " has another token than this --token-file: it is the proxy's admin.token_file"},
		{"--admin " + bare.URL, bare.URL + ": this proxy keeps no jobs: its configuration has no jobs section"},
		{"--admin " + stranger.URL, stranger.URL + ` answers 404 Not Found, "404 page not found": is it the admin listener of a weir proxy that knows jobs?`},
		{"--admin " + elsewhere.URL, elsewhere.URL + " answers 302 Found"},
		{"--nats nats://" + nobody, "nats://" + nobody + " does not answer (nats: no servers available for connection): is the address right, and does the server run and listen there?"},
		{"--nats " + m.server.Addr(), m.server.Addr() + " does not let us in (nats: Authorization Violation): give the right --token-file, --user with --password-file, or --creds"},
		{"--nats " + m.server.Addr() + " --token-file " + m.ways["nats"][5], m.server.Addr() + ` has no jobs of namespace "default", but "shop": see --namespace`},
	} {
		s := weirJobs(t, strings.Fields(tt.args), command.ExitFailed, "list")
		if !strings.HasPrefix(s.stderr.String(), "weir: "+tt.want) || strings.Count(s.stderr.String(), "\n") != 1 || s.stdout.String() != "" {
			t.Errorf("%s: stdout %q, stderr %q; want %q", tt.args, s.stdout.String(), s.stderr.String(), "weir: "+tt.want)
		}
	}
}

// Looking changes nothing: the bound of a namespace stays, and one that is not
// there is not made.
func TestJobsLooksWithoutATrace(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	nc, err := m.server.Connect()
	check(t, err)
	defer nc.Close()
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Namespace: "small", MaxBytes: 64 << 20})
	check(t, err)
	defer store.Close(context.Background())
	js, err := nc.JetStream()
	check(t, err)
	before, err := js.StreamInfo("WEIR_JOBS_1_small")
	check(t, err)

	way := slices.Concat(m.ways["nats"][:2], m.ways["nats"][4:])
	weirJobs(t, append(way, "--namespace", "small"), command.ExitOK, "list")
	weirJobs(t, append(way, "--namespace", "none"), command.ExitFailed, "list")
	after, err := js.StreamInfo("WEIR_JOBS_1_small")
	check(t, err)
	x, _ := json.Marshal(before.Config)
	y, _ := json.Marshal(after.Config)
	if string(x) != string(y) {
		t.Errorf("the namespace was %s and is %s; want it as it was", x, y)
	}
	if _, err := js.StreamInfo("WEIR_JOBS_1_none"); err == nil {
		t.Error("a namespace that was only looked for is there")
	}
}

func TestJobsWatchSurvivesAPause(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.grind(t)
	// The proxy is away for the second look at the job, also where the client asks again
	// by itself. The first look takes two requests: for the ID, and for the job.
	var asked atomic.Int32
	h := admin.New(nil, admin.Options{Jobs: m.store, Logger: slog.New(slog.DiscardHandler)})
	flaky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); n == 3 || n == 4 {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	defer flaky.Close()
	s := newSession()
	s.stderr.on("no response, retrying", func() { close(m.release) })
	if code := s.run("jobs", "show", "--watch", m.id["running"], "--admin", flaky.URL); code != command.ExitOK ||
		!strings.Contains(s.stderr.String(), "done after 1 attempt") {
		t.Errorf("exit code %d, stderr %q; want %d, that it is done", code, s.stderr.String(), command.ExitOK)
	}
}

// A question is only put to somebody at a terminal: a pipe that says yes is not
// asked.
func TestJobsAsksNobodyButATerminal(t *testing.T) {
	t.Parallel()
	m := newMill(t)
	m.submit(t, m.mail, "failed", jobs.SubmitOptions{}, jobs.StateFailed)
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	w.WriteString("yes\n")
	w.Close()
	s := newSession()
	args := append([]string{"jobs", "drop", "--all", "--state", "failed"}, m.ways["nats"]...)
	code := cli.Main(command.Env{
		Args: args, Stdin: r, Stdout: &s.stdout, Stderr: &s.stderr, Signals: s.signals,
		Getenv: func(string) string { return "" }, Exit: func(int) {},
	})
	if code != command.ExitFailed || m.state(t, "failed") != "failed" || !strings.Contains(s.stderr.String(), "--yes") {
		t.Errorf("exit code %d, stderr %q, the job is %s; want %d, --yes, failed", code, s.stderr.String(), m.state(t, "failed"), command.ExitFailed)
	}
}
