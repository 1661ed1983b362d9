package embedded_test

import (
	"os/signal"
	"syscall"
)

// limitFiles limits the files of this process to n bytes. This simulates a disk that
// accepts no more writes, without root privileges.
func limitFiles(n uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	l.Cur = min(n, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}
