package repo_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var walkFile = regexp.MustCompile("`([a-z0-9_./]+\\.(?:go|lua))`")

// The walks in docs/design.md name files that exist: a path from the root, or from the
// folder of the row's first file.
func TestRepoWalksNameFiles(t *testing.T) {
	t.Parallel()
	_, walks, _ := strings.Cut(string(readFile(t, "docs/design.md")), "## The way of a Get")
	walks, _, ok := strings.Cut(walks, "## Lock order")
	n := 0
	for row := range strings.Lines(walks) {
		folder := "."
		for i, m := range walkFile.FindAllStringSubmatch(row, -1) {
			name := m[1]
			if i == 0 {
				folder = path.Dir(name)
			}
			n++
			if r := checkout(t); !r.has(name) && !r.has(path.Join(folder, name)) {
				t.Errorf("docs/design.md: %s is not there", name)
			}
		}
	}
	if !ok || n < 50 {
		t.Errorf("%d files in the walks; is this test looking?", n)
	}
}
