package proc

import (
	"os"
	"syscall"
)

func dieWithParent(a *syscall.SysProcAttr, death syscall.Signal) { a.Pdeathsig = death }

// DieWithParent asks for SIGTERM when the program that started this one dies.
// A program calls it first thing in main: `go run` does not pass on the
// SIGTERM that ends it, and would leave us behind.
func DieWithParent() {
	parent := os.Getppid()
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
	if parent != os.Getppid() { // it died between the two lines above
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
}
