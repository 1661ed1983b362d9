package natstest

import (
	"os/signal"
	"syscall"
)

// A child is killed with its parent: one that is stopped would not see its
// standard input end.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// limitFiles lets the files of this process grow to n bytes only.
func limitFiles(n uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	l.Cur = min(n, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}
