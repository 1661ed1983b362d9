// Command gate runs the repository's gates. It prints one line when a step starts and
// ends, and at the end what each step took, what could not run, and what failed, with
// the command that runs each failed test alone.
//
//	go run ./tools/gate test [-write]     what a submission must pass; -write puts the
//	                                      table of its steps into docs/testing.md
//	go run ./tools/gate quick [COMMIT]    what the changes since COMMIT touch
//	go run ./tools/gate one PACKAGE [...] go test of one package, with the engines it needs
//	go run ./tools/gate full              test, with all random histories, every module
//	                                      under the race detector, and every fuzz target
//	go run ./tools/gate race              every module under the race detector
//	go run ./tools/gate fuzz              every fuzz target for a short time
//	go run ./tools/gate faults [NAME]     whether the judge finds the faults that are made for it
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: gate test [-write] | quick [COMMIT] | one PACKAGE [flags of go test] | full | race | fuzz | faults [NAME]")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	if err := enterRoot(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-gate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // engines run as another user, and weir in here is one of them
		return err
	}
	w := workshop{dir}

	var steps []step
	write := false
	switch name, rest := args[0], args[1:]; {
	case name == "one" && len(rest) > 0:
		return w.one(ctx, rest)
	case name == "quick" && len(rest) <= 1:
		base := ""
		if len(rest) == 1 {
			base = rest[0]
		}
		if steps, err = quickSteps(ctx, base, os.Stdout); err != nil {
			return err
		}
	case name == "test" && (len(rest) == 0 || len(rest) == 1 && rest[0] == "-write"):
		write = len(rest) == 1
		steps = w.testSteps()
	case name == "full" && len(rest) == 0:
		os.Setenv("WEIR_TEST_FULL", "1")
		steps = append(w.testSteps(), w.fullSteps()...)
	case name == "race" && len(rest) == 0:
		steps = w.raceSteps()
	case name == "fuzz" && len(rest) == 0:
		steps = []step{{name: "fuzz", run: fuzz}}
	case name == "faults" && len(rest) <= 1:
		steps = []step{{name: "faults", run: faults(cmp.Or(strings.Join(rest, ""), "*"))}}
	default:
		return errUsage
	}

	if args[0] != "quick" { // which shares what go test has compiled by hand
		if err := asReleased(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	results := runSteps(ctx, steps, os.Stdout)
	wall := time.Since(began)
	passed := report(os.Stdout, results, wall)
	if write {
		machine := fmt.Sprintf("Written by `go run ./tools/gate test -write` on %s, %s, %d cores.", time.Now().Format("2 January 2006"), runtime.Version(), runtime.NumCPU())
		if err := writeTable(results, wall, machine); err != nil {
			return err
		}
	}
	if !passed {
		return errors.New("failed")
	}
	return nil
}

// testSteps are the steps of make test. The tests of the modules come first: the lab's
// scenarios, which are about load, are among them.
func (w workshop) testSteps() []step {
	return []step{
		{name: "gofmt", may: 5 * time.Second, run: gofmt},
		{name: "vet", may: 3 * time.Minute, run: vet},
		{name: "engines", may: 3 * time.Minute, run: w.install},
		{name: "earlier version", may: 2 * time.Minute, run: w.buildEarlier},
		{name: "weir", after: []string{"vet"}, may: time.Minute, run: w.build},
		{name: "core alone", after: []string{"vet"}, may: 30 * time.Second, run: coreAlone},
		{name: "tests of all modules", after: []string{"vet", "engines", "earlier version", "weir"}, first: true, may: 12 * time.Minute, run: w.modulesTests},
		{name: "core, race detector", after: []string{"core alone"}, may: 8 * time.Minute, run: coreWithRaceDetector},
		{name: "build, " + oldestGo, after: []string{"core alone"}, may: 2 * time.Minute, run: buildWithOldestGo},
		{name: "staticcheck", after: []string{"vet"}, may: 4 * time.Minute, run: staticcheck},
		{name: "core", after: []string{"staticcheck"}, may: 2 * time.Minute, run: core},
		{name: "other platforms", after: []string{"vet"}, may: time.Minute, run: portable},
		{name: "exported API", after: []string{"vet"}, may: 30 * time.Second, run: api},
		{name: "licences", after: []string{"vet"}, may: 30 * time.Second, run: licences},
		{name: "new user", after: []string{"vet"}, may: time.Minute, run: newUser},
	}
}

func (w workshop) raceSteps() []step {
	return []step{
		{name: "engines", run: w.install},
		{name: "weir", run: w.build},
		{name: "race detector, every module", after: []string{"engines", "weir"}, run: w.raceAll},
	}
}

// fullSteps follow the steps of make test in make full.
func (w workshop) fullSteps() []step {
	return []step{
		{name: "race detector, every module", after: []string{"tests of all modules"}, run: w.raceAll},
		{name: "vet for other platforms", after: []string{"vet"}, run: vetPlatforms},
		{name: "vulnerabilities", run: vulns},
		{name: "new user, every module", after: []string{"new user"}, run: newUserOfAll},
		{name: "release, short form", after: []string{"vet"}, run: release},
		{name: "core in fleets, race detector", after: []string{"core, race detector"}, run: fleetsWithRaceDetector},
		{name: "core, " + oldestGo, after: []string{"core alone"}, run: coreWithOldestGo},
		{name: "core, 386", after: []string{"core alone"}, run: core386},
		{name: "faults", after: []string{"core"}, run: faults("*")},
		{name: "fuzz", after: []string{"race detector, every module"}, run: fuzz},
		{name: "ratios to peers", after: []string{"fuzz", "vet for other platforms", "core, 386"}, run: ratios},
	}
}

// asReleased makes all steps and their tests compile as a release is compiled: without cgo,
// and without the part of grpc that makes programs large (decision 0006). The tests that
// build weir as released then need not compile again whatever imports net or grpc, which
// is most of the repository. The race detector needs cgo, and its steps enable it.
//
// Without -trimpath, what the go command and staticcheck have cached holds for one folder: a
// new clone, or another worktree, compiles and checks all of the repository's code again.
func asReleased(ctx context.Context) error {
	flags, err := command{quiet: true}.run(ctx, "go", "env", "GOFLAGS")
	if err != nil {
		return fmt.Errorf("go env GOFLAGS: %w", err)
	}
	return errors.Join(os.Setenv("CGO_ENABLED", "0"), os.Setenv("GOFLAGS", strings.TrimSpace(flags+" -trimpath -tags=grpcnotrace")))
}

// enterRoot changes to the root of the checkout.
func enterRoot() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("no go.work here or above: run this in the checkout")
		}
		dir = filepath.Dir(dir)
	}
}
