//go:build !unix

package disk

import "os"

// tryLock locks nothing on this system: the program must ensure that only one Store
// uses a folder.
func tryLock(*os.File) (bool, error) { return true, nil }

// flushFolder does nothing: a folder cannot be flushed on this system.
func flushFolder(*os.File) error { return nil }
