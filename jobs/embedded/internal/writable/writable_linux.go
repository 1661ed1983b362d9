package writable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"unsafe"
)

// From linux/fs.h: the request for the attributes that chattr sets, and two of them. The
// request's number is the one of most machines; on others it fails, and the attributes
// show only when a file is opened.
const (
	getFlags   = 0x80006601 | unsafe.Sizeof(uintptr(0))<<16 // _IOR('f', 1, long)
	appendOnly = 0x20
	immutable  = 0x10
	tmpFile    = 0x400000 | syscall.O_DIRECTORY
)

var (
	errImmutable  = errors.New("it has the attribute immutable (chattr -i removes it)")
	errAppendOnly = errors.New("it has the attribute append-only (chattr -a removes it)")
	errInodes     = errors.New("the file system has no room for more files (no free inodes)")
	errReadOnly   = errors.New("the file system is mounted read-only")
)

// attributes returns an error for an open file or folder that cannot be removed, or whose
// files cannot be.
func attributes(f *os.File) error {
	var flags [2]uintptr // the kernel writes an int, or a long
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), getFlags, uintptr(unsafe.Pointer(&flags)))
	switch value := *(*uint32)(unsafe.Pointer(&flags)); {
	case e != 0:
		return nil // the file system has no attributes
	case value&immutable != 0:
		return &fs.PathError{Op: "write", Path: f.Name(), Err: errImmutable}
	case value&appendOnly != 0:
		return &fs.PathError{Op: "write", Path: f.Name(), Err: errAppendOnly}
	}
	return nil
}

// inodes returns an error if the file system of an open folder cannot take more files.
func inodes(d *os.File) error {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(d.Fd()), &st); err != nil {
		return nil //nolint:nilerr // it is unknown
	}
	const readOnly = 1
	switch {
	case st.Flags&readOnly != 0:
		return &fs.PathError{Op: "write", Path: d.Name(), Err: errReadOnly}
	case st.Files > 0 && st.Ffree < Inodes:
		return &fs.PathError{Op: "write", Path: d.Name(), Err: fmt.Errorf("%w: %d; at least %d must be free", errInodes, st.Ffree, Inodes)}
	}
	return nil
}

// create creates a file without a name: the folder's time of modification stays, by which
// others see that no file was added.
func create(dir string) error {
	fd, err := syscall.Open(dir, syscall.O_RDWR|syscall.O_CLOEXEC|tmpFile, 0o600)
	switch {
	case err == nil:
		return syscall.Close(fd)
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EINVAL):
		return named(dir)
	}
	return &fs.PathError{Op: "create a file in", Path: dir, Err: err}
}
