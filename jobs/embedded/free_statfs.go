//go:build linux || darwin

package embedded

import "syscall"

// freeBytes returns how much can still be written on the disk of dir.
func freeBytes(dir string) (free int64, known bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
