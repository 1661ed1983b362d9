package repo_test

import (
	"bytes"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRepoPackageComments(t *testing.T) {
	t.Parallel()
	commented := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		dir := path.Dir(f.path)
		commented[dir] = commented[dir] || f.ast.Doc != nil
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// One function returns the version of the build, so that all its users report
// the same one.
func TestRepoOneVersion(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.isTest() || strings.HasPrefix(f.path, "console/build/") {
			continue
		}
		if bytes.Contains(f.text, []byte("debug.ReadBuildInfo")) {
			t.Errorf("%s reads the build's information; want build.Version", f.path)
		}
	}
}

func TestRepoFilesAreShort(t *testing.T) {
	t.Parallel()
	const most = 800
	for _, f := range goFiles(t) {
		if n := bytes.Count(f.text, []byte("\n")); n > most && !f.isTest() {
			t.Errorf("%s has %d lines; want at most %d, so split it", f.path, n, most)
		}
	}
}

// A test that sleeps must do so in a bubble, where sleeping costs nothing and is
// exact. This checks whole packages: one whose tests import testing/synctest may
// sleep, often in a helper that its bubbles share. The lab, the benchmarks, and the
// adapters with their real engines work in real time.
func TestRepoNoRealSleep(t *testing.T) {
	t.Parallel()
	var tests []goFile
	bubbles := map[string]bool{} // by folder
	for _, f := range goFiles(t) {
		if f.isTest() && f.module != "lab" && f.module != "bench" && !strings.HasPrefix(f.module, "adapter/") {
			tests = append(tests, f)
			bubbles[path.Dir(f.path)] = bubbles[path.Dir(f.path)] || f.imports("testing/synctest")
		}
	}
	for _, f := range tests {
		if bubbles[path.Dir(f.path)] {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s sleeps outside a bubble", f.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// No code or document contains a path of somebody's machine.
func TestRepoNoMachinePaths(t *testing.T) {
	t.Parallel()
	machine := regexp.MustCompile("(?m)(?:^|[\\s\"'`(=:])(/(?:work|root|home|Users)/[\\w.-]+)")
	// The expression is slow, and few files can match it.
	mayName := func(b []byte) bool {
		return slices.ContainsFunc([]string{"/work/", "/root/", "/home/", "/Users/"}, func(s string) bool { return bytes.Contains(b, []byte(s)) })
	}
	for name, b := range checkout(t).text {
		if !mayName(b) || bytes.IndexByte(b, 0) >= 0 { // a NUL: not text
			continue
		}
		for _, m := range machine.FindAllSubmatch(b, -1) {
			t.Errorf("%s names %s, a path on one machine", name, m[1])
		}
	}
}

func TestRepoMakefileIsThin(t *testing.T) {
	t.Parallel()
	var targets []string
	for line := range strings.Lines(string(readFile(t, "Makefile"))) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t#.=") || strings.HasPrefix(rest, "=") {
			continue
		}
		targets = append(targets, name)
		if !strings.Contains(rest, "## ") {
			t.Errorf("target %s has no ## comment for make help", name)
		}
	}
	if len(targets) > 12 {
		t.Errorf("%d targets; want at most 12: %v", len(targets), targets)
	}
	for _, want := range []string{"demo", "test", "core", "race", "fuzz", "bench", "help"} {
		if !slices.Contains(targets, want) {
			t.Errorf("no target %s among %v", want, targets)
		}
	}
	if !bytes.Contains(readFile(t, ".ci/run"), []byte("make test")) {
		t.Error(".ci/run does not run `make test`")
	}
}
