package jobscheck

import (
	"syscall"
	"time"
	"unsafe"
)

// now reads CLOCK_MONOTONIC, in ns. It is shared by all processes of the machine, and
// does not jump. Package time exposes it only as differences within one process.
func now() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
