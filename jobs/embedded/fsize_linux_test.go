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

// held are the descriptors that holdAll has taken.
var held []int

// holdAll takes all descriptors that this process may have, which it first limits.
func holdAll() string {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err.Error()
	}
	l.Cur = min(l.Max, 400)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err.Error()
	}
	for {
		fd, err := syscall.Dup(0)
		if err != nil {
			return "held"
		}
		held = append(held, fd)
	}
}

func releaseAll() string {
	for _, fd := range held {
		syscall.Close(fd)
	}
	held = nil
	return "released"
}
