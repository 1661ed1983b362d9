//go:build !linux

package proc

import "syscall"

// Outside Linux a killed parent leaves its children.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// DieWithParent does nothing outside Linux.
func DieWithParent() {}
