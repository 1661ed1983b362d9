package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// A user has a folder and no checkout.
type user struct {
	dir string
	env []string
}

// environment is that of all users: they share a module cache of their own. What the
// machine's cache holds of other modules is not fetched again.
func environment(proxy, cache string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOPROXY", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	upstream, have, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-mod=mod",
		"GOMODCACHE="+cache,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(have, "cache", "download")+","+upstream,
		"GONOSUMDB="+core+","+core+"/*", "GONOSUMCHECK=1",
	), nil
}

// try adds r to an empty module, builds it and compiles its tests, or runs them.
func (u user) try(r release) error {
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return err
	}
	// Packages of deeper modules are not r's, so there is no pattern that names r's alone.
	for _, args := range [][]string{{"mod", "init", "example.com/hello"}, {"get", r.path() + "@" + version}} {
		if _, err := u.run(args...); err != nil {
			return err
		}
	}
	packages, err := u.packages(r)
	if err != nil {
		return err
	}
	if _, err := u.run(append([]string{"get"}, packages...)...); err != nil {
		return err
	}
	if _, err := u.run(append([]string{"build"}, packages...)...); err != nil {
		return err
	}
	if err := u.count(r); err != nil {
		return err
	}
	if _, err := u.run(append([]string{"get", "-t"}, packages...)...); err != nil {
		return err
	}
	check := "vet"
	if r.test {
		check = "test"
	}
	_, err = u.run(append([]string{check}, packages...)...)
	return err
}

// packages returns those of r.
func (u user) packages(r release) ([]string, error) {
	dir, err := u.run("list", "-m", "-f", "{{.Dir}}", r.path())
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
			found = append(found, strings.TrimSuffix(r.path()+"/"+filepath.ToSlash(at), "/."))
		}
		return err
	})
	return found, err
}

// count compares what the user's go.mod and module graph list with the bounds.
func (u user) count(r release) error {
	modules, err := u.modules()
	if err != nil {
		return err
	}
	if len(modules) > r.most {
		return fmt.Errorf("the user's go.mod lists %d modules; want at most %d: %v", len(modules), r.most, modules)
	}
	graph, err := u.run("list", "-m", "-f", "{{.Path}}", "all")
	if err != nil {
		return err
	}
	for _, m := range strings.Fields(graph) {
		for _, never := range r.never {
			if m == never {
				return fmt.Errorf("the user's module graph has %s; want none", m)
			}
		}
	}
	fmt.Printf("%s: its user's go.mod lists %d modules, their graph %d\n", r.path(), len(modules), len(strings.Fields(graph))-1)
	return nil
}

// readme runs the README's program.
func (u user) readme(text []byte) error {
	program, want, err := readmeProgram(text)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(u.dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	if _, err := u.run("build", "-o", "hello", "."); err != nil {
		return err
	}
	got, err := u.output("./hello")
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the README's program printed\n%s\nand promises\n%s", got, want)
	}
	fmt.Println("the README's program prints what it promises")
	return nil
}

// modules returns what the user's go.mod requires.
func (u user) modules() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(u.dir, "go.mod"))
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

// run runs the go command.
func (u user) run(args ...string) (string, error) { return u.output("go", args...) }

func (u user) output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = u.dir
	cmd.Env = u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
