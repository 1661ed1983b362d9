package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// oldestGo is the newest release of the oldest Go that the core's go.mod
// allows.
const oldestGo = "go1.25.14"

// fuzzTime is how long `gate fuzz` spends on each target.
const fuzzTime = "20s"

func gofmt(context.Context) (string, error) {
	var errs []error
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		want, err := format.Source(have)
		if err == nil && !bytes.Equal(have, want) {
			err = fmt.Errorf("%s: not formatted with gofmt", path)
		}
		errs = append(errs, err)
		return nil
	})
	return "", errors.Join(append(errs, err)...)
}

func vet(ctx context.Context) (string, error) { return "", goAll(ctx, "vet") }

// aboutFiles matches the tests that read the repository's files. Once is enough for
// them: neither a fleet, the race detector nor another Go changes a file.
const aboutFiles = "^TestRepo"

// core builds and tests the core as users get it: without the workspace.
func core(ctx context.Context) (string, error) {
	for _, args := range [][]string{
		{"mod", "tidy", "-diff"},
		{"build", "./..."},
		{"test", "./..."},
		{"test", "-skip", aboutFiles, ".", "-fleet"}, // the contract, with a fleet
	} {
		if _, err := alone.run(ctx, "go", args...); err != nil {
			return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return "", nil
}

// staticcheck builds the tool outside the workspace, so that its requirements do not
// raise those of other modules.
func staticcheck(ctx context.Context) (string, error) {
	tool, err := command{env: alone.env, quiet: true}.run(ctx, "go", "-C", "tools", "tool", "-n", "staticcheck")
	if err != nil {
		return "", err
	}
	all, err := patterns()
	if err != nil {
		return "", err
	}
	_, err = command{}.run(ctx, tool, all...)
	return "", err
}

// tests runs the tests of all modules but the root module, whose tests core runs.
func tests(ctx context.Context) (string, error) {
	all, err := patterns()
	if err != nil {
		return "", err
	}
	// The lab's scenarios take longest, and mostly wait: if started last, they would run
	// alone.
	const longest = "./lab/..."
	// Many packages mostly wait, so there is room for one more than there are processors.
	args := []string{"test", "-p", strconv.Itoa(runtime.NumCPU() + 1), "-timeout", testTimeout, longest}
	for _, p := range all {
		if p != "./..." && p != longest {
			args = append(args, p)
		}
	}
	_, err = command{}.run(ctx, "go", args...)
	return "", err
}

func raceCore(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	_, err := command{env: append(alone.env, "CGO_ENABLED=1")}.run(ctx, "go", "test", "-race", "-skip", aboutFiles, "./...")
	return "", err
}

// testTimeout bounds the tests of one package. The lab's scenarios take six minutes on a
// machine that has nothing else to do.
const testTimeout = "20m"

// raceTimeout bounds the tests of one package with the race detector, which makes tests
// with real engines three times as slow.
const raceTimeout = "30m"

func raceAll(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	os.Setenv("CGO_ENABLED", "1")
	return "", goAll(ctx, "test", "-race", "-timeout", raceTimeout)
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

func coreWithOldestGo(ctx context.Context) (string, error) {
	old := command{env: append(alone.env, "GOTOOLCHAIN="+oldestGo)}
	if _, err := old.run(ctx, "go", "version"); err != nil {
		return oldestGo + " could not be fetched", nil
	}
	_, err := old.run(ctx, "go", "test", "-skip", aboutFiles, "./...")
	return "", err
}

func newUser(ctx context.Context) (string, error) {
	_, err := command{}.run(ctx, "go", "run", "./tools/newuser")
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

// fuzz runs every fuzz target of every module, one after another, because go test
// accepts only one at a time.
func fuzz(ctx context.Context) (string, error) {
	all, err := patterns()
	if err != nil {
		return "", err
	}
	out, err := command{quiet: true}.run(ctx, "go", append([]string{"test", "-list", "^Fuzz"}, all...)...)
	if err != nil {
		return "", err
	}
	// The names of a package's targets come before the line "ok package time".
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			for _, name := range names {
				_, err := command{}.run(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", fuzzTime, fields[1])
				if err != nil {
					return "", fmt.Errorf("%s in %s: %w", name, fields[1], err)
				}
			}
			names = nil
		}
	}
	return "", nil
}

// goAll runs a go command on the packages of every module.
func goAll(ctx context.Context, args ...string) error {
	all, err := patterns()
	if err != nil {
		return err
	}
	_, err = command{}.run(ctx, "go", append(args, all...)...)
	return err
}
