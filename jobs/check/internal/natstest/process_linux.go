package natstest

import (
	"os/signal"
	"syscall"
)

// A child is killed when its parent ends, because a stopped child would not see the
// end of its standard input.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// limitFiles limits the files of this process to n bytes.
func limitFiles(n uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	l.Cur = min(n, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}
