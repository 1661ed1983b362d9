package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Every engine's folder starts so; sweep looks for the name.
const folderPrefix = "weir-engine-"

// A folder is an engine's temporary folder. Its creator holds a lock on a file
// in it for as long as it lives, so that others can tell a folder in use from
// one that a killed program left.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder owned by owner (nil: ourselves), after removing
// those that killed programs have left.
func newFolder(owner *syscall.Credential) (*folder, error) {
	base := tempBase(owner)
	sweep(base)

	// The folder gets its final name when the lock is held, or a sweep could
	// take it between the two.
	path, err := os.MkdirTemp(base, "weir-new-")
	if err != nil {
		return nil, fmt.Errorf("engine: make a folder: %w", err)
	}
	f := &folder{path: path}
	if err := f.claim(owner); err != nil {
		return nil, errors.Join(fmt.Errorf("engine: make a folder: %w", err), f.remove())
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

// remove removes the folder and gives up the lock.
func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		f.lock.Close()
	}
	return err
}

// sweep removes the folders in base whose makers have died. What it may not
// touch, it leaves.
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

// tempBase returns the folder for temporary files, or /tmp if owner could not
// enter that one.
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
