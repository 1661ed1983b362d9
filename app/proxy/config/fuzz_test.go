package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/app/proxy/config"
)

// Load returns for any file, and its faults are positions in the file. A Config that it
// accepts can be written, read back to an equal one, and passed to the gateway.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml", filepath.Join(reference, "weir.example.yaml")} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("Glob(%s) = %v, %v", pattern, files, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	f.Add(one)
	f.Add(one + "x-a: &a [*a]\nroutes: *a\n")
	f.Add(one + "routes: [&r {name: a, <<: *r}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		name := filepath.Join(dir, "weir.yaml")
		write(t, name, text)
		c, faults := loadFrom(t, config.Source{File: name})
		lines := strings.FieldsFunc("x"+strings.NewReplacer("\n", "\nx", "\r", "\nx", "\u0085", "\nx", "\u2028", "\nx", "\u2029", "\nx").Replace(text),
			func(r rune) bool { return r == '\n' })
		for _, fault := range faults {
			if fault.Problem == "" || fault.Line > len(lines)+1 || !strings.HasPrefix(fault.Error(), name) {
				t.Errorf("fault %+v of a file with %d lines", fault, len(lines))
			}
			if !utf8.ValidString(fault.Text()) {
				t.Errorf("fault %q is not UTF-8", fault.Text())
			}
		}
		if faults != nil {
			return
		}
		if _, err := c.Gateway(); err != nil {
			t.Errorf("Gateway of a loaded Config = %v", err)
		}
		write(t, name, string(c.YAML()))
		again, faults := loadFrom(t, config.Source{File: name})
		if faults != nil {
			t.Fatalf("the written Config has faults:\n%s\n%s", faults.Text(), c.YAML())
		}
		c.Warnings, again.Warnings = nil, nil // their lines differ
		if !reflect.DeepEqual(c, again) {
			t.Errorf("Load(YAML()) =\n%s\nwant\n%s", again.YAML(), c.YAML())
		}
	})
}

// A suggestion is accepted for the setting for which it was made.
func FuzzSuggestion(f *testing.F) {
	for _, seed := range []string{"60", "5 sec", "1d", "64MB", "1.5GiB", "8080", "http://a/b", "get", "api/*", "yes", ".example", "X-Key", "1_000", "10%", "0x1f", "010"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for setting, parse := range config.Parsers() {
			suggestion, err := parse(text)
			if err == nil || suggestion == "" {
				continue
			}
			if again, err := parse(suggestion); err != nil {
				t.Errorf("%s: %q, meaning %q: %v, meaning %q", setting, text, suggestion, err, again)
			}
		}
	})
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"ttl", "ttl", 0}, {"ttl", "", 3}, {"tll", "ttl", 1}, {"dealy", "delay", 1},
		{"listn", "listen", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"größe", "grösse", 2},
	} {
		if got := config.Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("Distance(%q, %q) = %d; want %d", tt.a, tt.b, got, tt.want)
		}
		if got := config.Distance(tt.b, tt.a); got != tt.want {
			t.Errorf("Distance(%q, %q) = %d; want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
