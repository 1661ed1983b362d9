package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
)

// Each command in the documentation exists. The names of spans look like commands: weir load NAME.
func TestH4_CommandsInTheDocumentationExist(t *testing.T) {
	known := map[string]map[string]bool{} // subcommands, by command
	complete := func(args ...string) map[string]bool {
		s := newSession()
		if code := s.run(append([]string{"__complete"}, args...)...); code != command.ExitOK {
			t.Fatalf("__complete %q: %d, %s", args, code, s.stderr.String())
		}
		words := map[string]bool{}
		for line := range strings.Lines(s.stdout.String()) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if word != "" && word[0] != '-' && word[0] != ':' {
				words[word] = true
			}
		}
		return words
	}
	for word := range complete("") {
		known[word] = complete(word, "")
	}
	mention := regexp.MustCompile("(?:`|(?m:^ *(?:\\$ )?))weir ([a-z]+)(?: ([a-zA-Z]+))?")
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "/adr/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range mention.FindAllStringSubmatch(string(text), -1) {
			inline := m[0][0] == '`'
			subcommands, ok := known[m[1]]
			switch {
			case m[2] == "NAME" || !ok && !inline: // a span, or a line of prose
			case !ok:
				t.Errorf("%s: there is no %s", path, m[0])
			case len(subcommands) > 0 && m[2] != "" && inline && !subcommands[m[2]]:
				t.Errorf("%s: weir %s has no %s", path, m[1], m[2])
			default:
				found++
			}
		}
		return nil
	})
	if err != nil || found < 50 {
		t.Errorf("%d commands found, %v; want 50 at least", found, err)
	}
}
