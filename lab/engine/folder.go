package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folderPrefix begins the name of every engine's folder; sweep looks for it.
const folderPrefix = "weir-engine-"

// A folder is an engine's temporary folder. Its creator holds a lock on a file in it
// for as long as the creator lives, so that others can distinguish a folder in use
// from one left by a killed program.
type folder struct {
	path string
	lock *os.File
}

// newFolder creates a folder owned by owner (nil: the current user), after removing
// those left by killed programs.
func newFolder(owner *syscall.Credential) (*folder, error) {
	base := tempBase(owner)
	sweep(base)

	// The folder gets its final name only once the lock is held; otherwise a sweep
	// could remove it first.
	path, err := os.MkdirTemp(base, "weir-new-")
	if err != nil {
		return nil, fmt.Errorf("engine: create a folder: %w", err)
	}
	f := &folder{path: path}
	if err := f.claim(owner); err != nil {
		return nil, errors.Join(fmt.Errorf("engine: create a folder: %w", err), f.remove())
	}
	return f, nil
}

func (f *folder) claim(owner *syscall.Credential) error {
	var err error
	if f.lock, err = os.Create(filepath.Join(f.path, "lock")); err != nil {
		return err
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	if owner != nil {
		if err := os.Chown(f.path, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	final := filepath.Join(filepath.Dir(f.path), folderPrefix+strings.TrimPrefix(filepath.Base(f.path), "weir-new-"))
	if err := os.Rename(f.path, final); err != nil {
		return err
	}
	f.path = final
	return nil
}

// remove removes the folder and releases the lock.
func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		f.lock.Close()
	}
	return err
}

// sweep removes the folders in base whose creators have died. It leaves folders that
// it has no permission to remove.
func sweep(base string) {
	found, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, path := range found {
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(path)
		}
		lock.Close()
	}
}

// tempBase returns the folder for temporary files, or /tmp if owner cannot enter that
// folder.
func tempBase(owner *syscall.Credential) string {
	base := os.TempDir()
	if owner == nil {
		return base
	}
	for dir := base; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return base
		}
	}
}
