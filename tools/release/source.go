package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/tools/released"
)

// clone creates the scratch clone of HEAD. Commits in it use the name and time of HEAD's
// committer, so that a second run creates identical commits.
func (r *releaser) clone(ctx context.Context) (string, error) {
	ours := git{dir: r.root}
	head, err := ours.run(ctx, "log", "-1", "--format=%H%n%cn%n%ce%n%ct")
	if err != nil {
		return "", err
	}
	lines := strings.Split(head, "\n")
	seconds, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if len(lines) != 4 || err != nil {
		return "", fmt.Errorf("git log: %q", head)
	}
	r.Commit, r.when = lines[0], time.Unix(seconds, 0).UTC()
	if r.before, err = ours.run(ctx, "status", "--porcelain"); err != nil {
		return "", err
	}
	r.git = git{dir: filepath.Join(r.tmp, "source"), env: []string{
		"GIT_AUTHOR_NAME=" + lines[1], "GIT_AUTHOR_EMAIL=" + lines[2], "GIT_AUTHOR_DATE=" + lines[3] + " +0000",
		"GIT_COMMITTER_NAME=" + lines[1], "GIT_COMMITTER_EMAIL=" + lines[2], "GIT_COMMITTER_DATE=" + lines[3] + " +0000",
	}}
	if _, err := ours.run(ctx, "clone", "--quiet", "--no-checkout", r.root, r.git.dir); err != nil {
		return "", err
	}
	if _, err := r.git.run(ctx, "checkout", "--quiet", "--detach", r.Commit); err != nil {
		return "", err
	}
	for _, m := range released.Modules {
		if _, err := r.git.run(ctx, "rev-parse", "--quiet", "--verify", "refs/tags/"+m.Tag(r.version)); err == nil {
			return "", fmt.Errorf("the tag %s exists already", m.Tag(r.version))
		}
	}
	detail := "HEAD, " + r.when.Format(time.DateOnly)
	if r.before != "" {
		detail += fmt.Sprintf("; %d changes in the working tree are not included", strings.Count(r.before, "\n")+1)
	}
	return detail, nil
}

