package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The faults that the judge must find fit the code as it is now. Whether it finds them is a
// step of make full.
func TestFaultsFitTheCode(t *testing.T) {
	t.Chdir("../..")
	all, err := readFaults("*")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Errorf("%d faults; want at least 30", len(all))
	}
	for _, f := range all {
		if _, err := f.overlay(t.TempDir()); err != nil {
			t.Error(err)
		}
	}
	for folder, says := range judges {
		text, err := os.ReadFile(folder + "/judge_test.go")
		if err != nil || !strings.Contains(string(text), says) {
			t.Errorf("the judge's test in %s does not print %q (%v)", folder, says, err)
		}
	}
}

func TestParseFault(t *testing.T) {
	f, err := parseFault("What is wrong.\n-- a.go --\nold\n  lines\n-- new --\nnew\n-- b.go --\nx\n-- new --\n\n")
	want := []edit{{"a.go", "old\n  lines", "new"}, {"b.go", "x", ""}}
	if err != nil || f.what != "What is wrong." || f.judge != "weirhttp" || !slices.Equal(f.edits, want) {
		t.Errorf("parseFault = %+v, %v; want %+v", f, err, want)
	}
	if f, err := parseFault("Wrong.\njudge: jobs/check/jobshttp\n-- a.go --\nold\n-- new --\n\n"); err != nil || f.judge != "jobs/check/jobshttp" || len(f.edits) != 1 {
		t.Errorf("parseFault = %+v, %v; want the judge of jobs", f, err)
	}
	for _, text := range []string{"", "Wrong.\njudge: limit\n-- a.go --\nold\n-- new --\n\n", "Nothing.\n", "No new.\n-- a.go --\nold\n", "No old.\nx\n-- new --\ny\n"} {
		if _, err := parseFault(text); err == nil {
			t.Errorf("parseFault(%q) = nil; want an error", text)
		}
	}
}
