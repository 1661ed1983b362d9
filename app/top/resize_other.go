//go:build !windows

package top

import (
	"os"
	"os/signal"
	"syscall"
)

func notifyResized(to chan<- os.Signal) { signal.Notify(to, syscall.SIGWINCH) }
