//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an open file until the file is closed or the process ends. It reports
// false if another process holds the lock.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
