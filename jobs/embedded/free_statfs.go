//go:build linux || darwin

package embedded

import "syscall"

// freeBytes returns how many bytes can still be written to the disk that holds dir.
func freeBytes(dir string) (free int64, known bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
