//go:build !linux

package embedded_test

import (
	"errors"
	"testing"
)

func limitFiles(uint64) error { return errors.ErrUnsupported }

func holdAll() string { return errors.ErrUnsupported.Error() }

func releaseAll() string { return errors.ErrUnsupported.Error() }

func mountVolume(*testing.T, string, string) error { return errors.ErrUnsupported }
