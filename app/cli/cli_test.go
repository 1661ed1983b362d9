package cli_test

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
)

// A session is one run of the command line, and what came of it.
type session struct {
	signals chan os.Signal
	stdout  output
	stderr  output
	env     map[string]string
}

// output is a buffer that does something once a text has been written to it.
type output struct {
	mu   sync.Mutex
	b    bytes.Buffer // guarded by mu
	text string       // guarded by mu
	then func()       // guarded by mu; nil if there is nothing to do, or it is done
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if o.then != nil && strings.Contains(o.b.String(), o.text) {
		o.then()
		o.then = nil
	}
	return len(p), nil
}

// on has then called once text has been written.
func (o *output) on(text string, then func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.then = text, then
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func newSession() *session { return &session{signals: make(chan os.Signal, 2)} }

func (s *session) run(args ...string) int {
	return cli.Main(command.Env{
		Args:    args,
		Stdout:  &s.stdout,
		Stderr:  &s.stderr,
		Getenv:  func(name string) string { return s.env[name] },
		Signals: s.signals,
		Exit:    func(code int) { panic("Exit is for the second signal") },
	})
}

func TestHelp(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--help"}, []string{"keeps expensive calls alive", "demo", "proxy check", "jobs list"}},
		{[]string{"proxy", "--help"}, []string{
			"Usage: weir proxy", "weir proxy --upstream http://localhost:3000",
			"--config", "--listen", "--upstream", "--admin", "--drain-timeout",
			"SIGHUP", "SIGTERM", "Exit code",
		}},
		{[]string{"proxy", "check", "--help"}, []string{"Usage: weir proxy check", "--config", "It starts nothing", "Exit code"}},
		{[]string{"jobs", "--help"}, []string{
			"Usage: weir jobs", "Quick start:", "WEIR_JOBS_ADMIN", "--admin", "--nats", "--token-file", "States: queued", "Exit code",
			"jobs list", "jobs show", "jobs dead", "jobs queues", "jobs retry", "jobs cancel", "jobs drop",
		}},
		{[]string{"jobs", "list", "--help"}, []string{"Examples:", "--state", "1 to 100000", "queued, running, retrying, done, failed, dead or canceled", "--json"}},
		{[]string{"jobs", "show", "--help"}, []string{"first 6 characters", "--watch", "Inputs and results are not shown"}},
		{[]string{"jobs", "retry", "--help"}, []string{"--all", "--yes", "keeps its id and its input"}},
		{[]string{"demo", "--help"}, []string{
			"Usage: weir demo", "Examples:", "weir demo --json",
			"--duration", "500ms to 10m", "4s by default",
			"--clients", "1 to 10000", "100 by default",
			"--keys", "1 to 4096", "32 by default",
			"--postgres", "postgres://user:password@host:port/database",
			"--rows", "1000 to 100000000", "1000000 by default",
			"--json", "--admin", "127.0.0.1:0 by default", "--keep", "web console", "Exit code",
		}},
	} {
		s := newSession()
		if code := s.run(tt.args...); code != command.ExitOK {
			t.Errorf("%v: exit code %d; want %d; stderr: %s", tt.args, code, command.ExitOK, s.stderr.String())
		}
		text := strings.Join(strings.Fields(s.stdout.String()), " ")
		for _, part := range tt.want {
			if !strings.Contains(text, part) {
				t.Errorf("%v: the help lacks %q:\n%s", tt.args, part, s.stdout.String())
			}
		}
		if s.stderr.String() != "" {
			t.Errorf("%v: stderr = %q; want nothing", tt.args, s.stderr.String())
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, tt := range []struct {
		name string
		args string
		want []string // lines of standard error, in order, before the pointer to the help
	}{
		{"no command", "", []string{`weir: expected one of "demo", "proxy"`}},
		{"unknown command", "dmo", []string{`weir: unexpected argument dmo, did you mean "demo"?`}},
		{"unknown flag", "demo --frobnicate", []string{"weir demo: unknown flag --frobnicate"}},
		{"stray argument", "demo now", []string{"weir demo: unexpected argument now"}},
		{"too short", "demo --duration 499ms", []string{"weir demo: --duration=499ms: want a time such as 4s, 500ms to 10m"}},
		{"no unit", "demo --duration 5", []string{"weir demo: --duration=5: want a time such as 4s, 500ms to 10m"}},
		{"too many clients", "demo --clients 10001", []string{"weir demo: --clients=10001: want a whole number, 1 to 10000"}},
		{"no keys", "demo --keys 0", []string{"weir demo: --keys=0: want a whole number, 1 to 4096"}},
		{"fewer rows than keys", "demo --rows 1000 --keys 1001", []string{"weir demo: --rows=1000: want at least one for each of the 1001 keys"}},
		{"no URL", "demo --postgres me:s3cret@db", []string{"weir demo: --postgres: want postgres://host:port/database, with user:password@ before the host where it asks"}},
		{"empty URL", "demo --postgres=", []string{"weir demo: --postgres: want postgres://host:port/database, with user:password@ before the host where it asks"}},
		{"console off loopback", "demo --admin 0.0.0.0:9090", []string{"weir demo: --admin=0.0.0.0:9090: want an address on loopback such as 127.0.0.1:9090, because the console of a demo has no login"}},
		{"console on every address", "demo --admin :9090", []string{"weir demo: --admin=:9090: want an address on loopback"}},
		{"console at a name", "demo --admin db.example:80", []string{"weir demo: --admin=db.example:80: want an address on loopback"}},
		{"console without a port", "demo --admin 127.0.0.1", []string{"weir demo: --admin=127.0.0.1: want host:port such as 127.0.0.1:9090, or off"}},
		{"console at no port", "demo --admin 127.0.0.1:99999", []string{"weir demo: --admin=127.0.0.1:99999: want host:port"}},
		{"keep what", "demo --keep --admin off", []string{"weir demo: --keep=true: want an --admin that is not off"}},
		{"all at once", "demo --duration=1h --clients=-1 --keys=4k --rows=10 --postgres=x:s3cret@y", []string{
			"weir demo: --duration=1h: want a time such as 4s, 500ms to 10m",
			"weir demo: --clients=-1: want a whole number, 1 to 10000",
			"weir demo: --keys=4k: want a whole number, 1 to 4096",
			"weir demo: --rows=10: want a whole number, 1000 to 100000000",
			"weir demo: --postgres: want postgres://host:port/database, with user:password@ before the host where it asks",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSession()
			if code := s.run(strings.Fields(tt.args)...); code != command.ExitUsage {
				t.Errorf("exit code %d; want %d", code, command.ExitUsage)
			}
			got := strings.Split(strings.TrimSpace(s.stderr.String()), "\n")
			of, _, _ := strings.Cut(tt.want[0], ": ") // the command
			if len(got) != len(tt.want)+1 || !strings.HasPrefix(got[len(got)-1], `Run "`+of+` --help"`) {
				t.Fatalf("stderr = %q; want %d lines and a pointer to the help", got, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("line %d = %q; want %q", i, got[i], want)
				}
			}
			if strings.Contains(s.stderr.String(), "s3cret") || s.stdout.String() != "" {
				t.Errorf("stdout = %q, stderr = %q; want nothing, and no password", s.stdout.String(), s.stderr.String())
			}
		})
	}
}
