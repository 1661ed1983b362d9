//go:build !linux

package natstest

import (
	"errors"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return nil }

func limitFiles(uint64) error { return errors.ErrUnsupported }
