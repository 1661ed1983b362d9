package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every fuzz target has a seed, with f.Add or in testdata/fuzz, so that go test runs it at
// least once without -fuzz. Every corpus belongs to a target: go test ignores the others.
func TestRepoFuzzTargetsHaveSeeds(t *testing.T) {
	t.Parallel()
	faults, targets, err := fuzzFaults(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	if targets < 60 {
		t.Errorf("%d fuzz targets; is this test looking?", targets)
	}
}

func TestRepoFuzzFaultsAreFound(t *testing.T) {
	root := t.TempDir()
	const header = "package a\n\nimport \"testing\"\n\n"
	for name, text := range map[string]string{
		"a_test.go": header + "func FuzzAdd(f *testing.F) { f.Add(1) }\n" +
			"func FuzzHelper(f *testing.F) { seeds(f) }\nfunc seeds(f *testing.F) { f.Add(1) }\n" +
			"func FuzzFile(f *testing.F) {}\nfunc FuzzNone(f *testing.F) { other(f) }\nfunc other(f *testing.F) {}\n",
		"testdata/fuzz/FuzzFile/0a": "go test fuzz v1\nint(1)\n",
		"testdata/fuzz/FuzzGone/0a": "go test fuzz v1\nint(1)\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	faults, targets, err := fuzzFaults(root)
	all := strings.Join(faults, "\n")
	if err != nil || targets != 4 || len(faults) != 2 || !strings.Contains(all, "FuzzNone has no seed") || !strings.Contains(all, "FuzzGone: no such target") {
		t.Errorf("fuzzFaults = %q, %d, %v; want FuzzNone without a seed and FuzzGone without a target, of 4", faults, targets, err)
	}
}

// fuzzFaults returns the targets below root without a seed and the corpora without a
// target, and the number of targets.
func fuzzFaults(root string) (faults []string, targets int, err error) {
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == ".git" || d.Name() == "testdata":
			return fs.SkipDir
		}
		seeded, err := fuzzTargets(dir)
		if err != nil {
			return err
		}
		targets += len(seeded)
		corpora, err := filepath.Glob(filepath.Join(dir, "testdata", "fuzz", "*"))
		if err != nil {
			return err
		}
		for _, corpus := range corpora {
			name := filepath.Base(corpus)
			if _, ok := seeded[name]; !ok {
				faults = append(faults, corpus+": no such target in "+dir)
				continue
			}
			if files, err := os.ReadDir(corpus); err == nil && len(files) > 0 {
				seeded[name] = true
			}
		}
		for name, ok := range seeded {
			if !ok {
				faults = append(faults, dir+": "+name+" has no seed; call f.Add")
			}
		}
		return nil
	})
	return faults, targets, err
}

// fuzzTargets returns the fuzz targets of the package in dir, and whether each calls
// f.Add, itself or in a function of its package that it passes f to.
func fuzzTargets(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	functions := map[string]*ast.FuncDecl{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Body != nil {
				functions[fn.Name.Name] = fn
			}
		}
	}
	seeded := map[string]bool{}
	for name, fn := range functions {
		if strings.HasPrefix(name, "Fuzz") {
			seeded[name] = addsSeeds(functions, fn)
		}
	}
	return seeded, nil
}

// addsSeeds reports whether fn calls Add of its *testing.F.
func addsSeeds(functions map[string]*ast.FuncDecl, fn *ast.FuncDecl) bool {
	f := fuzzParameter(fn)
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || f == "" {
			return true
		}
		switch callee := call.Fun.(type) {
		case *ast.SelectorExpr:
			found = found || callee.Sel.Name == "Add" && isIdent(callee.X, f)
		case *ast.Ident:
			for _, arg := range call.Args {
				if helper := functions[callee.Name]; helper != nil && helper != fn && isIdent(arg, f) {
					found = found || addsSeeds(functions, helper)
				}
			}
		}
		return true
	})
	return found
}

// fuzzParameter returns the name of fn's parameter of type *testing.F, or "".
func fuzzParameter(fn *ast.FuncDecl) string {
	for _, p := range fn.Type.Params.List {
		star, ok := p.Type.(*ast.StarExpr)
		if !ok || len(p.Names) == 0 {
			continue
		}
		if s, ok := star.X.(*ast.SelectorExpr); ok && s.Sel.Name == "F" && isIdent(s.X, "testing") {
			return p.Names[0].Name
		}
	}
	return ""
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
