package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/tools/go/packages"

	"github.com/weir-go/weir/tools/released"
)

// A platform is one that users build for.
type platform struct{ os, arch string }

// host is the platform of this process.
var host = platform{runtime.GOOS, runtime.GOARCH}

func (p platform) String() string { return p.os + "/" + p.arch }

func (p platform) env() []string {
	return []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0"}
}

// Platforms that differ from the machines that run the tests: int has 32 bits, or the
// system is not Linux.
var (
	quickPlatforms = []platform{{"linux", "386"}, {"windows", "amd64"}}
	allPlatforms   = []platform{{"linux", "386"}, {"linux", "arm"}, {"darwin", "arm64"}, {"windows", "amd64"}}
)

// portable type-checks the released modules and their tests for two platforms. That finds
// a constant that overflows a 32-bit int and a system call that a platform lacks. It reads
// the sources of all imports, but compiles none, so it takes seconds where go vet takes
// minutes without a warm build cache for the platform.
func portable(ctx context.Context) (string, error) {
	return "", onEach(quickPlatforms, func(p platform) error { return typeCheck(ctx, p, ".", releasedPatterns()...) })
}

// vetPlatforms runs go vet on the released modules for all platforms.
func vetPlatforms(ctx context.Context) (string, error) {
	return "", onEach(allPlatforms, func(p platform) error {
		_, err := command{env: p.env()}.run(ctx, "go", append([]string{"vet"}, releasedPatterns()...)...)
		return err
	})
}

// core386 runs the tests of the core with 32-bit ints. Processors with 64 bits run them.
func core386(ctx context.Context) (string, error) {
	p := platform{"linux", "386"}
	c := command{env: append(p.env(), alone.env...)}
	if note, err := p.runs(ctx); note != "" || err != nil {
		return note, err
	}
	return "", testRun{command: c, packages: []string{"./..."}}.run(ctx)
}

// runs builds an empty program for p and starts it. The note says that this machine cannot
// run it.
func (p platform) runs(ctx context.Context) (note string, err error) {
	dir, err := os.MkdirTemp("", "weir-platform-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "main")
	if err := os.WriteFile(program+".go", []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return "", err
	}
	c := command{env: append(p.env(), alone.env...), dir: dir}
	if _, err := c.run(ctx, "go", "build", "-o", program, program+".go"); err != nil {
		return "", err
	}
	return p.starts(ctx, program), nil
}

// starts starts a program for p, and returns a note if that fails.
func (p platform) starts(ctx context.Context, program string) (note string) {
	if _, err := (command{}).run(ctx, program); err != nil {
		return fmt.Sprintf("this machine runs no programs for %s: %v", p, err)
	}
	return ""
}

// onEach calls f for each platform and returns all errors.
func onEach(platforms []platform, f func(platform) error) error {
	var errs []error
	for _, p := range platforms {
		if err := f(p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// releasedPatterns returns a pattern for the packages of each released module.
func releasedPatterns() []string {
	var all []string
	for _, m := range released.Modules {
		all = append(all, "./"+path.Join(m.Dir, "..."))
	}
	return all
}

// typeCheck returns the type errors of the packages in dir, and of their tests, on a
// platform. It compiles nothing: go vet finds them too, but first compiles all imports,
// which takes minutes after a change of a package that all others import.
func typeCheck(ctx context.Context, p platform, dir string, patterns ...string) error {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx,
		Dir:     dir,
		Tests:   true,
		Env:     append(os.Environ(), p.env()...),
		// NeedDeps without NeedExportFile reads the imports from their sources.
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
	}, patterns...)
	if err != nil {
		return err
	}
	if len(loaded) == 0 {
		return fmt.Errorf("no packages match %q", patterns)
	}
	seen := map[string]bool{} // a file belongs to its package and to that with its tests
	var errs []error
	packages.Visit(loaded, nil, func(pkg *packages.Package) {
		for _, e := range pkg.Errors {
			if !seen[e.Error()] {
				seen[e.Error()] = true
				errs = append(errs, e)
			}
		}
	})
	return errors.Join(errs...)
}
