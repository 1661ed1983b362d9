package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/plain/plaintest"
)

// What the command line says of what it was given hides nothing.
func TestH21_CommandLineHidesNothing(t *testing.T) {
	for _, k := range plaintest.Kinds {
		s := "a" + k.Hidden + "b"
		config := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(config, []byte("zzz"+k.Hidden+": 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{s}, {"--" + s}, {"proxy", "--config", s}, {"proxy", "check", "--config", config}, {"proxy", "--upstream", s}, {"proxy", "check", "--upstream", "http://" + s},
			{"jobs", "show", s, "--admin", "127.0.0.1:1"}, {"jobs", "list", "--state", s}, {"jobs", "list", "--limit", s}, {"jobs", "list", "--admin", s},
			{"jobs", "list", "--nats", s}, {"jobs", "list", "--admin", "127.0.0.1:1", "--queue", s}, {"jobs", "repair", "--dir", filepath.Join(t.TempDir(), s), "--dry-run"},
			{"demo", "--clients", s}, {"worker", "--config", s},
		} {
			session := newSession()
			session.run(args...)
			for where, text := range map[string]string{"standard output": session.stdout.String(), "standard error": session.stderr.String()} {
				if found := plaintest.Find(text); found != "" {
					t.Errorf("%s: weir %q has %s on %s: %q", k.Name, args, found, where, text)
				}
			}
		}
	}
}
