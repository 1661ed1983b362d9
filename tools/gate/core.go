package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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

// core runs the core's tests without the race detector. Under it, those that count
// allocations skip themselves, and the others play a part of the random histories. The
// contract's tests run again with a fleet behind each Guard. They use the workspace,
// because staticcheck has compiled the tests there.
func core(ctx context.Context) (string, error) {
	t := testRun{flags: []string{"-timeout", testTimeout}, packages: []string{"./..."}}
	if err := t.run(ctx); err != nil {
		return "", err
	}
	return "", inFleets(t).run(ctx)
}

// inFleets returns a run of the contract's tests with a fleet behind each Guard.
func inFleets(t testRun) testRun {
	t.packages, t.args = []string{contractTests}, []string{"-fleet"}
	return t
}

// contractTests are the packages of the contract's tests of a Guard.
const contractTests = "./internal/contract/..."

// inContract reports whether a package is one of contractTests.
func inContract(importPath string) bool {
	return strings.HasPrefix(importPath, modulePath+"/internal/contract/")
}

// racePart is the part of the random histories that make test plays under the race
// detector. All that make test plays without it play under it at night.
const racePart = "5"

// coreWithRaceDetector runs the core's tests as users get it: without the workspace.
func coreWithRaceDetector(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	return "", coreRace("WEIR_TEST_FULL=", "WEIR_TEST_PART="+racePart).run(ctx)
}

// fleetsWithRaceDetector runs the contract's tests with a fleet behind each Guard.
func fleetsWithRaceDetector(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	return "", inFleets(coreRace("WEIR_TEST_FULL=")).run(ctx)
}

func coreRace(env ...string) testRun {
	return testRun{
		command:  command{env: slices.Concat([]string{"CGO_ENABLED=1"}, alone.env, env)},
		flags:    []string{"-race", "-timeout", raceTimeout},
		packages: []string{"./..."},
	}
}

// buildWithOldestGo builds the core with the oldest Go. That its code uses nothing newer,
// tests included, is also what vet checks against the version in go.mod.
func buildWithOldestGo(ctx context.Context) (string, error) {
	return withOldestGo(ctx, func(old command) error {
		_, err := old.run(ctx, "go", "build", "./...")
		return err
	})
}

// coreWithOldestGo runs the core's tests with the oldest Go.
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
