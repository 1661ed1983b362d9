package repo_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write docs/contract-tests.md and testdata/language.txt anew")

// root is the root of the checkout: the working folder of a test is its package's.
//
// The path begins with the package's folder and stays unclean on purpose. The go command
// caches the result of a test with the files that it opened, but ignores those outside the
// test's module. It compares paths as text, so these files count as part of module tools,
// and the tests run again if one of them changes.
var root = func() string {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return here + filepath.FromSlash("/../..")
}()

// onDisk returns the path of a file whose name is from the root, with slashes.
func onDisk(name string) string { return root + string(filepath.Separator) + filepath.FromSlash(name) }

// A repository is what belongs to the checkout: every file that .gitignore does not name.
type repository struct {
	files   []string          // from the root, with slashes, sorted by folder
	text    map[string][]byte // of each file
	goFiles []goFile
	modules []string // the folders with a go.mod, sorted
}

// A goFile is a parsed Go file of the repository. The tests share it, so none may change
// it.
type goFile struct {
	path   string // from the root, with slashes
	module string // the folder of its module's go.mod, "." for the core
	text   []byte
	fset   *token.FileSet
	ast    *ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f goFile) imports(p string) bool {
	return slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(p) })
}

// load reads the repository once for all tests. It reads the folders instead of asking git,
// so that the test cache notices new files, and a checkout owned by another user works.
var load = sync.OnceValues(func() (*repository, error) {
	r := &repository{text: map[string][]byte{}}
	ignored, err := ignore()
	if err != nil {
		return nil, err
	}
	if err := r.read(".", ignored); err != nil {
		return nil, err
	}
	slices.Sort(r.modules)
	return r, r.parse()
})

// read adds the files in a folder and below.
func (r *repository) read(dir string, ignored func(string) bool) error {
	entries, err := os.ReadDir(onDisk(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Name() == ".git" || ignored(name):
		case e.IsDir():
			if err := r.read(name, ignored); err != nil {
				return err
			}
		case e.Type().IsRegular():
			b, err := os.ReadFile(onDisk(name))
			if err != nil {
				return err
			}
			r.files, r.text[name] = append(r.files, name), b
			if e.Name() == "go.mod" {
				r.modules = append(r.modules, dir)
			}
		}
	}
	return nil
}

// parse parses every Go file.
func (r *repository) parse() error {
	for _, name := range r.files {
		if path.Ext(name) != ".go" {
			continue
		}
		f := goFile{path: name, module: moduleOf(r.modules, name), text: r.text[name], fset: token.NewFileSet()}
		var err error
		if f.ast, err = parser.ParseFile(f.fset, name, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		r.goFiles = append(r.goFiles, f)
	}
	return nil
}

// ignore reads .gitignore, whose patterns are kept simple: /name or /name/ for
// one place, *.ext or name for any.
func ignore() (func(name string) bool, error) {
	b, err := os.ReadFile(onDisk(".gitignore"))
	if err != nil {
		return nil, err
	}
	var patterns []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(strings.TrimSpace(line), "/"); line != "" && line[0] != '#' {
			if _, err := path.Match(line, ""); err != nil {
				return nil, fmt.Errorf(".gitignore: %s: %w", line, err)
			}
			patterns = append(patterns, line)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			subject := path.Base(name)
			if p[0] == '/' {
				subject = "/" + name
			}
			ok, _ := path.Match(p, subject)
			return ok
		})
	}, nil
}

// moduleOf returns the folder of the module that name is in.
func moduleOf(mods []string, name string) string {
	module := "."
	for _, dir := range mods {
		if strings.HasPrefix(name, dir+"/") && len(dir) >= len(module) {
			module = dir
		}
	}
	return module
}

// checkout returns the repository.
func checkout(t *testing.T) *repository {
	t.Helper()
	r, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// goFiles returns every Go file of the repository.
func goFiles(t *testing.T) []goFile { t.Helper(); return checkout(t).goFiles }

// named returns the files of the repository whose names end in ext.
func named(t *testing.T, ext string) (names []string) {
	t.Helper()
	for _, name := range checkout(t).files {
		if strings.HasSuffix(name, ext) {
			names = append(names, name)
		}
	}
	return names
}

// has reports whether the repository has a file or folder of that name.
func (r *repository) has(name string) bool {
	if _, ok := r.text[name]; ok || name == "." {
		return true
	}
	return slices.ContainsFunc(r.files, func(file string) bool { return strings.HasPrefix(file, name+"/") })
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, ok := checkout(t).text[name]
	if !ok {
		t.Fatalf("the rules need %s: %v", name, fs.ErrNotExist)
	}
	return b
}

// An empty file outside of tests' data was left by a test or by an accident.
func TestRepoFilesHaveContents(t *testing.T) {
	r := checkout(t)
	for _, name := range r.files {
		if len(r.text[name]) == 0 && !strings.Contains(name, "/testdata/") {
			t.Errorf("%s is empty", name)
		}
	}
}
