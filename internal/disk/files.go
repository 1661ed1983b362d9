package disk

import (
	"errors"
	"io"
	"os"
)

// Files is the part of a file system that a Store uses. Tests replace it, to tear
// writes and to fill the disk.
type Files interface {
	// Open opens a file for reading and writing. With create, it must not exist yet.
	Open(name string, create bool) (File, error)
	Remove(name string) error
	Rename(from, to string) error
	// List returns the names of the files in a folder, at most most of them.
	List(folder string, most int) ([]string, error)
	// Make creates a folder for the user alone, unless it exists.
	Make(folder string) error
	// Flush makes the names in a folder durable.
	Flush(folder string) error
	// Lock returns a lock that ends with Close, or with the process. It returns
	// ErrInUse if somebody else holds it.
	Lock(name string) (io.Closer, error)
}

// A File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
}

// system is the file system of the operating system.
type system struct{}

var _ Files = system{}

type systemFile struct{ *os.File }

func (f systemFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (system) Open(name string, create bool) (File, error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(name, flag, 0o600) //nolint:gosec // the folder is the operator's
	if err != nil {
		return nil, err
	}
	return systemFile{f}, nil
}

func (system) Remove(name string) error     { return os.Remove(name) }
func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) Make(folder string) error     { return os.MkdirAll(folder, 0o700) }

func (system) List(folder string, most int) ([]string, error) {
	d, err := os.Open(folder) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (system) Flush(folder string) error {
	d, err := os.Open(folder) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer d.Close()
	return flushFolder(d)
}

func (system) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	if ok, err := tryLock(f); !ok || err != nil {
		_ = f.Close()
		if err == nil {
			err = ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// System returns the file system of the operating system.
func System() Files { return system{} }
