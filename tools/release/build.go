package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/tools/released"
)

// build builds the command for each platform from a clone of its tag.
func (r *releaser) build(ctx context.Context) (string, error) {
	if err := r.buildIn(ctx, filepath.Join(r.tmp, "one", "weir"), r.goes, filepath.Join(r.tmp, "bin")); err != nil {
		return "", err
	}
	for _, p := range r.platforms {
		if err := r.inspect(p); err != nil {
			return "", fmt.Errorf("%s: %w", p, err)
		}
	}
	return fmt.Sprintf("%v, static, %s in their build information", r.platforms, r.version), nil
}

// rebuild builds the same binaries in another folder, with other caches, and compares
// them.
func (r *releaser) rebuild(ctx context.Context) (string, error) {
	env := r.goes
	if !r.short {
		env.modcache, env.cache = filepath.Join(r.tmp, "another-modcache"), r.coldCache("second")
	}
	other := filepath.Join(r.tmp, "bin-again")
	if err := r.buildIn(ctx, filepath.Join(r.tmp, "another", "place", "clone"), env, other); err != nil {
		return "", err
	}
	if !r.short {
		defer env.run(context.WithoutCancel(ctx), r.tmp, "clean", "-modcache") //nolint:errcheck // cleanup only
	}
	for _, p := range r.platforms {
		_, first, err := digest(r.binary(p))
		if err != nil {
			return "", err
		}
		_, second, err := digest(filepath.Join(other, filepath.Base(r.binary(p))))
		if err != nil {
			return "", err
		}
		if first != second {
			return "", fmt.Errorf("%s: the builds differ: %s and %s", p, first, second)
		}
	}
	caches := "cold caches"
	if r.short {
		caches = "warm caches, which the full form does not use"
	}
	return fmt.Sprintf("%d of %d byte-identical, %s", len(r.platforms), len(r.platforms), caches), nil
}

// buildIn clones the command's tag to dir and builds it for each platform.
func (r *releaser) buildIn(ctx context.Context, dir string, env goEnv, out string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	_, err := r.git.run(ctx, "-c", "advice.detachedHead=false", "clone", "--quiet", "--branch", "app/"+r.version, r.git.dir, dir)
	if err != nil {
		return err
	}
	r.clones = append(r.clones, dir)
	for i, p := range r.platforms {
		r.say(fmt.Sprintf("%s (%d of %d)", p, i+1, len(r.platforms)))
		e := env
		e.more = []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0"}
		file := filepath.Join(out, filepath.Base(r.binary(p)))
		if _, err := e.run(ctx, filepath.Join(dir, "app"), "build", "-trimpath", "-tags=grpcnotrace", "-buildvcs=true", "-ldflags=-s", "-o", file, "./cmd/weir"); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// binary returns the path of the first build for a platform.
func (r *releaser) binary(p platform) string {
	name := "weir-" + p.os + "-" + p.arch
	if p.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.tmp, "bin", name)
}

// inspect checks the build information of a binary. That also works for binaries that
// cannot be started here.
func (r *releaser) inspect(p platform) error {
	info, err := buildinfo.ReadFile(r.binary(p))
	if err != nil {
		return err
	}
	have := map[string]string{"version": info.Main.Version}
	for _, s := range info.Settings {
		have[s.Key] = s.Value
	}
	for key, want := range map[string]string{
		"version": r.version, "GOOS": p.os, "GOARCH": p.arch, "CGO_ENABLED": "0", "-trimpath": "true", "vcs.modified": "false",
	} {
		if have[key] != want {
			return fmt.Errorf("the binary's build information has %s %q; want %q", key, have[key], want)
		}
	}
	for _, d := range info.Deps {
		if strings.HasPrefix(d.Path+"/", released.Core+"/") && d.Version != r.version {
			return fmt.Errorf("the binary has %s %s; want %s", d.Path, d.Version, r.version)
		}
	}
	if p.os != "linux" {
		return nil
	}
	f, err := elf.Open(r.binary(p))
	if err != nil {
		return err
	}
	defer f.Close()
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			return errors.New("the binary is not static: it requires a dynamic loader")
		}
	}
	return nil
}
