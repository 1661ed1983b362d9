package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A listed is a package as go list -deps -test prints it: our own ones, their variants
// for tests, and what they import.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
	ImportMap               map[string]string
	Module                  *struct{ GoVersion string }
}

// ours reports whether p is a package of this repository, and not the main package that
// the go command makes for a test.
func (p listed) ours() bool {
	path, _, _ := strings.Cut(p.ImportPath, " ")
	return (path == modulePath || strings.HasPrefix(path, modulePath+"/")) && !strings.HasSuffix(path, ".test")
}

// typeCheck type-checks packages of this repository with their tests, from their source.
// go vet does that too, but first compiles all that they import: minutes after a change
// of a package that all others import.
func typeCheck(ctx context.Context, packages []string) (string, error) {
	all, err := list(ctx, append([]string{"-deps", "-test", "-json=Dir,ImportPath,GoFiles,ImportMap,Module"}, packages...))
	if err != nil {
		return "", err
	}
	var others []string
	for _, p := range all {
		if !p.ours() && !strings.Contains(p.ImportPath, " ") && !strings.HasSuffix(p.ImportPath, ".test") {
			others = append(others, p.ImportPath)
		}
	}
	compiled, err := list(ctx, append([]string{"-export", "-json=ImportPath,Export"}, others...))
	if err != nil {
		return "", err
	}
	export := map[string]string{}
	for _, p := range compiled {
		export[p.ImportPath] = p.Export
	}
	c := &checker{fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}, parsed: map[string]*ast.File{}}
	c.others = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	n := 0
	for _, p := range all { // each after what it imports
		if p.ours() {
			c.check(p)
			n++
		}
	}
	meterOf(ctx).does("%d packages", n)
	return "", errors.Join(c.errs...)
}

func list(ctx context.Context, args []string) ([]listed, error) {
	out, err := command{quiet: true}.run(ctx, "go", append([]string{"list"}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// A checker type-checks packages one after another.
type checker struct {
	fset   *token.FileSet
	others types.Importer            // of packages that are not ours
	done   map[string]*types.Package // ours, by go list's ImportPath
	parsed map[string]*ast.File
	errs   []error
}

// maxErrors bounds the errors that are reported of a package.
const maxErrors = 10

func (c *checker) check(p listed) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		name = filepath.Join(p.Dir, name)
		f := c.parsed[name]
		if f == nil {
			var err error
			if f, err = parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution); err != nil {
				c.errs = append(c.errs, err)
				return
			}
			c.parsed[name] = f
		}
		files = append(files, f)
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	errs := 0
	config := types.Config{
		Importer: importFunc(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if pkg := c.done[path]; pkg != nil {
				return pkg, nil
			}
			return c.others.Import(path)
		}),
		Error: func(err error) {
			if errs++; errs <= maxErrors && !slices.ContainsFunc(c.errs, func(e error) bool { return e.Error() == err.Error() }) {
				c.errs = append(c.errs, err)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	c.done[p.ImportPath], _ = config.Check(path, c.fset, files, nil) // errors went to Error
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