// changelog turns the unreleased part of the changelog into that of the version, and
// writes the release notes from it.
func (r *releaser) changelog(ctx context.Context) (string, error) {
	name := filepath.Join(r.git.dir, "CHANGELOG.md")
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text, notes, err := cutNotes(string(b), r.version, r.when)
	if err != nil {
		return "", err
	}
	// Right after a release there are no notes, but make test must still pass.
	if notes == "" && !r.short {
		return "", fmt.Errorf("CHANGELOG.md says nothing about %s", r.version)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(r.files, "RELEASE_NOTES.md"), []byte(notes), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d lines of notes", strings.Count(notes, "\n")), r.commit(ctx, "release: "+r.version)
}

// cutNotes returns the changelog with its unreleased part under the heading of the
// version, and as notes that part with a title, or "" if it is empty. If the changelog
// already has a part for the version, it stays unchanged.
func cutNotes(changelog, version string, when time.Time) (text, notes string, err error) {
	const open = "## [Unreleased]\n"
	number := strings.TrimPrefix(version, "v")
	if !strings.Contains(changelog, "\n## ["+number+"]") {
		if !strings.Contains(changelog, "\n"+open) {
			return "", "", errors.New("CHANGELOG.md has neither this version nor an [Unreleased] part")
		}
		changelog = strings.Replace(changelog, "\n"+open, "\n"+open+"\n## ["+number+"] - "+when.Format(time.DateOnly)+"\n", 1)
	}
	_, part, _ := strings.Cut(changelog, "\n## ["+number+"]")
	_, part, _ = strings.Cut(part, "\n")
	if next := regexp.MustCompile(`(?m)^(## |\[[^\]]+\]: )`).FindStringIndex(part); next != nil {
		part = part[:next[0]]
	}
	if part = strings.TrimSpace(part); part == "" {
		return changelog, "", nil
	}
	return changelog, "# weir " + version + "\n\n" + part + "\n", nil
}

// commit commits the changes in the scratch clone, if there are any.
func (r *releaser) commit(ctx context.Context, message string) error {
	if _, err := r.git.run(ctx, "add", "--all"); err != nil {
		return err
	}
	if changed, err := r.git.run(ctx, "status", "--porcelain"); err != nil || changed == "" {
		return err
	}
	_, err := r.git.run(ctx, "-c", "commit.gpgSign=false", "-c", "core.hooksPath="+os.DevNull, "commit", "--quiet", "--message", message)
	return err
}

// tagModules tags the modules, each after those that it requires. The go command fetches
// each tag like the public proxy: with git, from a URL that looks to it like the
// repository on GitHub. So the checksums in our go.sum files are those of the real
// modules.
func (r *releaser) tagModules(ctx context.Context) (string, error) {
	var err error
	if r.goes, err = scratch(ctx, filepath.Join(r.tmp, "modcache"), r.coldCache("first")); err != nil {
		return "", err
	}
	if r.Go, err = r.goes.run(ctx, r.tmp, "env", "GOVERSION"); err != nil {
		return "", err
	}
	direct := r.goes
	direct.more = []string{
		"GONOPROXY=" + released.Core + "," + released.Core + "/*",
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://" + filepath.ToSlash(r.git.dir) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + released.Core,
	}
	ordered, err := released.Ordered(r.git.dir)
	if err != nil {
		return "", err
	}
	r.goes.proxy = fileProxy(r.goes.modcache) + "," + r.goes.proxy
	var tags []string
	for _, m := range ordered {
		if err := r.tag(ctx, m, direct); err != nil {
			return "", fmt.Errorf("%s: %w", m.Path(), err)
		}
		tags = append(tags, m.Tag(r.version))
		r.say(fmt.Sprintf("%s (%d of %d)", m.Tag(r.version), len(tags), len(ordered)))
	}
	return strings.Join(tags, " "), nil
}

// tag writes the requires of m into its go.mod, tags m, and fetches the tag.
func (r *releaser) tag(ctx context.Context, m released.Module, direct goEnv) error {
	dir := filepath.Join(r.git.dir, m.Dir)
	files, err := m.Files(r.git.dir)
	if err != nil {
		return err
	}
	required, err := m.Imports(files)
	if err != nil {
		return err
	}
	gomod, err := m.GoMod(r.git.dir, required, r.version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), gomod, 0o644); err != nil {
		return err
	}
	if _, err := direct.run(ctx, dir, "mod", "tidy"); err != nil {
		return err
	}
	if err := r.commit(ctx, "release: "+m.Tag(r.version)+" requires what was tagged before it"); err != nil {
		return err
	}
	if _, err := r.git.run(ctx, "-c", "tag.gpgSign=false", "tag", "--annotate", "--message", m.Path()+" "+r.version, m.Tag(r.version)); err != nil {
		return err
	}
	_, err = direct.run(ctx, r.tmp, "mod", "download", m.Path()+"@"+r.version)
	return err
}

// coldCache returns a new build cache, or "" in the short form, which uses the machine's.
func (r *releaser) coldCache(name string) string {
	if r.short {
		return ""
	}
	return filepath.Join(r.tmp, "gocache-"+name)
}

// status checks that builds left no files in a clone, and that the checkout has not
// changed.
func (r *releaser) status(ctx context.Context) (string, error) {
	now, err := git{dir: r.root}.run(ctx, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if now != r.before {
		return "", fmt.Errorf("the checkout has changed: git status prints\n%s\nand printed at the start\n%s", now, r.before)
	}
	for _, dir := range slices.Concat([]string{r.git.dir}, r.clones) {
		if left, err := (git{dir: dir}).run(ctx, "status", "--porcelain", "--ignored"); err != nil || left != "" {
			return "", errors.Join(err, fmt.Errorf("%s is not clean: %s", dir, left))
		}
	}
	return fmt.Sprintf("clean in %d clones, unchanged in the checkout", 1+len(r.clones)), nil
}

// keep copies the clone and the files to --out.
func (r *releaser) keep(ctx context.Context) (string, error) {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return "", err
	}
	if err := os.CopyFS(filepath.Join(r.out, "files"), os.DirFS(r.files)); err != nil {
		return "", err
	}
	source := filepath.Join(r.out, "source")
	if _, err := r.git.run(ctx, "clone", "--quiet", "--no-hardlinks", "--branch", "app/"+r.version, r.git.dir, source); err != nil {
		return "", err
	}
	return r.out, nil
}
