//go:build !linux

package proc

import (
	"errors"
	"syscall"
)

// Outside Linux a killed parent leaves its children.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// DieWithParent does nothing outside Linux.
func DieWithParent() {}

func runOn([]int) (func(), error) { return nil, errors.New("this needs Linux") }
