//go:build !linux

package pgtest

import "syscall"

func processAttributes() *syscall.SysProcAttr { return nil }
