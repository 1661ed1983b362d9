package engine_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/engine"
)

// TestMain lets a test run this binary as a separate program; see killedProgram.
func TestMain(m *testing.M) {
	var s *engine.Server
	var err error
	switch name := os.Getenv("WEIR_TEST_START_AND_HANG"); name {
	case "":
		os.Exit(m.Run())
	case "nginx":
		s, err = engine.Nginx(context.Background(), engine.NginxOptions{Upstreams: []string{"127.0.0.1:9"}})
	case "varnish", "caddy":
		s, err = proxies[name].start(context.Background(), engine.ProxyOptions{Upstream: "127.0.0.1:9"})
	default:
		s, err = engine.Start(context.Background(), name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Pid())
	select {}
}

// need skips the test on a machine without the engine or tool, or fails it if engines
// are required.
func need(t *testing.T, name string) {
	t.Helper()
	if err := engine.Installed(name); err != nil {
		without := strings.Split(os.Getenv("WEIR_TEST_WITHOUT"), ",")
		if os.Getenv("WEIR_TEST_ENGINES") == "required" && !slices.Contains(without, name) {
			t.Fatal(err)
		}
		t.Skipf("WITHOUT %s: %v", name, err)
	}
}

// temp gives the test a folder for temporary files that an engine's user can
// enter, and returns it.
func temp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

// entries returns the names in dir.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

// gone waits until no process has the id pid.
func gone(pid int) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return true
		}
		// In a container whose first process does not reap orphans, zombies stay.
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}

// killedProgram starts the engine called name from a separate program, kills that
// program, and returns the engine's process id.
func killedProgram(t *testing.T, name string) (pid int) {
	t.Helper()
	need(t, name)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WEIR_TEST_START_AND_HANG="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	io.Copy(io.Discard, out)
	cmd.Wait()
	return pid
}
