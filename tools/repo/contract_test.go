package repo_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A point is a point of the contract, such as F1, and the tests that name it.
type point struct {
	name, text string
	tests      []pointTest
}

type pointTest struct {
	file, name string
	inName     bool // the test's name has the point, not only a comment
}

const (
	contractPage  = "docs/goals.md"
	contractTests = "docs/contract-tests.md"
)

// contractModules are the modules whose tests name the points of the contract.
var contractModules = []string{".", "app", "console", "gateway", "jobs", "jobs/check", "jobs/embedded", "adapter/weirprom", "adapter/weirotel", "adapter/weirgrpc", "adapter/weirgrpc/interoptest", "bench"}

var (
	pointInPage    = regexp.MustCompile(`(?m)^- \*\*([A-Z][0-9]+)\*\* (.*(?:\n  .*)*)`)
	pointInComment = regexp.MustCompile(`\b[A-Z][1-9][0-9]?\b`)
	pointInName    = regexp.MustCompile(`(?:^|[a-z_])([A-Z][1-9][0-9]?)(?:[A-Z_]|$)`)
)

// Every point of the contract (docs/goals.md) is named by a test, in its name or in
// its comments, and docs/contract-tests.md lists them all: -update writes it.
func TestRepoContractPointsAreTested(t *testing.T) {
	t.Parallel()
	points := contractPoints(t)
	if len(points) < 100 {
		t.Fatalf("%s has %d points; is this test looking?", contractPage, len(points))
	}
	nameTests(t, points)
	for _, name := range slices.Sorted(maps.Keys(points)) {
		if len(points[name].tests) == 0 {
			t.Errorf("no test of %v names %s", contractModules, name)
		}
	}
	want := contractTestsPage(points)
	if *update {
		if err := os.WriteFile(onDisk(contractTests), []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(onDisk(contractTests)); err != nil || string(have) != want {
		t.Errorf("%s is not up to date (%v); go test ./tools/repo -run TestRepoContract -update writes it", contractTests, err)
	}
}

// contractPoints reads the points of the page.
func contractPoints(t *testing.T) map[string]*point {
	t.Helper()
	points := map[string]*point{}
	for _, m := range pointInPage.FindAllStringSubmatch(string(readFile(t, contractPage)), -1) {
		if points[m[1]] != nil {
			t.Errorf("%s has %s twice", contractPage, m[1])
		}
		points[m[1]] = &point{name: m[1], text: strings.Join(strings.Fields(m[2]), " ")}
	}
	return points
}

// nameTests adds to each point the tests that name it.
func nameTests(t *testing.T, points map[string]*point) {
	t.Helper()
	for _, f := range goFiles(t) {
		if !slices.Contains(contractModules, f.module) || !f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			named := map[string]bool{} // whether by its name
			for _, p := range commentsOf(f.ast, fn) {
				named[p] = false
			}
			for _, m := range pointInName.FindAllStringSubmatch(fn.Name.Name, -1) {
				named[m[1]] = true
			}
			for p, inName := range named {
				if points[p] != nil {
					points[p].tests = append(points[p].tests, pointTest{f.path, fn.Name.Name, inName})
				}
			}
		}
	}
}

// commentsOf returns the points named in the comments of a function: its doc
// comment, and those in its body.
func commentsOf(f *ast.File, fn *ast.FuncDecl) (names []string) {
	begin := fn.Pos()
	if fn.Doc != nil {
		begin = fn.Doc.Pos()
	}
	for _, group := range f.Comments {
		if group.Pos() >= begin && group.End() <= fn.End() {
			names = append(names, pointInComment.FindAllString(group.Text(), -1)...)
		}
	}
	return names
}

// shownTests is the number of tests that the page links per point.
const shownTests = 6

func contractTestsPage(points map[string]*point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The contract and its tests\n\nWritten by `go test ./tools/repo -run TestRepoContract -update`. For each point of [the contract](goals.md#the-contract), the\ntests that name it: those with the point in their name first, at most %d of them.\n\n| Point | Tests |\n|---|---|\n", shownTests)
	number := func(p *point) (n int) { fmt.Sscan(p.name[1:], &n); return n }
	all := slices.SortedFunc(maps.Values(points), func(x, y *point) int {
		return cmp.Or(strings.Compare(x.name[:1], y.name[:1]), cmp.Compare(number(x), number(y)))
	})
	for _, p := range all {
		slices.SortFunc(p.tests, func(x, y pointTest) int {
			switch {
			case x.inName != y.inName && x.inName:
				return -1
			case x.inName != y.inName:
				return 1
			}
			return cmp.Or(strings.Compare(x.file, y.file), strings.Compare(x.name, y.name))
		})
		var links []string
		for _, test := range p.tests[:min(len(p.tests), shownTests)] {
			links = append(links, fmt.Sprintf("[%s](../%s)", test.name, test.file))
		}
		if more := len(p.tests) - shownTests; more > 0 {
			links = append(links, fmt.Sprintf("%d more", more))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", p.name, strings.Join(links, ", "))
	}
	return b.String()
}
