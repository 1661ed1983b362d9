package report_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/lab/report"
	"github.com/weir-go/weir/lab/result"
)

// tree writes files into a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// read returns all files under root.
func read(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

const readme = `# Readme

<!-- lab:all:headline -->
<!-- /lab -->

Between.

  <!-- lab:all:picture:headline -->
old
  <!-- /lab -->
<!-- lab:all:published -->
<!-- /lab -->
<!-- lab:all:machine -->
<!-- /lab -->
` + "```html\n<!-- lab:no:such -->\n```\n"

const explain = `# Coalescing
<!-- lab:coalesce-postgres:rows -->
An old table.

Of several lines.
<!-- /lab -->
<!-- lab:coalesce-postgres:measurements -->
<!-- /lab -->
<!-- lab:sql-to-nosql:tables -->
<!-- /lab -->
<!-- lab:thundering-expiry:checks -->
<!-- /lab -->
<!-- lab:coalesce-postgres:picture:latency -->
<!-- /lab -->
<!-- lab:do-once:machine -->
<!-- /lab -->
Last line without a newline`

func TestUpdateDocs(t *testing.T) {
	root := tree(t, map[string]string{
		"README.md": readme, "docs/explain/coalescing.md": explain,
		"docs/explain/none.md": "No mark.\n", "docs/other.md": "<!-- lab:no:such -->\n", "docs/explain/x.txt": "<!-- lab:no:such -->\n",
	})
	changed, err := report.UpdateDocs(root, sample())
	want := []string{"README.md", "docs/explain/coalescing.md", "lab/results/pictures/coalesce-postgres-latency.svg", "lab/results/pictures/headline.svg"}
	if err != nil || !slices.Equal(changed, want) {
		t.Fatalf("UpdateDocs = %q, %v; want %q", changed, err, want)
	}
	first := read(t, root)
	golden.Compare(t, filepath.Join("testdata", "README.md.txt"), []byte(first["README.md"]))
	golden.Compare(t, filepath.Join("testdata", "explain.md.txt"), []byte(first["docs/explain/coalescing.md"]))

	changed, err = report.UpdateDocs(root, sample())
	if err != nil || len(changed) > 0 {
		t.Errorf("UpdateDocs a second time = %q, %v; want no change", changed, err)
	}
	for name, text := range read(t, root) {
		if first[name] != text {
			t.Errorf("%s changed the second time", name)
		}
	}

	other := sample()
	other.Head.Commit = "abcdef0"
	changed, err = report.UpdateDocs(root, other)
	if want := []string{"README.md", "docs/explain/coalescing.md"}; err != nil || !slices.Equal(changed, want) {
		t.Errorf("UpdateDocs of another commit = %q, %v; want %q", changed, err, want)
	}
}

func TestUpdateDocsRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown scenario", "\n<!-- lab:no:rows -->\n<!-- /lab -->\n", `docs/explain/x.md:2: the run has no scenario "no": want all or one of do-once, `},
		{"unknown piece", "<!-- lab:do-once:row -->\n<!-- /lab -->\n", `docs/explain/x.md:1: there is no piece "row"`},
		{"no piece", "<!-- lab:do-once -->\n<!-- /lab -->\n", `docs/explain/x.md:1: there is no piece ""`},
		{"unknown piece of all", "<!-- lab:all:rows -->\n<!-- /lab -->\n", `docs/explain/x.md:1: there is no piece "rows" of all`},
		{"nothing to say", "<!-- lab:overload:rows -->\n<!-- /lab -->\n", `docs/explain/x.md:1: overload has no rows`},
		{"no tables", "<!-- lab:overload:tables -->\n<!-- /lab -->\n", `docs/explain/x.md:1: overload has no tables`},
		{"unknown picture", "<!-- lab:do-once:picture:calls -->\n<!-- /lab -->\n", `docs/explain/x.md:1: do-once has no picture "calls": it has throughput, latency`},
		{"not closed", "\n\n<!-- lab:do-once:rows -->\ntext\n", "docs/explain/x.md:3: the mark is not closed"},
		{"opened twice", "<!-- lab:do-once:rows -->\n<!-- lab:do-once:rows -->\n<!-- /lab -->\n", "docs/explain/x.md:2: the mark of line 1 is still open"},
		{"closed only", "\n<!-- /lab -->\n", "docs/explain/x.md:2: <!-- /lab --> closes no mark"},
		{"misspelt", "<!-- lab do-once:rows -->\n<!-- /lab -->\n", "docs/explain/x.md:1: <!-- lab do-once:rows --> is not a mark"},
	}
	for _, tt := range tests {
		files := map[string]string{"README.md": readme, "docs/explain/x.md": tt.text}
		root := tree(t, files)
		changed, err := report.UpdateDocs(root, sample())
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(changed) > 0 {
			t.Errorf("%s: UpdateDocs = %q, %v; want an error with %q", tt.name, changed, err, tt.want)
		}
		have := read(t, root)
		if len(have) != len(files) || have["README.md"] != readme {
			t.Errorf("%s: something was written: %d files", tt.name, len(have))
		}
	}
}

func TestUpdateDocsNamesEveryFault(t *testing.T) {
	root := tree(t, map[string]string{
		"README.md":         "<!-- lab:no:rows -->\n<!-- /lab -->\n<!-- lab:do-once:no -->\n<!-- /lab -->\n",
		"docs/explain/x.md": "<!-- /lab -->\n",
	})
	_, err := report.UpdateDocs(root, sample())
	for _, want := range []string{"README.md:1:", "README.md:3:", "docs/explain/x.md:1:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("UpdateDocs = %v; want an error with %s", err, want)
		}
	}
}

// Text of a run must not end a piece, or be interpreted as markup.
func TestUpdateDocsOfAHostileRun(t *testing.T) {
	run := sample()
	bad := hostile()
	bad.Name = "hostile"
	run.Scenarios = []result.Scenario{bad}
	run.Head.Machine.CPU = "a\n<!-- /lab -->\n"
	text := ""
	for _, piece := range []string{"rows", "measurements", "tables", "checks", "picture:throughput", "machine"} {
		text += "<!-- lab:hostile:" + piece + " -->\n<!-- /lab -->\n"
	}
	root := tree(t, map[string]string{"README.md": text})
	if _, err := report.UpdateDocs(root, run); err != nil {
		t.Fatal(err)
	}
	if changed, err := report.UpdateDocs(root, run); err != nil || len(changed) > 0 {
		t.Errorf("UpdateDocs a second time = %q, %v; want no change", changed, err)
	}
	for line := range strings.Lines(read(t, root)["README.md"]) {
		if !strings.HasPrefix(line, "<!-- ") && (strings.Contains(line, "<script") || strings.Contains(line, "<!--")) {
			t.Errorf("not escaped: %s", line)
		}
	}
}

func TestUpdateDocsWithoutDocuments(t *testing.T) {
	if changed, err := report.UpdateDocs(t.TempDir(), sample()); err != nil || len(changed) > 0 {
		t.Errorf("UpdateDocs = %q, %v; want nothing", changed, err)
	}
}
