package redistest

import "syscall"

// dieWithParent makes the kernel end the server when the test's process ends, for
// whatever reason.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
