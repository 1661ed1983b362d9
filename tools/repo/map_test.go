package repo_test

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// docs/design.md has a row for each package with more than tests, and each row has its
// folder. A row names a package by the end of its path, below its module or its
// parent.
func TestRepoMapHasEveryPackage(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(string(readFile(t, "docs/design.md")), "```\n")
	drawn, _, _ := strings.Cut(rest, "```\n")
	var folders []string
	for _, name := range checkout(t).files {
		if dir := path.Dir(name); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	const column = 28 // where the text of a row begins
	found := map[string]bool{}
	for line := range strings.Lines(drawn) {
		runes := []rune(strings.TrimSuffix(line, "\n"))
		for _, name := range strings.FieldsFunc(string(runes[:min(column, len(runes))]), func(c rune) bool { return strings.ContainsRune("│├└─ ", c) }) {
			if strings.Contains(name, ".go") || name == "weir" {
				continue
			}
			exists := false
			for _, dir := range folders {
				if dir == name || strings.HasSuffix(dir, "/"+name) {
					exists, found[dir] = true, true
				}
			}
			if !exists {
				t.Errorf("docs/design.md has a row for %s, which does not exist", name)
			}
		}
	}
	for _, f := range goFiles(t) {
		if dir := path.Dir(f.path); dir != "." && !f.isTest() && !found[dir] {
			found[dir] = true // no need to look for it twice
			t.Errorf("docs/design.md has no row for the package in %s", dir)
		}
	}
}
