package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// buildEarlier builds the earlier version that the tests of all modules run beside this one
// (decision 0057).
func (w workshop) buildEarlier(ctx context.Context) (string, error) {
	if !inGit(ctx) {
		return noGit, nil
	}
	commit, note := earlierVersion(ctx)
	if note != "" {
		return note, nil
	}
	return buildCommit(ctx, commit, w.earlier())
}

const noGit = "no git repository here"

func inGit(ctx context.Context) bool {
	_, err := command{quiet: true}.run(ctx, "git", "rev-parse", "HEAD")
	return err == nil
}

// earlierVersion returns WEIR_PREVIOUS_COMMIT if it is set, else the newest tag of the core
// before HEAD, else the last commit that has landed: the newest one before HEAD that the
// upstream branch has, or HEAD's first parent. The note says why there is none.
func earlierVersion(ctx context.Context) (commit, note string) {
	if commit := os.Getenv("WEIR_PREVIOUS_COMMIT"); commit != "" {
		return commit, ""
	}
	git := command{quiet: true}
	tags, err := git.run(ctx, "git", "tag", "--list", "v[0-9]*", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-v:refname")
	if newest, _, _ := strings.Cut(tags, "\n"); err == nil && newest != "" {
		return newest, ""
	}
	head, _ := git.run(ctx, "git", "rev-parse", "HEAD")
	if landed := defaultBase(ctx); landed != "HEAD" && landed != head {
		return landed, ""
	}
	parent, err := git.run(ctx, "git", "rev-parse", "--quiet", "--verify", "HEAD^1")
	if err != nil {
		return "", "a clone without history has no commit before this one; run git fetch --unshallow --tags to get it"
	}
	return parent, ""
}

// buildCommit builds the program of a commit. The note says why there is none.
func buildCommit(ctx context.Context, commit, program string) (note string, err error) {
	git := command{quiet: true}
	if _, err := git.run(ctx, "git", "rev-parse", "--quiet", "--verify", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("this repository does not have %s; fetch it, or set another in WEIR_PREVIOUS_COMMIT", commit)
	}
	dir, err := os.MkdirTemp("", "weir-previous-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "source.tar")
	if _, err := git.run(ctx, "git", "archive", "--output", source, commit); err != nil {
		return "", err
	}
	if _, err := git.run(ctx, "tar", "-xf", source, "-C", dir); err != nil {
		return "", err
	}
	if _, err := (command{dir: dir, lavish: true}).run(ctx, "go", "build", "-o", program, "./app/cmd/weir"); err != nil {
		return "", fmt.Errorf("%s cannot be built: %w", commit, err)
	}
	return "", nil
}
