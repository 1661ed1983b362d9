package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An earlier version is a commit with which upgrades and rollbacks are tested.
type earlier struct {
	commit string
	skip   string // a regular expression of the tests that are not for this version
}

// Tests that are not for every earlier version.
const (
	withFolder = "^TestH28_VersionsShareACacheFolder$"                                // it has cache.dir
	before     = "^(TestH28_VersionsWithoutACacheFolder|TestJ1_VersionsKeepHeaders)$" // it has neither cache.dir nor headers of jobs
)

// firstVersions are the earlier versions until there is a tag.
var firstVersions = []earlier{
	// The oldest formats of jobs and of a fleet, without cache.dir.
	{"ae6212dbe63383d32154df021b65ff4fc24c59cc", withFolder},
	// The first version with cache.dir, whose responses this one does not find.
	{"325dc0613fdac36d1951921a3d30b7041b744d17", before + "|" + withFolder},
	// The first version that compares what counts (decision 0090).
	{"2b2fc06c826d8797402342cc2d62bc68492e9741", before},
}

// buildEarlier builds the earlier version that the tests of all modules run beside this one.
func (w workshop) buildEarlier(ctx context.Context) (string, error) {
	if !inGit(ctx) {
		return noGit, nil
	}
	all := earlierVersions(ctx)
	return all[len(all)-1].build(ctx, w.earlier())
}

// versions runs the tests with two versions side by side (decision 0057) for those earlier
// versions that the tests of all modules did not have.
func (w workshop) versions(ctx context.Context) (string, error) {
	if !inGit(ctx) {
		return noGit, nil
	}
	all := earlierVersions(ctx)
	var notes []string
	for _, v := range all[:len(all)-1] {
		note, err := w.testWith(ctx, v)
		if err != nil {
			return "", fmt.Errorf("against %s: %w", v.commit, err)
		}
		if note != "" {
			notes = append(notes, "against "+v.commit+": "+note)
		}
	}
	return strings.Join(notes, "; "), nil
}

const noGit = "no git repository here"

func inGit(ctx context.Context) bool {
	_, err := command{quiet: true}.run(ctx, "git", "rev-parse", "HEAD")
	return err == nil
}

// earlierVersions returns WEIR_PREVIOUS_COMMIT if it is set, else the newest tag of the
// core before HEAD, else firstVersions.
func earlierVersions(ctx context.Context) []earlier {
	if commit := os.Getenv("WEIR_PREVIOUS_COMMIT"); commit != "" {
		return []earlier{{commit, before}}
	}
	tags, err := command{quiet: true}.run(ctx, "git", "tag", "--list", "v[0-9]*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-v:refname")
	if newest, _, _ := strings.Cut(tags, "\n"); err == nil && newest != "" {
		return []earlier{{newest, before}}
	}
	return firstVersions
}

// build builds the program of v. The note says why there is none.
func (v earlier) build(ctx context.Context, program string) (note string, err error) {
	git := command{quiet: true}
	if _, err := git.run(ctx, "git", "rev-parse", "--quiet", "--verify", v.commit+"^{commit}"); err != nil {
		shallow, _ := git.run(ctx, "git", "rev-parse", "--is-shallow-repository")
		commits, _ := git.run(ctx, "git", "rev-list", "--count", "HEAD")
		if slices.Contains(firstVersions, v) && (shallow == "true" || commits == "1") {
			return "a clone without history does not have " + v.commit + "; run git fetch --unshallow --tags to get it", nil
		}
		return "", fmt.Errorf("this repository does not have %s; fetch it, or set another in WEIR_PREVIOUS_COMMIT", v.commit)
	}
	dir, err := os.MkdirTemp("", "weir-previous-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "source.tar")
	if _, err := git.run(ctx, "git", "archive", "--output", source, v.commit); err != nil {
		return "", err
	}
	if _, err := git.run(ctx, "tar", "-xf", source, "-C", dir); err != nil {
		return "", err
	}
	if _, err := (command{dir: dir, lavish: true}).run(ctx, "go", "build", "-o", program, "./app/cmd/weir"); err != nil {
		return "", fmt.Errorf("%s cannot be built: %w", v.commit, err)
	}
	return "", nil
}

// testWith builds v and runs the tests with it. The note says what did not run.
func (w workshop) testWith(ctx context.Context, v earlier) (note string, err error) {
	program := filepath.Join(w.dir, "weir-"+v.commit)
	if note, err := v.build(ctx, program); note != "" || err != nil {
		return note, err
	}
	t := w.tests([]string{"./app/proxy"}, "-run", "Versions", "-skip", v.skip)
	t.env = append(t.env, "WEIR_TEST_PREVIOUS="+program)
	skipped := len(meterOf(ctx).skippedTests())
	if err := t.run(ctx); err != nil {
		return "", err
	}
	if names := meterOf(ctx).skippedTests()[skipped:]; len(names) > 0 {
		note = "skipped " + strings.Join(names, ", ")
	}
	return note, nil
}
