package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/jobs/embedded/internal/disk"
)

// ErrInUse is returned by Start if another Server uses the folder.
var ErrInUse = errors.New("embedded: folder in use")

// lockName is the file whose lock marks a folder as in use. Close does not remove it:
// while one process locked a removed file, another could create and lock a new one.
const lockName = "weir.lock"

// openFolder creates dir if necessary and takes its lock, which lasts until the file
// is closed. A folder that existed earlier and is now missing is not created again.
func openFolder(dir string) (*os.File, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		r, err := disk.Check(dir, time.Now())
		if err == nil && r.Damaged() {
			err = &disk.DamageError{Report: r}
		}
		if _, damaged := errors.AsType[*DamageError](err); damaged || errors.Is(err, ErrNewer) {
			return nil, err
		}
	}
	return lockFolder(dir)
}

func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &StoreError{dir, fmt.Errorf("making it: %w", err)}
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &StoreError{dir, fmt.Errorf("opening it: %w", err)}
	}
	if err = lockFile(dir, f); err == nil {
		if err = probe(f); err != nil {
			err = &StoreError{dir, err}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockExisting takes the lock of a folder that has one, and changes nothing. Without a
// lock file no Server has used the folder, and there is nothing to lock: it returns nil.
func lockExisting(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &StoreError{dir, fmt.Errorf("opening it: %w", err)}
	}
	if err := lockFile(dir, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockFile locks the open lock file of dir.
func lockFile(dir string, f *os.File) error {
	switch ok, err := tryLock(f); {
	case err != nil:
		return fmt.Errorf("embedded: locking %s: %w", f.Name(), err)
	case !ok:
		return fmt.Errorf("%w: %s, by process %s", ErrInUse, dir, owner(f))
	}
	return nil
}

func owner(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	if pid, err := strconv.Atoi(string(b[:n])); err == nil {
		return strconv.Itoa(pid)
	}
	return "unknown"
}

// probe writes the process ID into the lock file. This reports an unwritable disk (no
// space, no permission) early and by name, before it stops the server. The file is
// truncated first, so that the space is allocated again each time.
func probe(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("writing to it: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("writing to it: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flushing it: %w", err)
	}
	return nil
}

// storedStreams returns the streams in dir that have messages. A stream without
// messages may be left from a creation that was cut short.
func storedStreams(dir, account string) ([]string, error) {
	streams := filepath.Join(dir, "jetstream", account, "streams")
	entries, err := os.ReadDir(streams)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		blocks, _ := os.ReadDir(blockFolder(filepath.Join(streams, e.Name())))
		if slices.ContainsFunc(blocks, isFull) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// isFull reports whether a file is a block with messages.
func isFull(e os.DirEntry) bool {
	if _, isBlock := blockIndex(e.Name()); !isBlock {
		return false
	}
	info, err := e.Info()
	return err == nil && info.Size() > 0
}
