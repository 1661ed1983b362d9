package repo_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// withoutExample are the packages that need no Example: conformance suites, whose users
// are tests, and packages that only package embedded calls.
var withoutExample = []string{"fleet/fleettest", "flight/flighttest", "plain/plaintest", "jobs/serve", "console/assets_test", "console/build"}

// Every package that users import has an Example for go doc.
func TestRepoPublicPackagesHaveExamples(t *testing.T) {
	t.Parallel()
	imported := releasedDirs("app")
	packages := map[string]bool{} // whether it has an Example
	for _, f := range goFiles(t) {
		dir := path.Dir(f.path)
		if !slices.Contains(imported, f.module) || strings.Contains("/"+dir+"/", "/internal/") || f.ast.Name.Name == "main" {
			continue
		}
		if !f.isTest() {
			packages[dir] = packages[dir] || false
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
				packages[dir] = true
			}
		}
	}
	if len(packages) < 20 {
		t.Fatalf("%d packages; is this test looking?", len(packages))
	}
	for dir, has := range packages {
		if listed := slices.Contains(withoutExample, dir); !has && !listed {
			t.Errorf("package %s has no Example", dir)
		} else if has && listed {
			t.Errorf("package %s has an Example; take it out of withoutExample", dir)
		}
	}
}
