package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// makeProxy writes a module proxy (go.dev/ref/mod#goproxy-protocol) that serves one
// version of each release.
func makeProxy(dir string) error {
	for _, r := range releases {
		if err := r.publish(dir); err != nil {
			return fmt.Errorf("%s: %w", r.path(), err)
		}
	}
	return nil
}

// publish writes what a proxy has of r.
func (r release) publish(proxy string) error {
	m := module.Version{Path: r.path(), Version: version}
	checked, err := modzip.CheckDir(r.dir)
	if err == nil {
		err = checked.Err()
	}
	if err != nil {
		return err
	}
	gomod, err := r.gomod(checked.Valid)
	if err != nil {
		return err
	}
	var files []modzip.File
	for _, name := range checked.Valid {
		name, err := filepath.Rel(r.dir, name)
		if err != nil {
			return err
		}
		f := file{dir: r.dir, name: filepath.ToSlash(name)}
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

// gomod returns r's go.mod with the releases that its files import, tests included.
func (r release) gomod(files []string) ([]byte, error) {
	name := filepath.Join(r.dir, "go.mod")
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse(name, b, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if filepath.Ext(name) != ".go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if of := releaseOf(path); of != "" && of != r.path() {
				if err := mod.AddRequire(of, version); err != nil {
					return nil, err
				}
			}
		}
	}
	mod.Cleanup()
	return mod.Format()
}

// releaseOf returns the release that has a package, "" if none has.
func releaseOf(pkg string) string {
	best := ""
	for _, r := range releases {
		if p := r.path(); (pkg == p || strings.HasPrefix(pkg, p+"/")) && len(p) > len(best) {
			best = p
		}
	}
	return best
}

// A file is one of a module's, perhaps with other text than in the checkout.
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
