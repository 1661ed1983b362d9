package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"

	"github.com/weir-go/weir/tools/released"
	"github.com/weir-go/weir/tools/thirdparty/licence"
)

// An item is a file of an archive.
type item struct {
	name string
	mode os.FileMode
	data []byte
}

// archive packs the binaries, each with the licences of everything that it contains.
func (r *releaser) archive(ctx context.Context) (string, error) {
	for _, p := range r.platforms {
		items, err := r.items(ctx, p)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p, err)
		}
		pack := packTar
		if p.os == "windows" {
			pack = packZip
		}
		if err := create(filepath.Join(r.files, r.archiveName(p)), func(w io.Writer) error {
			return pack(w, r.folder(p), items, r.when)
		}); err != nil {
			return "", err
		}
	}
	if !slices.Contains(r.platforms, host) {
		return fmt.Sprintf("%d, without shell completions: no binary for %s was built", len(r.platforms), host), nil
	}
	return fmt.Sprintf("%d, each with completions for %d shells", len(r.platforms), len(shells)), nil
}

// folder returns the name of the folder in an archive, such as weir_0.1.0_linux_amd64.
func (r *releaser) folder(p platform) string {
	return strings.Join([]string{"weir", strings.TrimPrefix(r.version, "v"), p.os, p.arch}, "_")
}

func (r *releaser) archiveName(p platform) string {
	if p.os == "windows" {
		return r.folder(p) + ".zip"
	}
	return r.folder(p) + ".tar.gz"
}

// items returns the files of a platform's archive.
func (r *releaser) items(ctx context.Context, p platform) ([]item, error) {
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return nil, err
	}
	items := []item{{program(p), 0o755, binary}}
	for _, name := range []string{"LICENSE", "README.md"} {
		b, err := os.ReadFile(filepath.Join(r.git.dir, name))
		if err != nil {
			return nil, err
		}
		items = append(items, item{name, 0o644, b})
	}
	third, err := r.licences(ctx, r.binary(p))
	if err != nil {
		return nil, err
	}
	scripts, err := r.completions(ctx)
	return append(append(items, item{"THIRD-PARTY-LICENSES.txt", 0o644, third}), scripts...), err
}

// licences returns the licences of Go and of all modules in a binary except ours, from
// the module cache with which it was built. A module without a licence, or with one that is
// not allowed, is an error.
func (r *releaser) licences(ctx context.Context, binary string) ([]byte, error) {
	goroot, err := r.goes.run(ctx, r.tmp, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	add := func(what, dir string) error {
		if _, err := licence.Of(dir); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		names, err := licence.Files(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "==== %s: %s ====\n\n%s\n\n", what, name, strings.TrimSpace(string(b)))
		}
		return nil
	}
	errs := []error{add("Go "+info.GoVersion, goroot)}
	for _, d := range info.Deps {
		if strings.HasPrefix(d.Path+"/", released.Core+"/") {
			continue
		}
		path, err := module.EscapePath(d.Path)
		if err != nil {
			return nil, err
		}
		version, err := module.EscapeVersion(d.Version)
		if err != nil {
			return nil, err
		}
		errs = append(errs, add(d.Path+" "+d.Version, filepath.Join(r.goes.modcache, filepath.FromSlash(path)+"@"+version)))
	}
	return []byte(text.String()), errors.Join(errs...)
}

// packTar writes a tar.gz. The result depends only on the arguments.
func packTar(w io.Writer, folder string, items []item, when time.Time) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, i := range items {
		h := &tar.Header{Name: folder + "/" + i.name, Mode: int64(i.mode), Size: int64(len(i.data)), ModTime: when, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(i.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// packZip is packTar for zip files.
func packZip(w io.Writer, folder string, items []item, when time.Time) error {
	z := zip.NewWriter(w)
	for _, i := range items {
		h := &zip.FileHeader{Name: folder + "/" + i.name, Method: zip.Deflate, Modified: when}
		h.SetMode(i.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(i.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// create creates a file and calls write with it.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
