package weir_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules of the repository, as tests. Those about documents are in
// repo_docs_test.go. If the core is tested from a module cache there is no
// repository: then the rules apply to the files that exist, and the others are
// skipped.

const modulePath = "github.com/weir-go/weir"

// coreRequires are all the modules that a user of the core gets with it.
var coreRequires = []string{"github.com/maypok86/otter/v2", "golang.org/x/time"}

// coreImports are the packages that the core may import, besides the standard
// library and itself.
var coreImports = []string{"github.com/maypok86/otter/v2", "golang.org/x/time/rate"}

func TestRepoCoreImports(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.module != "." {
			continue
		}
		for _, spec := range f.ast.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(p, "/")
			own := p == modulePath || strings.HasPrefix(p, modulePath+"/")
			if strings.Contains(first, ".") && !own && !slices.Contains(coreImports, p) {
				t.Errorf("%s imports %s; want the standard library, %v or the core itself", f.path, p, coreImports)
			}
		}
	}
}

func TestRepoCoreRequires(t *testing.T) {
	m := readGoMod(t, "go.mod")
	if !slices.Equal(m.direct, coreRequires) {
		t.Errorf("go.mod requires %v; want %v", m.direct, coreRequires)
	}
	if len(m.indirect) > 0 {
		t.Errorf("go.mod requires indirectly %v; want nothing", m.indirect)
	}
	if !strings.HasPrefix(m.goLine, "1.25") {
		t.Errorf("go.mod says go %s; want 1.25, one release behind", m.goLine)
	}
}

func TestRepoNoReplace(t *testing.T) {
	for _, dir := range modules(t) {
		if readGoMod(t, path.Join(dir, "go.mod")).replaces {
			t.Errorf("%s/go.mod has a replace; `go install` refuses it", dir)
		}
	}
}

// releasedModules are tagged separately from the core. Packages that one of them
// imports from another must be exported API, because their versions may differ.
var releasedModules = []string{"console", "gateway", "jobs", "jobs/embedded", "jobs/outbox", "adapter/weirredis", "adapter/weirprom", "adapter/weirotel", "adapter/weirgrpc", "app"}

// Tests may import internal/histories: they are not part of what a module's users
// build, and one setting must hold for the histories of every module.
func TestRepoModulesImportWhatIsExported(t *testing.T) {
	const forTests = "internal/histories"
	mods := modules(t)
	for _, f := range goFiles(t) {
		if !slices.Contains(releasedModules, f.module) {
			continue
		}
		for _, spec := range f.ast.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			dir, ours := strings.CutPrefix(p, modulePath+"/")
			if dir == forTests && f.isTest() {
				continue
			}
			if ours && strings.Contains("/"+dir+"/", "/internal/") && moduleOf(mods, dir+"/") != f.module {
				t.Errorf("%s imports %s, which another module keeps to itself", f.path, p)
			}
		}
	}
}

func TestRepoWorkspaceListsEveryModule(t *testing.T) {
	needCheckout(t)
	var used []string
	for line := range strings.Lines(string(readFile(t, "go.work"))) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "use "))
		if strings.HasPrefix(line, ".") {
			used = append(used, path.Clean(line))
		}
	}
	slices.Sort(used)
	if have := modules(t); !slices.Equal(used, have) {
		t.Errorf("go.work uses %v; want every module, %v", used, have)
	}
}

func TestRepoPackageComments(t *testing.T) {
	commented := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		dir := path.Dir(f.path)
		commented[dir] = commented[dir] || f.ast.Doc != nil
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// One function returns the version of the build, so that all its users report
// the same one.
func TestRepoOneVersion(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || strings.HasPrefix(f.path, "console/build/") {
			continue
		}
		if bytes.Contains(readFile(t, f.path), []byte("debug.ReadBuildInfo")) {
			t.Errorf("%s reads the build's information; want build.Version", f.path)
		}
	}
}

func TestRepoFilesAreShort(t *testing.T) {
	const most = 800
	for _, f := range goFiles(t) {
		if n := bytes.Count(readFile(t, f.path), []byte("\n")); n > most && !f.isTest() {
			t.Errorf("%s has %d lines; want at most %d, so split it", f.path, n, most)
		}
	}
}

