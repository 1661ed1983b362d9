package cli_test

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/demo/pgtable"
	"github.com/weir-go/weir/app/internal/pgtest"
	"github.com/weir-go/weir/app/report"
)

// small makes the levels short.
var small = []string{"demo", "--duration", "500ms", "--clients", "4", "--keys", "3", "--rows", "60000"}

func TestDemoJSON(t *testing.T) {
	s := newSession()
	if code := s.run(append(small, "--json")...); code != command.ExitOK {
		t.Fatalf("exit code %d; want %d; stderr: %s", code, command.ExitOK, s.stderr.String())
	}
	checkJSON(t, s, "tile")
	if first, _, _ := strings.Cut(s.stderr.String(), "\n"); !consoleLine.MatchString(first) {
		t.Errorf("stderr begins with %q; want the address of the web console", first)
	}
	unreachable(t, s)
}

func checkJSON(t *testing.T, s *session, source string) {
	t.Helper()
	var r report.Report
	dec := json.NewDecoder(strings.NewReader(s.stdout.String()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("stdout is no report: %v:\n%s", err, s.stdout.String())
	}
	if dec.More() || !strings.HasSuffix(s.stdout.String(), "}\n") {
		t.Errorf("stdout holds more than one object:\n%s", s.stdout.String())
	}
	if r.Source != source || r.Clients != 4 || r.Keys != 3 || r.LevelS != 0.5 || r.Machine.CPUs == 0 || r.CallMS <= 0 {
		t.Errorf("the report says %+v; want the requested values, and the machine", r)
	}
	if (r.Rows == 60_000) != (source == "postgres") {
		t.Errorf("rows = %d with source %q", r.Rows, source)
	}
	if len(r.Levels) != 5 || r.Levels[0].Ratio != 1 {
		t.Fatalf("levels = %+v; want five, the first with ratio 1", r.Levels)
	}
	for _, l := range r.Levels {
		if l.Requests == 0 || l.Failures != 0 || l.Calls == 0 || l.Ratio == 0 {
			t.Errorf("level %s: %+v; want requests without failures", l.Name, l)
		}
	}
	if n := strings.Count(s.stderr.String(), "\n"); n < 6 {
		t.Errorf("stderr has %d lines; want one a step:\n%s", n, s.stderr.String())
	}
}

func TestDemoTableWithoutATerminal(t *testing.T) {
	s := newSession()
	if code := s.run(small...); code != command.ExitOK {
		t.Fatalf("exit code %d; want %d; stderr: %s", code, command.ExitOK, s.stderr.String())
	}
	for _, part := range []string{"requests", "p50", "p99", "slowest", "successful", "upstream", "concurrency", "+ admission", "█"} {
		if !strings.Contains(s.stdout.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, s.stdout.String())
		}
	}
	for name, text := range map[string]string{"stdout": s.stdout.String(), "stderr": s.stderr.String()} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }) {
			t.Errorf("%s has control characters: %q", name, text)
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			before := runtime.NumGoroutine()
			s := newSession()
			s.stderr.on("level 1 of 5", func() { s.signals <- sig })
			start := time.Now()
			code := s.run("demo", "--duration", "500ms", "--clients", "4", "--keys", "3")
			if code != command.ExitFailed {
				t.Errorf("exit code %d; want %d", code, command.ExitFailed)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %v; want it to end at the signal", took)
			}
			if s.stdout.String() != "" || !strings.HasSuffix(s.stderr.String(), "\nweir: interrupted\n") {
				t.Errorf("stdout = %q, stderr = %q; want nothing, and a last line that says so", s.stdout.String(), s.stderr.String())
			}
			noneLeft(t, before)
		})
	}
}

// noneLeft waits for the goroutines that have done their work to go.
func noneLeft(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("goroutines left:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}

func TestDemoPostgresUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := newSession()
	if code := s.run("demo", "--postgres", "postgres://me:s3cret@"+addr+"/db"); code != command.ExitFailed {
		t.Errorf("exit code %d; want %d", code, command.ExitFailed)
	}
	want := "weir: PostgreSQL at " + addr + ": cannot connect: connection refused; nothing listens there\n"
	if s.stderr.String() != want || s.stdout.String() != "" {
		t.Errorf("stdout = %q, stderr = %q; want nothing, %q", s.stdout.String(), s.stderr.String(), want)
	}
}

var schemaName = regexp.MustCompile(pgtable.SchemaPrefix + "[0-9a-f]+")

// dropped fails the test if the schema that s has named is still there.
func dropped(t *testing.T, s *session) {
	t.Helper()
	schema := schemaName.FindString(s.stderr.String())
	if schema == "" {
		t.Fatalf("stderr names no schema: %s", s.stderr.String())
	}
	if n := pgtest.Query(t, "SELECT count(*)::text FROM pg_namespace WHERE nspname = $1", schema); n != "0" {
		t.Errorf("schema %s is left behind", schema)
	}
}

func TestDemoPostgres(t *testing.T) {
	url := pgtest.URL(t)
	s := newSession()
	if code := s.run(append(small, "--json", "--postgres", url)...); code != command.ExitOK {
		t.Fatalf("exit code %d; want %d; stderr: %s", code, command.ExitOK, s.stderr.String())
	}
	checkJSON(t, s, "postgres")
	dropped(t, s)
}

// The table is dropped whenever the signal comes.
func TestDemoPostgresInterrupted(t *testing.T) {
	url := pgtest.URL(t)
	for _, step := range []string{"writing the table", "computing the correct responses", "level 1 of 5", "level 4 of 5"} {
		t.Run(step, func(t *testing.T) {
			before := runtime.NumGoroutine()
			s := newSession()
			s.stderr.on(step, func() { s.signals <- os.Interrupt }) // when that step is done
			if code := s.run(append(small, "--postgres", url)...); code != command.ExitFailed {
				t.Errorf("exit code %d; want %d", code, command.ExitFailed)
			}
			if s.stdout.String() != "" || !strings.HasSuffix(s.stderr.String(), "\nweir: interrupted\n") {
				t.Errorf("stdout = %q, stderr = %q; want nothing, and a last line that says so", s.stdout.String(), s.stderr.String())
			}
			noneLeft(t, before)
			dropped(t, s)
		})
	}
}
