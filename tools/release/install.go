package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-go/weir/tools/released"
)

const sums = "SHA256SUMS"

// sum writes the checksums of all files, for sha256sum --check.
func (r *releaser) sum(context.Context) (string, error) {
	entries, err := os.ReadDir(r.files)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, e := range entries {
		_, sum, err := digest(filepath.Join(r.files, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, e.Name())
	}
	return fmt.Sprintf("%s of %d files", sums, len(entries)), os.WriteFile(filepath.Join(r.files, sums), text.Bytes(), 0o644)
}

// checkSum compares a file with its line in the checksums.
func (r *releaser) checkSum(name string) error {
	b, err := os.ReadFile(filepath.Join(r.files, sums))
	if err != nil {
		return err
	}
	_, sum, err := digest(filepath.Join(r.files, name))
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if lines.Text() == sum+"  "+name {
			return nil
		}
	}
	return fmt.Errorf("%s has no line for %s with %s", sums, name, sum)
}

// user returns a user that gets the tagged modules from a file proxy, with a separate
// module cache.
func (r *releaser) user(name string) (released.User, error) {
	proxy := filepath.Join(r.goes.modcache, "cache", "download")
	env, err := released.Environment(proxy, filepath.Join(r.tmp, "user-modcache"))
	return released.User{Dir: filepath.Join(r.tmp, "user", name), Env: append(env, "GOTOOLCHAIN=local")}, err
}

// getModules adds each module to an empty one. The full form also builds its packages
// and its tests.
func (r *releaser) getModules(context.Context) (string, error) {
	for i, m := range released.Modules {
		r.say(fmt.Sprintf("%s@%s (%d of %d)", m.Path(), r.version, i+1, len(released.Modules)))
		u, err := r.user(fmt.Sprint("module", i))
		if err != nil {
			return "", err
		}
		if r.short {
			err = u.Get(m, r.version)
		} else {
			_, err = u.Try(m, r.version)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.Path(), err)
		}
	}
	did := "added, built, their tests compiled, those without an engine run"
	if r.short {
		did = "added; the full form builds and tests them"
	}
	return fmt.Sprintf("%d modules %s", len(released.Modules), did), nil
}

// installCommand installs the command with go install and its import path.
func (r *releaser) installCommand(ctx context.Context) (string, error) {
	u, err := r.user("command")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(u.Dir, 0o755); err != nil {
		return "", err
	}
	bin := filepath.Join(u.Dir, "bin")
	// The short form builds with the flags of the binaries, to reuse their packages from
	// the build cache.
	u.Env = append(u.Env, "GOBIN="+bin, "CGO_ENABLED=0")
	how := ", built with -trimpath and without cgo; the full form has no flags"
	if !r.short {
		u.Env, how = append(u.Env, "GOENV=off", "GOFLAGS=", "CGO_ENABLED="), ", built without flags"
	}
	if _, err := u.Run("install", released.Core+"/app/cmd/weir@"+r.version); err != nil {
		return "", err
	}
	// The cache's files are read-only, so RemoveAll cannot remove them.
	if _, err := u.Run("clean", "-modcache"); err != nil {
		return "", err
	}
	said, err := r.started(ctx, filepath.Join(bin, program(host)))
	return said + how, err
}

// program returns the name of the command on a platform.
func program(p platform) string {
	if p.os == "windows" {
		return "weir.exe"
	}
	return "weir"
}

// started runs weir --version and checks the output. command is the path of weir, with
// a command such as chroot before it if needed.
func (r *releaser) started(ctx context.Context, command ...string) (string, error) {
	command = append(command, "--version")
	said, err := output(ctx, r.tmp, nil, command[0], command[1:]...)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(said, "weir "+r.version+" (") {
		return "", fmt.Errorf("weir --version prints %q; want %s", said, r.version)
	}
	return said, nil
}

// tryArchive unpacks this platform's archive and starts its command.
func (r *releaser) tryArchive(ctx context.Context) (string, error) {
	if !slices.Contains(r.platforms, host) {
		return "", notRun("no binary for " + host.String() + " was built")
	}
	name := r.archiveName(host)
	if err := r.checkSum(name); err != nil {
		return "", err
	}
	dir := filepath.Join(r.tmp, "unpacked")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := output(ctx, dir, nil, "tar", "-xf", filepath.Join(r.files, name)); err != nil {
		return "", err
	}
	for _, want := range []string{"LICENSE", "README.md", "THIRD-PARTY-LICENSES.txt", shells[0].archive} {
		if _, err := os.Stat(filepath.Join(dir, r.folder(host), want)); err != nil {
			return "", err
		}
	}
	return r.started(ctx, filepath.Join(dir, r.folder(host), program(host)))
}

// tryDeb unpacks this platform's package into an empty folder. If run as root, it uses
// chroot, so that the command sees only the files of the package.
func (r *releaser) tryDeb(ctx context.Context) (string, error) {
	if host.os != "linux" || !slices.Contains(r.platforms, host) {
		return "", notRun("no package for " + host.String() + " was built")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return "", notRun("no dpkg-deb here")
	}
	name := r.debName(host)
	if _, err := os.Stat(filepath.Join(r.files, name)); r.short && errors.Is(err, os.ErrNotExist) {
		return "", notRun("there is no package, see above")
	}
	if err := r.checkSum(name); err != nil {
		return "", err
	}
	root := filepath.Join(r.tmp, "root")
	if _, err := output(ctx, r.tmp, nil, "dpkg-deb", "--extract", filepath.Join(r.files, name), root); err != nil {
		return "", err
	}
	inside := []string{filepath.Join(root, "usr", "bin", "weir")}
	config, how := filepath.Join(root, "etc", "weir", "weir.yaml"), "not in a chroot, which needs root"
	if chroot, err := exec.LookPath("chroot"); err == nil && os.Geteuid() == 0 {
		inside, config, how = []string{chroot, root, "/usr/bin/weir"}, "/etc/weir/weir.yaml", "in a chroot"
	}
	said, err := r.started(ctx, slices.Clone(inside)...)
	if err != nil {
		return "", err
	}
	if _, err := output(ctx, r.tmp, nil, inside[0], append(inside[1:], "proxy", "check", "--config", config)...); err != nil {
		return "", err
	}
	return said + ", " + how + "; its configuration passes weir proxy check", nil
}

// others reports the platforms whose binaries were built but not started.
func (r *releaser) others(context.Context) (string, error) {
	var names []string
	for _, p := range r.platforms {
		if p != host {
			names = append(names, p.String())
		}
	}
	if len(names) == 0 {
		return "", notRun("only " + host.String() + " was built")
	}
	return "", notRun("built and inspected, but not started: " + strings.Join(names, ", "))
}
