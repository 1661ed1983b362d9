//go:build !linux

package embedded_test

import "errors"

func limitFiles(uint64) error { return errors.ErrUnsupported }
