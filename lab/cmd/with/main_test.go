package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-go/weir/lab/engine"
)

// TestMain lets the tests run this binary as the command with.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_AS_WITH") != "" {
		os.Unsetenv("WEIR_TEST_AS_WITH")
		main()
	}
	os.Exit(m.Run())
}

func with(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "WEIR_TEST_AS_WITH=1")
	cmd.Stderr = os.Stderr
	return cmd
}

func exit(t *testing.T, err error) int {
	t.Helper()
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	t.Fatal(err)
	return 0
}

// needPostgres skips the test on a machine without PostgreSQL, or fails it if engines
// are required.
func needPostgres(t *testing.T) {
	t.Helper()
	if err := engine.Installed("postgres"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestExitCode(t *testing.T) {
	tests := []struct {
		args []string
		want int
	}{
		{[]string{"--", "true"}, 0},
		{[]string{"--", "sh", "-c", "exit 7"}, 7},
		{[]string{"--", "sh", "-c", "kill -KILL $$"}, 128 + 9},
		{[]string{"--", "/no/such/command"}, 1},
		{[]string{"oracle", "--", "true"}, 1},
		{[]string{"--"}, 0}, // nothing to install, nothing to run
		{[]string{"true"}, 2},
		{[]string{"--nonsense", "--", "true"}, 2},
	}
	for _, tt := range tests {
		cmd := with(t, tt.args...)
		cmd.Stderr = nil // the error output is expected
		if got := exit(t, cmd.Run()); got != tt.want {
			t.Errorf("with %q: exit code %d; want %d", tt.args, got, tt.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	needPostgres(t)
	out, err := with(t, "postgres", "--", "sh", "-c", `echo "$WEIR_TEST_ENGINES $WEIR_TEST_POSTGRES"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "required postgres://"; !strings.HasPrefix(string(out), want) {
		t.Errorf("environment is %q; want %q and an address", out, want)
	}
}

func TestToolsAreNotStarted(t *testing.T) {
	if err := engine.Installed("nginx"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := with(t, "nginx", "--", "sh", "-c", `echo "$WEIR_TEST_ENGINES$WEIR_TEST_NGINX"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if file, err := engine.Path("nginx"); err != nil || string(out) != "required"+file+"\n" {
		t.Errorf("with nginx = %q, %v; want its file, and no address", out, err)
	}
}

func TestRedisIsNamedWithItsProgram(t *testing.T) {
	if err := engine.Installed("redis"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := with(t, "redis", "--", "sh", "-c", `echo "$WEIR_TEST_REDIS $WEIR_TEST_REDIS_SERVER"`).Output()
	addr, server, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !strings.HasPrefix(addr, "127.0.0.1:") || !strings.HasSuffix(server, "/redis-server") {
		t.Errorf("with redis = %q, %v; want an address and a program", out, err)
	}
}

func TestOptionalIsStartedOrSaid(t *testing.T) {
	if engine.Installed("valkey") == nil {
		out, err := with(t, "--optional", "valkey", "--", "sh", "-c", `echo "$WEIR_TEST_VALKEY"`).Output()
		if err != nil || !strings.HasPrefix(string(out), "127.0.0.1:") {
			t.Errorf("with --optional valkey = %q, %v; want its address, because it is installed", out, err)
		}
		return
	}
	cmd := with(t, "--optional", "valkey", "--", "sh", "-c", `echo "$WEIR_TEST_ENGINES$WEIR_TEST_VALKEY"`)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || string(out) != "required\n" || !strings.Contains(said.String(), "WITHOUT valkey") {
		t.Errorf("with --optional valkey = %q, %v, and printed %q; want it left out and reported", out, err, said.String())
	}
}

// The tests get the names of omitted engines, so that they are skipped, but not of
// present ones: their tests fail if the engine is not found.
func TestToolsAreNamedOrLeftOut(t *testing.T) {
	for _, name := range []string{"promtool", "node"} {
		cmd := with(t, "--optional", name, "--", "sh", "-c", `echo "$`+engine.Env(name)+`,$WEIR_TEST_WITHOUT"`)
		cmd.Stderr = nil // it may print WITHOUT
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		file, without, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
		if engine.Installed(name) != nil {
			if file != "" || without != name {
				t.Errorf("with --optional %s = %q, without %q; want no file, and it left out", name, file, without)
			}
			continue
		}
		if !strings.HasSuffix(file, "/"+name) || without != "" {
			t.Errorf("with --optional %s = %q, without %q; want its file, and nothing left out", name, file, without)
		}
	}
}

func TestOptionalMustBeKnown(t *testing.T) {
	cmd := with(t, "--optional", "oracle", "--", "true")
	cmd.Stderr = nil // the error output is expected
	if got := exit(t, cmd.Run()); got != 1 {
		t.Errorf("with --optional oracle: exit code %d; want 1", got)
	}
}

func TestFailedStartReturnsTheOthers(t *testing.T) {
	needPostgres(t)
	servers, err := start(t.Context(), []string{"postgres", "nginx"})
	if err == nil || !strings.Contains(err.Error(), "nginx") {
		t.Errorf("start(nginx) = %v; want an error that it cannot be started by name", err)
	}
	stopAll(servers)
	if left := childrenOf(t, strconv.Itoa(os.Getpid()), "postgres"); len(left) > 0 {
		t.Errorf("PostgreSQL still runs: %v", left)
	}
}

func TestSignalReachesTheCommandAndStopsTheEngine(t *testing.T) {
	needPostgres(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		// PostgreSQL's main process is a child of with, as the shell is.
		cmd := with(t, "postgres", "--", "sh", "-c",
			`trap 'exit 9' INT TERM; echo $PPID; while :; do sleep 0.01; done`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		parent, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		engines := childrenOf(t, strings.TrimSpace(parent), "postgres")
		if len(engines) != 1 {
			t.Errorf("engines while the command runs: %v; want one", engines)
		}
		cmd.Process.Signal(sig)
		io.Copy(io.Discard, r)
		if got := exit(t, cmd.Wait()); got != 9 {
			t.Errorf("after %v: exit code %d; want the command's own, 9", sig, got)
		}
		for _, pid := range engines {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				t.Errorf("after %v: engine %s still runs", sig, pid)
			}
		}
	}
}

// childrenOf returns the ids of parent's children that run program.
func childrenOf(t *testing.T, parent, program string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip(err) // not Linux
	}
	var found []string
	for _, e := range entries {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat") // pid (program) state parent ...
		if err != nil {
			continue
		}
		name, rest, ok := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); ok && strings.HasSuffix(name, "("+program) && fields[1] == parent {
			found = append(found, e.Name())
		}
	}
	return found
}
