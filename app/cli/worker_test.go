package cli_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
)

// The bounds of --concurrency are those of jobs.concurrency: 0 is out of them, and does not
// stand for the file's value.
func TestH4_WorkerRefusesAConcurrencyOutOfBounds(t *testing.T) {
	name := file(t, "jobs: {dir: jobs}\nupstreams: [{name: a, servers: [http://127.0.0.1:1]}]\nroutes: [{name: r, async: {}}]")
	for _, n := range []string{"0", "-1", "4097", "many"} {
		s := newSession()
		if code := s.run("worker", "--config", name, "--concurrency="+n); code != command.ExitUsage || !strings.Contains(s.stderr.String(), "--concurrency="+n) || !strings.Contains(s.stderr.String(), "1 to 4096") {
			t.Errorf("--concurrency=%s: exit code %d, stderr %q; want 2, with the flag and its bounds", n, code, s.stderr.String())
		}
	}
	s := newSession() // the file's concurrency is used, and the next fault reported
	if code := s.run("worker", "--config", name); code != command.ExitUsage || !strings.Contains(s.stderr.String(), "jobs.listen is missing") {
		t.Errorf("exit code %d, stderr %q; want 2, and jobs.listen", code, s.stderr.String())
	}
}