// A test that sleeps must do so in a bubble, where sleeping costs nothing and is
// exact. This checks whole packages: one whose tests import testing/synctest may
// sleep, often in a helper that its bubbles share. The lab, the benchmarks, and the
// adapters with their real engines work in real time.
func TestRepoNoRealSleep(t *testing.T) {
	var tests []goFile
	bubbles := map[string]bool{} // by folder
	for _, f := range goFiles(t) {
		if f.isTest() && f.module != "lab" && f.module != "bench" && !strings.HasPrefix(f.module, "adapter/") {
			tests = append(tests, f)
			bubbles[path.Dir(f.path)] = bubbles[path.Dir(f.path)] || f.imports("testing/synctest")
		}
	}
	for _, f := range tests {
		if bubbles[path.Dir(f.path)] {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && sel.Sel.Name == "Sleep" {
				t.Errorf("%s sleeps outside a bubble", f.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// unboundedModules are checked for reads without a bound: everything that is
// shipped.
var unboundedModules = []string{".", "app", "console", "gateway", "jobs", "jobs/embedded", "jobs/outbox", "adapter/weirredis", "adapter/weirprom", "adapter/weirotel", "adapter/weirgrpc"}

// Everything read from outside has a bound: whole files and streams are read
// with jobs/bounded, decoders and line readers read from a limited reader.
func TestRepoReadsAreBounded(t *testing.T) {
	whole := map[string]bool{
		"os.ReadFile": true, "io.ReadAll": true, "ioutil.ReadAll": true, "ioutil.ReadFile": true, "fs.ReadFile": true,
		"tls.LoadX509KeyPair": true, "nats.UserCredentials": true, "nats.RootCAs": true, "nats.ClientCert": true, "fmt.Scan": true,
		"fmt.Scanln": true, "fmt.Fscan": true, "httputil.DumpResponse": true, "httputil.DumpRequest": true,
	}
	streams := map[string]bool{"json.NewDecoder": true, "xml.NewDecoder": true, "gob.NewDecoder": true, "yaml.NewDecoder": true, "csv.NewReader": true}
	ends := map[string]bool{"http.MaxBytesReader": true, "io.LimitReader": true, "bytes.NewReader": true, "strings.NewReader": true}
	for _, f := range goFiles(t) {
		testing := strings.Contains(f.path, "test/") || strings.HasPrefix(f.path, "jobs/internal/")
		if !slices.Contains(unboundedModules, f.module) || f.isTest() || testing || strings.HasPrefix(f.path, "jobs/bounded/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := called(call)
			method := name[strings.LastIndex(name, ".")+1:]
			switch {
			case whole[name]:
				t.Errorf("%s: %s has no bound; read by jobs/bounded", f.path, name)
			case streams[name] && (len(call.Args) == 0 || !ends[calledBy(call.Args[0])]):
				t.Errorf("%s: %s reads without a bound; give it an http.MaxBytesReader or io.LimitReader", f.path, name)
			case method == "ReadString" || method == "ReadBytes":
				sel := call.Fun.(*ast.SelectorExpr)
				reader, ok := sel.X.(*ast.CallExpr)
				if !ok || len(reader.Args) == 0 || !ends[calledBy(reader.Args[0])] {
					t.Errorf("%s: %s reads a line without a bound", f.path, name)
				}
			case method == "ReadFrom" && len(call.Args) == 1 && !ends[calledBy(call.Args[0])] && !strings.HasPrefix(name, "rf."):
				// A stream that is only passed on (io.ReaderFrom of a ResponseWriter) is
				// called rf.
				t.Errorf("%s: %s reads without a bound", f.path, name)
			}
			return true
		})
	}
}

// called returns the name of the called function, such as io.ReadAll, or of a method
// with its variable.
func called(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name + "." + sel.Sel.Name
	case *ast.SelectorExpr:
		return x.Sel.Name + "." + sel.Sel.Name
	}
	return "." + sel.Sel.Name
}

// calledBy is called for an expression that may not be a call.
func calledBy(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok {
		return called(call)
	}
	return ""
}

// No code or document contains a path of somebody's machine.
func TestRepoNoMachinePaths(t *testing.T) {
	machine := regexp.MustCompile("(?m)(?:^|[\\s\"'`(=:])(/(?:work|root|home|Users)/[\\w.-]+)")
	walk(t, func(name string) {
		b := readFile(t, name)
		if bytes.IndexByte(b, 0) >= 0 {
			return // not text
		}
		for _, m := range machine.FindAllSubmatch(b, -1) {
			t.Errorf("%s names %s, a path on one machine", name, m[1])
		}
	})
}

func TestRepoMakefileIsThin(t *testing.T) {
	needCheckout(t)
	var targets []string
	for line := range strings.Lines(string(readFile(t, "Makefile"))) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t#.=") || strings.HasPrefix(rest, "=") {
			continue
		}
		targets = append(targets, name)
		if !strings.Contains(rest, "## ") {
			t.Errorf("target %s has no ## comment for make help", name)
		}
	}
	if len(targets) > 12 {
		t.Errorf("%d targets; want at most 12: %v", len(targets), targets)
	}
	for _, want := range []string{"demo", "test", "core", "race", "fuzz", "bench", "help"} {
		if !slices.Contains(targets, want) {
			t.Errorf("no target %s among %v", want, targets)
		}
	}
	if !bytes.Contains(readFile(t, ".ci/run"), []byte("make test")) {
		t.Error(".ci/run does not run `make test`")
	}
}

// A goFile is a parsed Go file of the repository.
type goFile struct {
	path   string // from the root, with slashes
	module string // the folder of its module's go.mod, "." for the core
	fset   *token.FileSet
	ast    *ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f goFile) imports(p string) bool {
	return slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(p) })
}

