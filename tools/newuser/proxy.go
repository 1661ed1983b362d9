package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/weir-go/weir/tools/released"
)

// makeProxy writes a module proxy (go.dev/ref/mod#goproxy-protocol) that serves one
// version of each released module.
func makeProxy(dir string) error {
	for _, m := range released.Modules {
		if err := publish(m, dir); err != nil {
			return fmt.Errorf("%s: %w", m.Path(), err)
		}
	}
	return nil
}

// publish writes the files of a proxy for r.
func publish(r released.Module, proxy string) error {
	m := module.Version{Path: r.Path(), Version: version}
	names, err := r.Files(".")
	if err != nil {
		return err
	}
	required, err := r.Imports(names)
	if err != nil {
		return err
	}
	gomod, err := r.GoMod(".", required, version)
	if err != nil {
		return err
	}
	var files []modzip.File
	for _, name := range names {
		name, err := filepath.Rel(r.Dir, name)
		if err != nil {
			return err
		}
		f := file{dir: r.Dir, name: filepath.ToSlash(name)}
		if f.name == "go.mod" {
			f.instead = gomod
		}
		files = append(files, f)
	}
	var z bytes.Buffer
	if err := modzip.Create(&z, m, files); err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	for name, b := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".mod":  gomod,
		version + ".zip":  z.Bytes(),
		version + ".info": []byte(info),
	} {
		if err := os.WriteFile(filepath.Join(at, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A file is a file of a module. If instead is not nil, it replaces the content in the
// checkout.
type file struct {
	dir, name string
	instead   []byte
}

var _ modzip.File = file{}

func (f file) Path() string { return f.name }

func (f file) Lstat() (os.FileInfo, error) {
	info, err := os.Lstat(filepath.Join(f.dir, f.name))
	if err != nil || f.instead == nil {
		return info, err
	}
	return resized{info, int64(len(f.instead))}, nil
}

func (f file) Open() (io.ReadCloser, error) {
	if f.instead != nil {
		return io.NopCloser(bytes.NewReader(f.instead)), nil
	}
	return os.Open(filepath.Join(f.dir, f.name))
}

type resized struct {
	os.FileInfo
	size int64
}

func (r resized) Size() int64 { return r.size }
