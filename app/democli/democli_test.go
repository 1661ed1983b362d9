package democli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/democli"
	"github.com/weir-go/weir/app/report"
)

// The tests of weir demo in app/cli cover the flags, the console and the interrupts, which
// both programs share. These cover what is particular to weir-demo.

// run runs weir-demo.
func run(args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	code = democli.Main(command.Env{
		Args:    args,
		Stdout:  &out,
		Stderr:  &log,
		Getenv:  func(string) string { return "" },
		Signals: make(chan os.Signal),
		Exit:    func(int) { panic("Exit is for the second signal") },
	})
	return code, out.String(), log.String()
}

func TestHelpNamesTheProgram(t *testing.T) {
	code, stdout, stderr := run("--help")
	if code != command.ExitOK || stderr != "" {
		t.Errorf("exit code %d, stderr %q; want %d and nothing", code, stderr, command.ExitOK)
	}
	for _, part := range []string{"Usage: weir-demo [flags]", "\n    weir-demo --json", "--keep", "500ms to 10m", "1 to 10000", "1 to 4096"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the help lacks %q:\n%s", part, stdout)
		}
	}
	for _, part := range []string{"weir demo", "postgres", "${"} {
		if strings.Contains(stdout, part) {
			t.Errorf("the help contains %q:\n%s", part, stdout)
		}
	}
}

func TestWrongUsageNamesTheProgram(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--keys=0"}, "weir-demo: --keys=0: want a whole number, 1 to 4096\n"},
		{[]string{"now"}, "weir-demo: unexpected argument now\n"},
		{[]string{"--postgres=x"}, "weir-demo: unknown flag --postgres\n"},
	} {
		code, stdout, stderr := run(tt.args...)
		if want := tt.want + "Run \"weir-demo --help\" for the flags and their bounds.\n"; code != command.ExitUsage || stdout != "" || stderr != want {
			t.Errorf("weir-demo %q: exit code %d, stdout %q, stderr %q; want %d, nothing, %q", tt.args, code, stdout, stderr, command.ExitUsage, want)
		}
	}
}

func TestJSON(t *testing.T) {
	code, stdout, stderr := run("--json", "--duration=500ms", "--clients=4", "--keys=3")
	var r report.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != command.ExitOK || err != nil {
		t.Fatalf("exit code %d, stdout %q (%v), stderr %q; want %d and a report", code, stdout, err, stderr, command.ExitOK)
	}
	if r.Source != "tile" || r.Rows != 0 || r.Clients != 4 || r.Keys != 3 || len(r.Levels) != 5 {
		t.Errorf("the report says %+v; want five levels of tiles, with the requested values", r)
	}
}
