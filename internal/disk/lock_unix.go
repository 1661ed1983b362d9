//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an open file until the file is closed or the process ends. It reports
// false if it is locked already.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// flushFolder makes the names in an open folder durable.
func flushFolder(d *os.File) error { return d.Sync() }
