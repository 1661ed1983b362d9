package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unpackedFolder is where Install unpacks the packages of name.
func unpackedFolder(name string) string { return filepath.Join(cacheFolder(), "unpacked-"+name) }

// unpackDebian unpacks the packages of name, and their missing dependencies, without
// installing any:
//
//  1. apt-get reads the machine's sources into lists of our own;
//  2. it downloads the packages next to the lists, and verifies them as usual;
//  3. dpkg-deb unpacks them into a folder;
//  4. the folder gets a script that runs the program from there;
//  5. the folder gets its final name last, so that it is complete or absent.
func unpackDebian(ctx context.Context, w io.Writer, apt, name string) error {
	state := filepath.Join(cacheFolder(), "apt")
	archives := filepath.Join(state, "archives")
	for _, dir := range []string{filepath.Join(state, "lists", "partial"), filepath.Join(archives, "partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	defer os.RemoveAll(archives)
	run := func(args ...string) error { return runApt(ctx, w, apt, privateState(state), args...) }
	if err := run("update"); err != nil {
		return err
	}
	args := append([]string{"install", "-y", "--no-install-recommends", "--download-only"}, strings.Fields(known[name].packages)...)
	if err := run(args...); err != nil {
		return err
	}
	return putInPlace(unpackedFolder(name), func(root string) error {
		if err := unpackArchives(ctx, root, archives); err != nil {
			return err
		}
		return addLauncher(root, cmp.Or(known[name].program, "java"))
	})
}

// privateState returns the options that make apt-get keep its state in our folder,
// and take no system-wide lock.
func privateState(dir string) []string {
	return []string{
		"Dir::State=" + dir,
		"Dir::State::lists=" + filepath.Join(dir, "lists"),
		"Dir::State::status=/var/lib/dpkg/status",
		"Dir::Cache=" + dir,
		"Dir::Cache::archives=" + filepath.Join(dir, "archives"),
		"Debug::NoLocking=true",
		"APT::Sandbox::User=root", // the user that root switches to may not write here
		"Acquire::Languages=none",
	}
}

func unpackArchives(ctx context.Context, root, archives string) error {
	found, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("apt-get had nothing to download: the package is marked as installed")
	}
	for _, deb := range found {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w\n%s", filepath.Base(deb), err, out)
		}
	}
	return relink(root)
}

// relink redirects symbolic links below root that point to a file of the packages
// (such as Java's links into /etc) to the unpacked file.
func relink(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		if _, err := os.Lstat(filepath.Join(root, target)); err != nil {
			return nil // it points to a file of the system
		}
		inside, err := filepath.Rel(filepath.Dir(path), filepath.Join(root, target))
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(path), os.Symlink(inside, path))
	})
}
