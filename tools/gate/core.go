package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// oldestGo is the newest release of the oldest Go that the core's go.mod allows.
const oldestGo = "go1.25.14"

// coreAlone builds the core as users get it: without the workspace.
func coreAlone(ctx context.Context) (string, error) {
	for _, args := range [][]string{{"mod", "tidy", "-diff"}, {"build", "./..."}} {
		if _, err := alone.run(ctx, "go", args...); err != nil {
			return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return "", nil
}

// coreWithRaceDetector is the core's full test run with the newest Go, also with a fleet
// behind each Guard of the contract's tests.
func coreWithRaceDetector(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	t := testRun{command: command{env: append([]string{"CGO_ENABLED=1"}, alone.env...)}, flags: []string{"-race"}}
	t.packages = []string{"./..."}
	if err := t.run(ctx); err != nil {
		return "", err
	}
	t.packages, t.args = []string{"."}, []string{"-fleet"}
	return "", t.run(ctx)
}

// coreAllocations runs the tests whose counts the race detector changes. The root's tests
// take minutes to compile, so its own are in internal/allocations.
func coreAllocations(ctx context.Context) (string, error) {
	packages, err := withAllocationTests(ctx)
	if err != nil {
		return "", err
	}
	return "", testRun{command: alone, flags: []string{"-run", "Alloc"}, packages: packages}.run(ctx)
}

// withAllocationTests returns the core's packages below the root that have tests with
// Alloc in the name.
func withAllocationTests(ctx context.Context) ([]string, error) {
	files, err := command{env: alone.env, quiet: true}.run(ctx, "go", "list", "-f", "{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}\n{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}\n{{end}}", "./...")
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var packages []string
	for file := range strings.FieldsSeq(files) {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if dir := filepath.Dir(file); dir != root && allocationTest.Match(b) && !slices.Contains(packages, dir) {
			packages = append(packages, dir)
		}
	}
	return packages, nil
}

var allocationTest = regexp.MustCompile(`(?m)^func Test\w*Alloc`)

// buildWithOldestGo builds the core with the oldest Go. That its code uses nothing newer,
// tests included, is also what vet checks against the version in go.mod.
func buildWithOldestGo(ctx context.Context) (string, error) {
	return withOldestGo(ctx, func(old command) error {
		_, err := old.run(ctx, "go", "build", "./...")
		return err
	})
}

// coreWithOldestGo is the core's run without the race detector.
func coreWithOldestGo(ctx context.Context) (string, error) {
	return withOldestGo(ctx, func(old command) error {
		return testRun{command: old, packages: []string{"./..."}}.run(ctx)
	})
}

// withOldestGo calls use with the oldest Go, or returns a note if there is none.
func withOldestGo(ctx context.Context, use func(old command) error) (string, error) {
	old := command{env: append([]string{"GOTOOLCHAIN=" + oldestGo}, alone.env...)}
	if _, err := old.run(ctx, "go", "version"); err != nil {
		return oldestGo + " could not be fetched", nil
	}
	return "", use(old)
}

// needCompiler returns a note if there is no C compiler for the race detector and none
// can be installed.
func needCompiler(ctx context.Context) string {
	cc, err := command{quiet: true}.run(ctx, "go", "env", "CC")
	if err != nil {
		return err.Error()
	}
	if _, err := exec.LookPath(cc); err == nil {
		return ""
	}
	if apt, err := exec.LookPath("apt-get"); err == nil && os.Geteuid() == 0 {
		c := command{env: []string{"DEBIAN_FRONTEND=noninteractive"}}
		c.run(ctx, apt, "-qq", "update") // if this fails, the next command reports what is missing
		_, err := c.run(ctx, apt, "-qq", "install", "-y", "--no-install-recommends", "gcc", "libc6-dev")
		if err == nil {
			return ""
		}
	}
	return "the race detector needs a C compiler: apt-get install gcc libc6-dev"
}
