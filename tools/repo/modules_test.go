package repo_test

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/weir-go/weir/tools/released"
)

// coreRequires are all the modules that a user of the core gets with it.
var coreRequires = []string{"github.com/maypok86/otter/v2", "golang.org/x/time"}

// coreImports are the packages that the core may import, besides the standard
// library and itself.
var coreImports = []string{"github.com/maypok86/otter/v2", "golang.org/x/time/rate"}

func TestRepoCoreImports(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.module != "." {
			continue
		}
		for _, spec := range f.ast.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(p, "/")
			own := p == released.Core || strings.HasPrefix(p, released.Core+"/")
			if strings.Contains(first, ".") && !own && !slices.Contains(coreImports, p) {
				t.Errorf("%s imports %s; want the standard library, %v or the core itself", f.path, p, coreImports)
			}
		}
	}
}

func TestRepoCoreRequires(t *testing.T) {
	t.Parallel()
	m := goMod(t, ".")
	var direct, indirect []string
	for _, r := range m.Require {
		if r.Indirect {
			indirect = append(indirect, r.Mod.Path)
		} else {
			direct = append(direct, r.Mod.Path)
		}
	}
	if !slices.Equal(direct, coreRequires) {
		t.Errorf("go.mod requires %v; want %v", direct, coreRequires)
	}
	if len(indirect) > 0 {
		t.Errorf("go.mod requires indirectly %v; want nothing", indirect)
	}
	if !strings.HasPrefix(m.Go.Version, "1.25") {
		t.Errorf("go.mod says go %s; want 1.25, one release behind", m.Go.Version)
	}
}

func TestRepoNoReplace(t *testing.T) {
	t.Parallel()
	for _, dir := range checkout(t).modules {
		if len(goMod(t, dir).Replace) > 0 {
			t.Errorf("%s/go.mod has a replace; `go install` refuses it", dir)
		}
	}
}

// goMod returns the go.mod of the module in dir.
func goMod(t *testing.T, dir string) *modfile.File {
	t.Helper()
	name := path.Join(dir, "go.mod")
	m, err := modfile.Parse(name, readFile(t, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// releasedDirs returns the folders of the modules that are tagged, but for except.
func releasedDirs(except ...string) (dirs []string) {
	for _, m := range released.Modules {
		if !slices.Contains(except, m.Dir) {
			dirs = append(dirs, m.Dir)
		}
	}
	return dirs
}

// Packages that a released module imports from another must be exported API, because
// their versions may differ. Tests may import internal/histories: they are not part of
// what a module's users build, and one setting must hold for the histories of every
// module.
func TestRepoModulesImportWhatIsExported(t *testing.T) {
	const forTests = "internal/histories"
	t.Parallel()
	mods, tagged := checkout(t).modules, releasedDirs()
	for _, f := range goFiles(t) {
		if !slices.Contains(tagged, f.module) {
			continue
		}
		for _, spec := range f.ast.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			dir, ours := strings.CutPrefix(p, released.Core+"/")
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
	t.Parallel()
	work, err := modfile.ParseWork("go.work", readFile(t, "go.work"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, u := range work.Use {
		used = append(used, path.Clean(u.Path))
	}
	slices.Sort(used)
	if have := checkout(t).modules; !slices.Equal(used, have) {
		t.Errorf("go.work uses %v; want every module, %v", used, have)
	}
}
