package writable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inodes is how many files and folders a file system must have room for.
const Inodes = 64

// probeName is the file that is created for a moment where no file without a name can be.
const probeName = "weir.probe"

// Tree returns why a folder, a folder in it, or a file in one of them cannot be read,
// written to, or removed. A folder that is missing can be written to if it can be created.
func Tree(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return Folder(path)
		case e.Type().IsRegular():
			return File(path)
		}
		return nil
	})
}

// Folder returns why no file can be created, written to, or removed in a folder.
func Folder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := attributes(d); err != nil {
		return err
	}
	if err := inodes(d); err != nil {
		return err
	}
	return create(dir)
}

// File returns why a file cannot be read and written to, or cannot be replaced.
func File(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return attributes(f)
}

// named creates a file with a name for a moment.
func named(dir string) error {
	path := filepath.Join(dir, probeName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(path))
}

// IsProbe reports whether a killed process may have left a file with this name.
func IsProbe(name string) bool { return name == probeName }

// Held are descriptors that nothing else can use.
type Held []*os.File

// Release makes them available again.
func (h Held) Release() {
	for _, f := range h {
		f.Close()
	}
}

// Hold takes n descriptors, or none.
func Hold(n int) (Held, error) {
	var h Held
	for len(h) < n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			h.Release()
			return nil, fmt.Errorf("%d of %d descriptors that must be free can be opened: %w", len(h), n, err)
		}
		h = append(h, f)
	}
	return h, nil
}

// Descriptors returns an error if fewer than n more files can be opened at the moment.
func Descriptors(n int) error {
	h, err := Hold(n)
	h.Release()
	return err
}
