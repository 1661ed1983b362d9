//go:build !unix

package keep

import (
	"io/fs"
	"os"
)

// like gives a copy the permissions of the original.
func like(path string, info fs.FileInfo) error { return os.Chmod(path, info.Mode().Perm()) }

// noLinks reports whether the error of a link says that none can be made.
func noLinks(error) bool { return true }
