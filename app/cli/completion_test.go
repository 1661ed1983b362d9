package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
)

func TestCompletions(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string // lines of the output, without descriptions
	}{
		{"commands", []string{""}, []string{"demo", "proxy", "jobs", "worker", "version", "completion"}},
		{"subcommands", []string{"jobs", "re"}, []string{"retry", "repair"}},
		{"flags", []string{"proxy", "check", "--con"}, []string{"--config", "--connect", "--concurrency"}},
		{"flags after a flag of the group", []string{"jobs", "--admin", "http://127.0.0.1:1", "list", "--st"}, []string{"--state"}},
		{"no files where none are meant", []string{"jobs", "list", "--queue", ""}, []string{":4"}},
		{"files", []string{"proxy", "--config", ""}, []string{":0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSession()
			if code := s.run(append([]string{"__complete"}, tt.args...)...); code != command.ExitOK {
				t.Fatalf("exit code %d; want 0; stderr: %s", code, s.stderr.String())
			}
			got := map[string]bool{}
			for line := range strings.Lines(s.stdout.String()) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				got[word] = true
			}
			for _, want := range tt.want {
				if !got[want] {
					t.Errorf("no %q in %q", want, s.stdout.String())
				}
			}
		})
	}
}

// A script that reads the output must not take a help for what it asked for: a wrong name is
// an error.
func TestH4_CompletionAndHelpRejectWrongNames(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"completion"}, "which shell? want bash, fish, powershell, zsh"},
		{[]string{"completion", "tcsh"}, `no shell "tcsh", want bash`},
		{[]string{"completion", "bash", "zsh"}, "zsh"},
		{[]string{"help", "nope"}, `no command "nope"`},
		{[]string{"help", "jobs", "nope"}, `no command "jobs nope"`},
		{[]string{"help", "proxy", "check", "nope"}, `no command "proxy check nope"`},
	} {
		s := newSession()
		if code := s.run(tt.args...); code != command.ExitUsage || s.stdout.String() != "" || !strings.Contains(s.stderr.String(), tt.want) {
			t.Errorf("weir %v: exit code %d, stdout %q, stderr %q; want 2, nothing, and %q", tt.args, code, s.stdout.String(), s.stderr.String(), tt.want)
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "jobs"}, {"help", "proxy", "check"}, {"completion", "--help"}, {"completion", "bash", "--help"}, {"help", "completion"}, {"help", "completion", "zsh"}} {
		s := newSession()
		if code := s.run(args...); code != command.ExitOK || !strings.Contains(s.stdout.String(), "Usage: weir") || s.stderr.String() != "" {
			t.Errorf("weir %v: exit code %d, stdout %q, stderr %q; want 0 and the help", args, code, s.stdout.String(), s.stderr.String())
		}
	}
}

// The script that weir completion bash prints is one that bash can read.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		s := newSession()
		if code := s.run("completion", shell); code != command.ExitOK || !strings.Contains(s.stdout.String(), "__complete") {
			t.Errorf("completion %s: exit code %d, %d bytes; want 0 and a script", shell, code, len(s.stdout.String()))
		}
		if shell != "bash" {
			continue
		}
		file := filepath.Join(t.TempDir(), "weir.bash")
		if err := os.WriteFile(file, []byte(s.stdout.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("bash -n: %v\n%s", err, out)
		}
	}
}
