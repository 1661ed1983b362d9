package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/cli"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/scenarios"
)

// TestMain lets the test binary also run as the services and the load generator.
func TestMain(m *testing.M) {
	scenario.Child(scenarios.All())
	os.Exit(m.Run())
}

// output is a buffer that calls then once a text has been written to it.
type output struct {
	mu   sync.Mutex
	b    bytes.Buffer // guarded by mu
	text string       // guarded by mu
	then func()       // guarded by mu; nil: nothing, or done
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

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// A session is one run of the command line, with its output.
type session struct {
	signals        chan os.Signal
	stdout, stderr output
}

func newSession() *session { return &session{signals: make(chan os.Signal, 2)} }

func (s *session) run(args ...string) int {
	return cli.Main(command.Env{
		Args:    args,
		Stdout:  &s.stdout,
		Stderr:  &s.stderr,
		Getenv:  func(string) string { return "" },
		Signals: s.signals,
		Exit:    func(int) { panic("Exit is for the second signal") },
	})
}

func TestList(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"list", "--json"}} {
		s := newSession()
		if code := s.run(args...); code != command.ExitOK {
			t.Fatalf("%v: exit code %d; stderr: %s", args, code, s.stderr.String())
		}
		for _, sc := range scenarios.All() {
			if !strings.Contains(s.stdout.String(), sc.Name) {
				t.Errorf("%v does not list %s", args, sc.Name)
			}
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string // in standard error
	}{
		{"", []string{"weir-lab: expected one of"}},
		{"run", []string{"weir-lab run:", "scenario"}},
		{"run nothing", []string{`there is no scenario "nothing"; there are [do-once`}},
		{"report no-such-file", []string{"no-such-file"}},
		{"compare http://127.0.0.1:1/ ftp://x --clients 0 --rounds=a --duration 1 --timeout 0s --header secret", []string{
			"--clients=0: want a whole number, 1 to 10000",
			"--rounds=a: want",
			"--duration=1: want",
			"--timeout=0s: want",
			"--header=secret: want NAME:VALUE",
			"ftp://x: want a URL",
		}},
		{"compare http://127.0.0.1:1/ http://127.0.0.1:1/ --rate 0", []string{"--rate=0: want a whole number"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			s := newSession()
			if code := s.run(strings.Fields(tt.args)...); code != command.ExitUsage {
				t.Errorf("exit code %d; want %d", code, command.ExitUsage)
			}
			for _, want := range tt.want {
				if !strings.Contains(s.stderr.String(), want) {
					t.Errorf("stderr = %q; want %q in it", s.stderr.String(), want)
				}
			}
		})
	}
}

// need skips the test if the tool is missing and not required.
func need(t *testing.T, name string) {
	t.Helper()
	if err := engine.Installed(name); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// read reads the results in the folder.
func read(t *testing.T, dir string) result.Run {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := result.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestRunWritesAReport(t *testing.T) {
	need(t, "hey")
	dir := t.TempDir()
	s := newSession()
	if code := s.run("run", "expensive-call", "--small", "--out", dir); code != command.ExitOK {
		t.Fatalf("exit code %d; stderr: %s", code, s.stderr.String())
	}
	run := read(t, dir)
	if len(run.Scenarios) != 1 || run.Head.Size != result.Small || len(run.Scenarios[0].Checks) == 0 {
		t.Errorf("results: %+v; want one scenario with checks, of the small size", run.Head)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("expensive-call")) {
		t.Errorf("report: %v; want a page with the scenario's name", err)
	}
	for _, want := range []string{"0 unprotected", "report.html"} {
		if !strings.Contains(s.stdout.String(), want) {
			t.Errorf("stdout lacks %q:\n%s", want, s.stdout.String())
		}
	}
	if !strings.Contains(s.stderr.String(), "answers in") {
		t.Errorf("no progress on standard error: %q", s.stderr.String())
	}

	again := newSession()
	page2 := filepath.Join(dir, "again.html")
	if code := again.run("report", filepath.Join(dir, "results.jsonl"), "--html", page2); code != command.ExitOK {
		t.Fatalf("report: exit code %d; stderr: %s", code, again.stderr.String())
	}
	if other, err := os.ReadFile(page2); err != nil || !bytes.Equal(page, other) {
		t.Errorf("the regenerated report differs (%v)", err)
	}
}

func TestInterruptKeepsWhatIsKnown(t *testing.T) {
	need(t, "hey")
	dir := t.TempDir()
	s := newSession()
	s.stderr.text, s.stderr.then = "answers in", func() { s.signals <- os.Interrupt } // after the first measurement
	if code := s.run("run", "expensive-call", "do-once", "--small", "--out", dir); code != command.ExitFailed {
		t.Errorf("exit code %d; want %d", code, command.ExitFailed)
	}
	if !strings.Contains(s.stderr.String(), "interrupted") {
		t.Errorf("stderr = %q; want it to say interrupted", s.stderr.String())
	}
	run := read(t, dir)
	if len(run.Scenarios) != 1 || len(run.Scenarios[0].Measurements) == 0 || !strings.Contains(run.Scenarios[0].Error, "interrupted") {
		t.Errorf("results: %d scenarios; want one, with its first measurement and the interrupt", len(run.Scenarios))
	}
}

func TestCompare(t *testing.T) {
	var asked [2]atomic.Int64
	var urls []string
	for i := range asked {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Tenant") == "seven" {
				asked[i].Add(1)
			}
			fmt.Fprint(w, "hello")
		}))
		defer srv.Close()
		urls = append(urls, srv.URL+"/")
	}
	for _, loop := range [][]string{{"--clients", "2"}, {"--rate", "200"}} {
		dir := t.TempDir()
		s := newSession()
		args := append([]string{"compare", urls[0], urls[1], "--rounds", "2", "--duration", "100ms", "--header", "X-Tenant: seven", "--expect", "hello", "--json", "--out", dir}, loop...)
		if code := s.run(args...); code != command.ExitOK {
			t.Fatalf("%v: exit code %d; stderr: %s", loop, code, s.stderr.String())
		}
		var good int64
		for _, m := range read(t, dir).Scenarios[0].Measurements {
			good += m.Good
			if m.Failures > 0 {
				t.Errorf("%v: %d failures: %s", loop, m.Failures, m.FirstFailure)
			}
		}
		if sum := asked[0].Swap(0) + asked[1].Swap(0); good != sum || good == 0 {
			t.Errorf("%v: %d successful responses; the servers gave %d, with the header", loop, good, sum)
		}
		for line := range strings.Lines(s.stdout.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%v: not JSON: %s", loop, line)
			}
		}
	}
}

func TestCompareWithNobodyThere(t *testing.T) {
	s := newSession()
	code := s.run("compare", "http://127.0.0.1:1/", "http://127.0.0.1:1/", "--rounds", "1", "--duration", "100ms", "--timeout", "1s", "--out", t.TempDir())
	if code != command.ExitFailed || !strings.Contains(s.stderr.String(), "gives no successful response") {
		t.Errorf("exit code %d, stderr %q; want %d, and which URL gives no answer", code, s.stderr.String(), command.ExitFailed)
	}
}
