package released

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// A User is a user of released modules, with a folder but without a checkout.
type User struct {
	Dir string
	Env []string
}

// Environment returns the environment of the users of a proxy. They share the module
// cache cache. Other modules that are in the machine's cache are not fetched again.
// Builds do not depend on the location of the cache, so that a second run does not have
// to compile everything again.
func Environment(proxy, cache string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOPROXY", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	upstream, have, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-mod=mod -trimpath",
		"GOMODCACHE="+cache,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(have, "cache", "download")+","+upstream,
		"GONOSUMDB="+Core+","+Core+"/*", "GONOSUMCHECK=1",
	), nil
}

// Get adds a version of m to an empty module.
func (u User) Get(m Module, version string) error {
	if err := os.MkdirAll(u.Dir, 0o755); err != nil {
		return err
	}
	if _, err := u.Run("mod", "init", "example.com/hello"); err != nil {
		return err
	}
	_, err := u.Run("get", m.Path()+"@"+version)
	return err
}

// Try adds a version of m to an empty module, builds it, and compiles its tests or runs
// them (see Module.Test). It returns a line about the number of modules that the user
// gets.
func (u User) Try(m Module, version string) (string, error) {
	if err := u.Get(m, version); err != nil {
		return "", err
	}
	// Nested modules have packages below m's path, so no pattern matches only those of m.
	packages, err := u.packages(m)
	if err != nil {
		return "", err
	}
	if _, err := u.Run(append([]string{"get"}, packages...)...); err != nil {
		return "", err
	}
	if _, err := u.Run(append([]string{"build"}, packages...)...); err != nil {
		return "", err
	}
	counted, err := u.count(m)
	if err != nil {
		return "", err
	}
	if _, err := u.Run(append([]string{"get", "-t"}, packages...)...); err != nil {
		return "", err
	}
	check := "vet"
	if m.Test {
		check = "test"
	}
	_, err = u.Run(append([]string{check}, packages...)...)
	return counted, err
}

// packages returns the packages of m.
func (u User) packages(m Module) ([]string, error) {
	dir, err := u.Run("list", "-m", "-f", "{{.Dir}}", m.Path())
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var found []string
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "testdata" {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		at, err := filepath.Rel(dir, filepath.Dir(path))
		if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") && !seen[at] {
			seen[at] = true
			found = append(found, strings.TrimSuffix(m.Path()+"/"+filepath.ToSlash(at), "/."))
		}
		return err
	})
	return found, err
}

// count checks the user's go.mod and module graph against the bounds of m, and returns a
// line about both.
func (u User) count(m Module) (string, error) {
	modules, err := u.modules()
	if err != nil {
		return "", err
	}
	if len(modules) > m.Most {
		return "", fmt.Errorf("the user's go.mod lists %d modules; want at most %d: %v", len(modules), m.Most, modules)
	}
	graph, err := u.Run("list", "-m", "-f", "{{.Path}}", "all")
	if err != nil {
		return "", err
	}
	for _, path := range strings.Fields(graph) {
		for _, never := range m.Never {
			if path == never {
				return "", fmt.Errorf("the user's module graph has %s; want none", path)
			}
		}
	}
	return fmt.Sprintf("its user's go.mod lists %d modules, their graph %d", len(modules), len(strings.Fields(graph))-1), nil
}

// modules returns the modules that the user's go.mod requires.
func (u User) modules() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(u.Dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	f, err := modfile.Parse("go.mod", b, nil)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range f.Require {
		found = append(found, r.Mod.String())
	}
	return found, nil
}

// Run runs the go command.
func (u User) Run(args ...string) (string, error) { return u.Output("go", args...) }

// Output runs a program and returns its output.
func (u User) Output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = u.Dir
	cmd.Env = u.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
