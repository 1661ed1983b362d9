package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Engines that tests start or connect to. The optional ones are started if they are
// available, and otherwise reported as missing.
var (
	engines         = []string{"postgres", "cassandra", "redis", "nginx", "varnish", "caddy", "ab", "wrk", "hey", "h2load"}
	optionalEngines = []string{"valkey", "promtool", "chromium", "node", "npm", "pgbouncer", "pip"}
)

// A workshop is what steps build for others: the programs, in a separate folder.
type workshop struct{ dir string }

func (w workshop) with() string    { return filepath.Join(w.dir, "with") }
func (w workshop) weir() string    { return filepath.Join(w.dir, "weir") }
func (w workshop) earlier() string { return filepath.Join(w.dir, "earlier") }

// withEngines is the start of a command line that runs a command with these engines.
func (w workshop) withEngines(required, optional []string) []string {
	return slices.Concat([]string{w.with(), "--install", "--optional", strings.Join(optional, ",")}, required, []string{"--"})
}

// install builds the program that starts engines, and installs them.
func (w workshop) install(ctx context.Context) (string, error) {
	if _, err := (command{}).run(ctx, "go", "build", "-o", w.with(), "./lab/cmd/with"); err != nil {
		return "", err
	}
	prefix := w.withEngines(engines, optionalEngines)
	_, err := command{}.run(ctx, w.with(), prefix[1:]...)
	return withoutEngines(meterOf(ctx).output()), err
}

// withoutEngines returns the lines in which lab/cmd/with says what it left out.
func withoutEngines(output string) string {
	var notes []string
	for line := range strings.Lines(output) {
		if note, ok := strings.CutPrefix(strings.TrimSpace(line), "with: WITHOUT "); ok {
			notes = append(notes, note)
		}
	}
	return strings.Join(notes, "; ")
}

// build builds weir once for all tests that run it, stripped as a release is.
func (w workshop) build(ctx context.Context) (string, error) {
	_, err := command{lavish: true}.run(ctx, "go", "build", "-ldflags=-s", "-o", w.weir(), "./app/cmd/weir")
	return "", err
}

// testTimeout bounds the tests of one package. The lab's scenarios take six minutes on a
// machine that has nothing else to do.
const testTimeout = "20m"

// modulesTests runs the tests of all modules but the root module, whose tests are separate
// steps.
func (w workshop) modulesTests(ctx context.Context) (string, error) {
	all, err := patterns()
	if err != nil {
		return "", err
	}
	// The lab's scenarios take longest, and mostly wait: if started last, they would run
	// alone.
	const longest = "./lab/..."
	packages := []string{longest}
	for _, p := range all {
		if p != "./..." && p != longest {
			packages = append(packages, p)
		}
	}
	// Many packages mostly wait, so there is room for one more than there are processors.
	t := w.tests(packages, "-p", strconv.Itoa(runtime.NumCPU()+1), "-timeout", testTimeout)
	if _, err := os.Stat(w.earlier()); err == nil {
		t.env = append(t.env, "WEIR_TEST_PREVIOUS="+w.earlier())
	}
	err = t.run(ctx)
	note := meterOf(ctx).notRun()
	if err == nil && os.Getenv(everyRow) != "" && strings.Contains(note, "./jobs/embedded ") {
		err = errors.New("rows of the damage to a store of jobs did not run: " + note)
	}
	return note, err
}

// everyRow, in the environment, requires a machine that can damage a store of jobs in every
// way that its tests know: .ci/run sets it.
const everyRow = "WEIR_TEST_EVERY_ROW"

// tests are tests of packages with all engines.
func (w workshop) tests(packages []string, flags ...string) testRun {
	return testRun{
		command:  command{env: []string{"WEIR_TEST_PROGRAM=" + w.weir()}, prefix: w.withEngines(engines, optionalEngines)},
		flags:    flags,
		packages: packages,
		engines:  true,
	}
}

// raceTimeout bounds the tests of one package with the race detector, which makes tests
// with real engines three times as slow.
const raceTimeout = "30m"

func (w workshop) raceAll(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	all, err := patterns()
	if err != nil {
		return "", err
	}
	t := w.tests(all, "-race", "-timeout", raceTimeout)
	// All histories run without the race detector, with which they take ten times as long.
	t.env = append(t.env, "CGO_ENABLED=1", "WEIR_TEST_FULL=")
	return "", t.run(ctx)
}

// newUser tries the core and the README's program as a new user.
func newUser(ctx context.Context) (string, error) { return newUserOf(ctx, ".") }

// newUserOfAll tries every module as a new user.
func newUserOfAll(ctx context.Context) (string, error) { return newUserOf(ctx) }

func newUserOf(ctx context.Context, modules ...string) (string, error) {
	_, err := command{}.run(ctx, "go", append([]string{"run", "./tools/newuser"}, modules...)...)
	return "", err
}

// releaseVersion is a version that is never tagged.
const releaseVersion = "v0.0.0-test"

// release builds a release of the commit for this machine, and installs it.
func release(ctx context.Context) (string, error) {
	if _, err := (command{quiet: true}).run(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return "no git repository here", nil
	}
	_, err := command{}.run(ctx, "go", "run", "./tools/release", "--dry-run", "--short", releaseVersion)
	return "", err
}
