package redistest

import "syscall"

// dieWithParent has the kernel end the server when the test's process ends in
// whatever way.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
