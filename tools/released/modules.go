// Package released lists the modules of the repository that are released, and uses them
// as new users would.
package released

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	modzip "golang.org/x/mod/zip"
)

// Core is the path of the core module, and the prefix of all other module paths.
const Core = "github.com/weir-go/weir"

// A Module is a module that is released separately.
type Module struct {
	Dir   string   // in the checkout
	Most  int      // maximum number of modules in the go.mod of a user
	Never []string // modules that must not be in the module graph of a user
	Test  bool     // its tests run without an engine and without the checkout
}

// heavy lists modules that a client of an existing NATS server must not depend on.
var heavy = []string{"github.com/nats-io/nats-server/v2", "github.com/anishathalye/porcupine"}

// Modules lists all released modules, the core first.
var Modules = []Module{
	{Dir: ".", Most: 5},
	{Dir: "gateway", Most: 6, Test: true},
	{Dir: "console", Most: 6, Test: true},
	{Dir: "jobs", Most: 12, Never: heavy, Test: true},
	{Dir: "jobs/embedded", Most: 20},
	{Dir: "jobs/outbox", Most: 20, Never: heavy},
	{Dir: "adapter/weirredis", Most: 7},
	{Dir: "adapter/weirprom", Most: 17},
	{Dir: "adapter/weirotel", Most: 18},
	{Dir: "adapter/weirgrpc", Most: 12},
	{Dir: "app", Most: 65},
}

// Path returns the module's path.
func (m Module) Path() string { return strings.TrimSuffix(Core+"/"+m.Dir, "/.") }

// Tag returns the name of the tag for a version of m: v1.2.3, or jobs/v1.2.3.
func (m Module) Tag(version string) string { return strings.TrimPrefix(m.Dir+"/"+version, "./") }

// Files returns m's files in a checkout, with their paths from root.
func (m Module) Files(root string) ([]string, error) {
	checked, err := modzip.CheckDir(filepath.Join(root, m.Dir))
	if err == nil {
		err = checked.Err()
	}
	return checked.Valid, err
}

// Imports returns the paths of the other released modules that files import, sorted.
func (m Module) Imports(files []string) ([]string, error) {
	var found []string
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
			if of := moduleOf(path); of != "" && of != m.Path() && !slices.Contains(found, of) {
				found = append(found, of)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// GoMod returns m's go.mod with the given modules required at version.
func (m Module) GoMod(root string, required []string, version string) ([]byte, error) {
	name := filepath.Join(root, m.Dir, "go.mod")
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse(name, b, nil)
	if err != nil {
		return nil, err
	}
	for _, path := range required {
		if err := mod.AddRequire(path, version); err != nil {
			return nil, err
		}
	}
	mod.Cleanup()
	return mod.Format()
}

// Ordered returns the modules sorted so that each comes after those that it imports.
func Ordered(root string) ([]Module, error) {
	waits := map[string][]string{}
	for _, m := range Modules {
		files, err := m.Files(root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path(), err)
		}
		if waits[m.Path()], err = m.Imports(files); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path(), err)
		}
	}
	return order(Modules, waits)
}

// order sorts modules so that each comes after those that it waits for.
func order(modules []Module, waits map[string][]string) ([]Module, error) {
	var sorted []Module
	done := map[string]bool{}
	for len(sorted) < len(modules) {
		before := len(sorted)
		for _, m := range modules {
			ready := !slices.ContainsFunc(waits[m.Path()], func(path string) bool { return !done[path] })
			if ready && !done[m.Path()] {
				sorted, done[m.Path()] = append(sorted, m), true
			}
		}
		if len(sorted) == before {
			return nil, fmt.Errorf("import cycle between modules: %v", waits)
		}
	}
	return sorted, nil
}

// moduleOf returns the path of the released module that contains pkg, or "" if there is
// none.
func moduleOf(pkg string) string {
	best := ""
	for _, m := range Modules {
		if p := m.Path(); (pkg == p || strings.HasPrefix(pkg, p+"/")) && len(p) > len(best) {
			best = p
		}
	}
	return best
}
