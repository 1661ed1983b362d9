//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of an open file, which ends with the file or the
// process. It reports false where another has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
