package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(a *syscall.SysProcAttr, death syscall.Signal) { a.Pdeathsig = death }

// DieWithParent requests a SIGTERM for this program when its parent dies. Programs
// call it first in main: `go run` does not pass on the SIGTERM that ends it, and
// would leave us behind.
func DieWithParent() {
	parent := os.Getppid()
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
	if parent != os.Getppid() { // it died between the two lines above
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
}

// runOn restricts this thread to those processors until restore is called.
func runOn(cpus []int) (restore func(), err error) {
	var before, set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_setaffinity: %w", err)
	}
	return func() { unix.SchedSetaffinity(0, &before) }, nil //nolint:errcheck // what was allowed before is allowed now
}
