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

// core builds and tests the core as users get it: without the workspace.
func core(ctx context.Context) (string, error) {
	for _, args := range [][]string{
		{"mod", "tidy", "-diff"},
		{"build", "./..."},
		{"test", "./..."},
		{"test", ".", "-fleet"}, // the contract, with a fleet
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
	args := []string{"test", longest}
	for _, p := range all {
		if p != "./..." && p != longest {
			args = append(args, p)
		}
	}
	_, err = command{}.run(ctx, "go", args...)
	return "", err
}

// firstVersion is the commit against which upgrades and rollbacks are tested until there
// is a tag.
const firstVersion = "ae6212dbe63383d32154df021b65ff4fc24c59cc"

// versions runs the tests with two versions side by side (decision 0057). The previous
// version is WEIR_PREVIOUS_COMMIT if set, else the newest tag before this commit, else
// firstVersion.
func versions(ctx context.Context) (string, error) {
	git := command{quiet: true}
	if _, err := git.run(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return "no git repository here", nil
	}
	commit := os.Getenv("WEIR_PREVIOUS_COMMIT")
	chosen := commit != ""
	if !chosen {
		commit = previousVersion(ctx)
	}
	if _, err := git.run(ctx, "git", "rev-parse", "--quiet", "--verify", commit+"^{commit}"); err != nil {
		shallow, _ := git.run(ctx, "git", "rev-parse", "--is-shallow-repository")
		commits, _ := git.run(ctx, "git", "rev-list", "--count", "HEAD")
		if !chosen && (shallow == "true" || commits == "1") {
			return "NOT RUN: a clone without history has no commit " + commit + "; run git fetch --unshallow --tags to get it", nil
		}
		return "", fmt.Errorf("no commit %s in this repository; fetch it, or set another in WEIR_PREVIOUS_COMMIT", commit)
	}
	dir, err := os.MkdirTemp("", "weir-previous-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source, program := filepath.Join(dir, "source.tar"), filepath.Join(dir, "weir")
	if _, err := git.run(ctx, "git", "archive", "--output", source, commit); err != nil {
		return "", err
	}
	if _, err := git.run(ctx, "tar", "-xf", source, "-C", dir); err != nil {
		return "", err
	}
	if _, err := (command{dir: dir}).run(ctx, "go", "build", "-o", program, "./app/cmd/weir"); err != nil {
		return "", fmt.Errorf("the previous version (%s) cannot be built: %w", commit, err)
	}
	_, err = command{env: []string{"WEIR_TEST_PREVIOUS=" + program}}.run(ctx, "go", "test", "-count=1", "-run", "Versions", "./app/proxy")
	if err != nil {
		return "", fmt.Errorf("against %s: %w", commit, err)
	}
	return "", nil
}

// previousVersion returns the newest tag of the core before HEAD, or firstVersion.
func previousVersion(ctx context.Context) string {
	tags, err := command{quiet: true}.run(ctx, "git", "tag", "--list", "v[0-9]*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-v:refname")
	if newest, _, _ := strings.Cut(tags, "\n"); err == nil && newest != "" {
		return newest
	}
	return firstVersion
}

func raceCore(ctx context.Context) (string, error) {
	if note := needCompiler(ctx); note != "" {
		return note, nil
	}
	_, err := command{env: append(alone.env, "CGO_ENABLED=1")}.run(ctx, "go", "test", "-race", "./...")
	return "", err
}

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
	_, err := old.run(ctx, "go", "test", "./...")
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