// goFiles parses every Go file of the repository.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	mods := modules(t)
	var files []goFile
	walk(t, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		f := goFile{path: name, module: moduleOf(mods, name), fset: token.NewFileSet()}
		var err error
		if f.ast, err = parser.ParseFile(f.fset, name, readFile(t, name), parser.ParseComments); err != nil {
			t.Error(err)
			return
		}
		files = append(files, f)
	})
	return files
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

// modules returns the folders with a go.mod, sorted.
func modules(t *testing.T) []string {
	t.Helper()
	var dirs []string
	walk(t, func(name string) {
		if path.Base(name) == "go.mod" {
			dirs = append(dirs, path.Dir(name))
		}
	})
	slices.Sort(dirs)
	return dirs
}

// A goMod is the part of a go.mod file that the rules check.
type goMod struct {
	goLine           string
	direct, indirect []string // paths, in the file's order
	replaces         bool
}

func readGoMod(t *testing.T, name string) goMod {
	t.Helper()
	var m goMod
	block := ""
	for line := range strings.Lines(string(readFile(t, name))) {
		line, comment, _ := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		verb := block
		switch {
		case words[0] == ")":
			block = ""
			continue
		case block == "" && len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block == "":
			verb, words = words[0], words[1:]
		}
		switch verb {
		case "go":
			m.goLine = words[0]
		case "replace":
			m.replaces = true
		case "require":
			if strings.TrimSpace(comment) == "indirect" {
				m.indirect = append(m.indirect, words[0])
			} else {
				m.direct = append(m.direct, words[0])
			}
		}
	}
	return m
}

// needCheckout skips a test that makes sense only in a checkout.
func needCheckout(t *testing.T) {
	t.Helper()
	if !inCheckout() {
		t.Skip("not in a checkout: no go.work")
	}
}

func inCheckout() bool {
	_, err := os.Stat("go.work")
	return !errors.Is(err, fs.ErrNotExist)
}

// walk calls visit with the name of every file that belongs to the repository.
// It reads folders itself instead of asking git, so the test cache notices new
// files, and a checkout owned by another user works.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	ignored := ignore(t)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.Name() == ".git" || ignored(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ignore reads .gitignore, whose patterns are kept simple: /name or /name/ for
// one place, *.ext or name for any.
func ignore(t *testing.T) func(name string) bool {
	t.Helper()
	var patterns []string
	if b, err := os.ReadFile(".gitignore"); err == nil {
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSuffix(strings.TrimSpace(line), "/"); line != "" && line[0] != '#' {
				patterns = append(patterns, line)
			}
		}
	}
	return func(name string) bool {
		for _, p := range patterns {
			subject := path.Base(name)
			if p[0] == '/' {
				subject = "/" + name
			}
			if ok, err := path.Match(p, subject); err != nil {
				t.Fatalf(".gitignore: %s: %v", p, err)
			} else if ok {
				return true
			}
		}
		return false
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(fmt.Errorf("the rules need it: %w", err))
	}
	return b
}
