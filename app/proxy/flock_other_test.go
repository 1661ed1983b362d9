//go:build !unix

package proxy_test

import (
	"errors"
	"os"
)

func flock(*os.File) error { return errors.ErrUnsupported }
