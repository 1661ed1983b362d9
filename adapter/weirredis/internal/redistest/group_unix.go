//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// The signals of Pause and Resume.
var (
	pause  os.Signal = syscall.SIGSTOP
	resume os.Signal = syscall.SIGCONT
)

// ownGroup starts a process in a separate group, so that an interrupt of the test does not
// reach it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
