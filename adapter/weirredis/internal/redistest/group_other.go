//go:build !unix

package redistest

import (
	"os"
	"syscall"
)

// The signals of Pause and Resume, which only Unix has: sending them fails the test.
var pause, resume os.Signal = syscall.Signal(-1), syscall.Signal(-1)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
