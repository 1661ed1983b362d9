package report_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weir-go/weir/lab/report"
	"github.com/weir-go/weir/lab/result"
)

// TestDocumentsQuoteTheCommittedRun regenerates a copy of the documents from the
// newest committed run; nothing may change. It fails if a figure was edited by hand,
// or if a run was committed without the documents.
func TestDocumentsQuoteTheCommittedRun(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "lab", "results", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no committed run in lab/results (%v)", err)
	}
	f, err := os.Open(slices.Max(files))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := result.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	for _, name := range []string{"README.md", "docs/explain", "docs/lab.md", report.PictureFolder} {
		copyInto(t, filepath.Join(copied, name), filepath.Join(root, name))
	}
	changed, err := report.UpdateDocs(copied, run)
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) > 0 {
		t.Errorf("differs from %s: %v; go run ./lab report %[1]s --docs .", filepath.Base(f.Name()), changed)
	}
}

// copyInto copies a file or a folder.
func copyInto(t *testing.T, to, from string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
