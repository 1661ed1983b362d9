package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// A touched is what a change touches.
type touched struct {
	files    []string // relative to the root
	packages []string // packages with a changed file, ./relative
	users    []string // packages that import one of these, directly or not, tests included
}

// quickSteps are the gates for what has changed since base: "" is the last commit that
// the upstream branch has too, or the last commit.
func quickSteps(ctx context.Context, base string, out io.Writer) ([]step, error) {
	if base == "" {
		base = defaultBase(ctx)
	}
	files, err := changedFiles(ctx, base)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("nothing has changed since %s; name another commit: gate quick COMMIT", base)
	}
	packages, err := listPackages(ctx)
	if err != nil {
		return nil, err
	}
	c := touch(files, packages)
	fmt.Fprintf(out, "changed since %s: %d files in %d packages, which %d packages use\n", base, len(c.files), len(c.packages), len(c.users))
	steps := []step{
		{name: "gofmt", run: gofmt},
		{name: "the rules of the repository", run: func(ctx context.Context) (string, error) {
			return "", testRun{packages: []string{"./tools/repo"}}.run(ctx)
		}},
	}
	if len(c.packages) == 0 {
		return steps, nil
	}
	return append([]step{
		{name: "tests of what changed", run: func(ctx context.Context) (string, error) {
			err := testRun{packages: c.packages}.run(ctx)
			if errors.Is(err, errNoTest) {
				return "no test of these packages runs without an engine; see make one", nil
			}
			return "", err
		}},
		{name: "types in what uses it", run: func(ctx context.Context) (string, error) {
			return "", typeCheck(ctx, host, ".", slices.Concat(c.packages, c.users)...)
		}},
		// What follows compiles what the tests compile. They are done with that by now.
		{name: "vet of what changed", run: func(ctx context.Context) (string, error) {
			return "", vetPackages(ctx, c.packages)
		}},
		{name: "staticcheck of what changed", run: func(ctx context.Context) (string, error) {
			return "", staticcheckPackages(ctx, c.packages)
		}},
	}, steps...), nil
}

// defaultBase is the newest commit that the upstream branch has too, else HEAD.
func defaultBase(ctx context.Context) string {
	for _, upstream := range []string{"@{upstream}", "origin/HEAD"} {
		if base, err := (command{quiet: true}).run(ctx, "git", "merge-base", "HEAD", upstream); err == nil {
			return base
		}
	}
	return "HEAD"
}

// changedFiles returns the files that differ from base, committed or not, and those that
// git does not know yet.
func changedFiles(ctx context.Context, base string) ([]string, error) {
	git := command{quiet: true}
	changed, err := git.run(ctx, "git", "diff", "--name-only", "-z", base, "--")
	if err != nil {
		return nil, fmt.Errorf("git diff %s: %w", base, err)
	}
	added, err := git.run(ctx, "git", "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.FieldsFunc(changed+added, func(r rune) bool { return r == 0 }), nil
}

// A goPackage is a package of this repository, as go list prints it.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func listPackages(ctx context.Context) ([]goPackage, error) {
	all, err := patterns()
	if err != nil {
		return nil, err
	}
	out, err := command{quiet: true}.run(ctx, "go", append([]string{"list", "-json=ImportPath,Imports,TestImports,XTestImports"}, all...)...)
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// touch finds the packages that files belong to, and those that use them. A file that is
// in no package's folder, such as testdata, belongs to the nearest package above it; a
// page or a Makefile in a folder without Go code above it belongs to none. With the root,
// the packages change that have its tests of the contract.
func touch(files []string, packages []goPackage) touched {
	byDir := map[string]goPackage{}
	for _, p := range packages {
		byDir[relative(p.ImportPath)] = p
	}
	changed := map[string]bool{}
	for _, f := range files {
		dir := "./" + path.Dir(f)
		if path.Dir(f) == "." {
			dir = "."
		}
		for byDir[dir].ImportPath == "" && dir != "." {
			if dir = path.Dir(dir); dir != "." {
				dir = "./" + dir
			}
		}
		if p := byDir[dir]; p.ImportPath != "" && (dir != "." || path.Ext(f) == ".go") {
			changed[p.ImportPath] = true
			for _, p := range packages {
				if dir == "." && inContract(p.ImportPath) {
					changed[p.ImportPath] = true
				}
			}
		}
	}
	c := touched{files: files}
	reached := maps.Clone(changed)
	for grown := true; grown; {
		grown = false
		for _, p := range packages {
			uses := func(imports []string) bool {
				return slices.ContainsFunc(imports, func(i string) bool { return reached[i] })
			}
			if !reached[p.ImportPath] && uses(p.Imports) {
				reached[p.ImportPath], grown = true, true
			}
		}
	}
	for _, p := range packages {
		direct := func(imports []string) bool {
			return slices.ContainsFunc(imports, func(i string) bool { return reached[i] })
		}
		switch dir := relative(p.ImportPath); {
		case changed[p.ImportPath]:
			c.packages = append(c.packages, dir)
		case reached[p.ImportPath], direct(p.TestImports), direct(p.XTestImports):
			c.users = append(c.users, dir)
		}
	}
	return c
}
