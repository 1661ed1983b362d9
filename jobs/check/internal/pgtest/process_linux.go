package pgtest

import (
	"os"
	"syscall"
)

// processAttributes ends a program with this process, and runs it as another user if this
// process is root's, because PostgreSQL refuses root.
func processAttributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		a.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return a
}
