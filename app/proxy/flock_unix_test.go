//go:build unix

package proxy_test

import (
	"os"
	"syscall"
)

// flock locks a file as another process that has opened it.
func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
