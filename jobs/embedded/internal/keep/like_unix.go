//go:build unix

package keep

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// like gives a copy the permissions and the owner of the original.
func like(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil && os.Geteuid() == 0 {
			return err
		}
	}
	return os.Chmod(path, info.Mode().Perm())
}

// noLinks reports whether the error of a link says that none can be made, here or at all.
func noLinks(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EXDEV) ||
		errors.Is(err, syscall.EMLINK) || errors.Is(err, syscall.EPERM)
}
