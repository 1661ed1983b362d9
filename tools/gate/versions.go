package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	// The first version with cache.dir.
	{"325dc0613fdac36d1951921a3d30b7041b744d17", before},
}

// versions runs the tests with two versions side by side (decision 0057).
func versions(ctx context.Context) (string, error) {
	if _, err := (command{quiet: true}).run(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return "no git repository here", nil
	}
	var notes []string
	for _, v := range earlierVersions(ctx) {
		note, err := v.test(ctx)
		if err != nil {
			return "", fmt.Errorf("against %s: %w", v.commit, err)
		}
		if note != "" {
			notes = append(notes, "against "+v.commit+": "+note)
		}
	}
	return strings.Join(notes, "; "), nil
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

// test builds v and runs the tests with it. The note says what did not run.
func (v earlier) test(ctx context.Context) (note string, err error) {
	git := command{quiet: true}
	if _, err := git.run(ctx, "git", "rev-parse", "--quiet", "--verify", v.commit+"^{commit}"); err != nil {
		shallow, _ := git.run(ctx, "git", "rev-parse", "--is-shallow-repository")
		commits, _ := git.run(ctx, "git", "rev-list", "--count", "HEAD")
		if slices.Contains(firstVersions, v) && (shallow == "true" || commits == "1") {
			return "a clone without history does not have it; run git fetch --unshallow --tags to get it", nil
		}
		return "", fmt.Errorf("this repository does not have the commit; fetch it, or set another in WEIR_PREVIOUS_COMMIT")
	}
	dir, err := os.MkdirTemp("", "weir-previous-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source, program := filepath.Join(dir, "source.tar"), filepath.Join(dir, "weir")
	if _, err := git.run(ctx, "git", "archive", "--output", source, v.commit); err != nil {
		return "", err
	}
	if _, err := git.run(ctx, "tar", "-xf", source, "-C", dir); err != nil {
		return "", err
	}
	if _, err := (command{dir: dir}).run(ctx, "go", "build", "-o", program, "./app/cmd/weir"); err != nil {
		return "", fmt.Errorf("it cannot be built: %w", err)
	}
	c := command{env: []string{"WEIR_TEST_PREVIOUS=" + program}, quiet: true}
	out, err := c.run(ctx, "go", "test", "-count=1", "-v", "-run", "Versions", "-skip", v.skip, "./app/proxy")
	fmt.Println(out)
	if err != nil {
		return "", err
	}
	return ranAll(out)
}

var result = regexp.MustCompile(`(?m)^ *--- (PASS|SKIP): (\S+)`)

// ranAll reads the output of go test -v. The note names the tests that were skipped; it
// is an error if all were.
func ranAll(out string) (note string, err error) {
	passed, skipped := 0, []string(nil)
	for _, m := range result.FindAllStringSubmatch(out, -1) {
		if m[1] == "SKIP" {
			skipped = append(skipped, m[2])
		} else {
			passed++
		}
	}
	if passed == 0 {
		return "", fmt.Errorf("no test ran; skipped: %q", skipped)
	}
	if len(skipped) > 0 {
		note = "skipped " + strings.Join(skipped, ", ")
	}
	return note, nil
}
