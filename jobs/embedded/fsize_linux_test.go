package embedded_test

import (
	"os/signal"
	"syscall"
)

// limitFiles lets the files of this process grow to n bytes only: a disk that
// takes no more writes, for which nobody must be root.
func limitFiles(n uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	l.Cur = min(n, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}
