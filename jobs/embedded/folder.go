package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weir-go/weir/jobs/embedded/internal/disk"
)

// ErrInUse is what Start returns where another Server has the folder.
var ErrInUse = errors.New("embedded: folder in use")

// lockName is of the file that says who has a folder. It stays when the Server
// is closed: a file that is removed can be locked by one and made anew by
// another.
const lockName = "weir.lock"

// openFolder makes dir if need be, and takes its lock, which is held as long as the
// file is open. One that is missing and was there is not made.
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
	ok, err := tryLock(f)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s, by process %s", ErrInUse, dir, owner(f))
	} else if err != nil {
		err = fmt.Errorf("embedded: locking %s: %w", f.Name(), err)
	} else if err = probe(f); err != nil {
		err = &StoreError{dir, err}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func owner(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	if pid, err := strconv.Atoi(string(b[:n])); err == nil {
		return strconv.Itoa(pid)
	}
	return "unknown"
}

// probe writes the process's id into the lock file, and so finds out early and
// by name what would otherwise stop the server later: no space, no permission.
// The space is allocated again each time, since the file is cut before.
func probe(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("writing to it: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("writing to it: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flushing to it: %w", err)
	}
	return nil
}

// storedStreams returns the streams of which dir has messages. What has none may
// be of a stream whose making was cut short.
func storedStreams(dir, account string) ([]string, error) {
	streams := filepath.Join(dir, "jetstream", account, "streams")
	entries, err := os.ReadDir(streams)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		blocks, _ := filepath.Glob(filepath.Join(streams, e.Name(), "msgs", "*.blk"))
		for _, b := range blocks {
			if info, err := os.Stat(b); err == nil && info.Size() > 0 {
				names = append(names, e.Name())
				break
			}
		}
	}
	return names, err
}
