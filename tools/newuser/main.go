// Command newuser does what a new user does with this checkout: it adds the
// core to an empty module outside the repository, then builds and runs the
// README's program and compares its output.
//
//	go run ./tools/newuser
//
// The core comes from a module proxy made of the checkout, as a zip file built
// by the rules of the real ones, so a file that would be missing from a
// release is missing here.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	core       = "github.com/weir-go/weir"
	version    = "v0.0.0-test"
	maxModules = 5 // that a user's go.mod may list
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "newuser:", err)
		os.Exit(1)
	}
}

func run() error {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return fmt.Errorf("run this in the checkout's root: %w", err)
	}
	program, want, err := readmeProgram(readme)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "weir-newuser-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	proxy := filepath.Join(tmp, "proxy")
	if err := makeProxy(proxy, "."); err != nil {
		return err
	}
	u := user{dir: filepath.Join(tmp, "hello"), cache: filepath.Join(tmp, "modcache"), proxy: proxy}
	defer u.run("clean", "-modcache") // its files are read-only
	return u.try(program, want)
}

// makeProxy writes a module proxy (go.dev/ref/mod#goproxy-protocol) that
// serves one version of the core.
func makeProxy(dir, checkout string) error {
	at := filepath.Join(dir, filepath.FromSlash(core), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	gomod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return err
	}
	var z bytes.Buffer
	if err := modzip.CreateFromDir(&z, module.Version{Path: core, Version: version}, checkout); err != nil {
		return fmt.Errorf("zip the core: %w", err)
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	for name, b := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".mod":  gomod,
		version + ".zip":  z.Bytes(),
		version + ".info": []byte(info),
	} {
		if err := os.WriteFile(filepath.Join(at, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readmeProgram returns the README's first program and the output that its
// last comment promises, one "// Output:" line or several as in an Example.
func readmeProgram(readme []byte) (program, output string, err error) {
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllSubmatch(readme, -1) {
		program = string(m[1])
		if strings.HasPrefix(strings.TrimSpace(program), "package main") {
			break
		}
		program = ""
	}
	if program == "" {
		return "", "", errors.New("README.md has no Go block that starts with package main")
	}
	_, after, ok := strings.Cut(program, "// Output:")
	if !ok {
		return "", "", errors.New("no // Output: comment in the README's program")
	}
	var want []string
	for line := range strings.Lines(after) {
		text, comment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if len(want) > 0 && !comment {
			break
		}
		want = append(want, strings.TrimSpace(text))
	}
	return program, strings.TrimSpace(strings.Join(want, "\n")), nil
}

// A user has a folder and a module cache of their own, and no checkout.
type user struct {
	dir, cache, proxy string
}

func (u user) try(program, want string) error {
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(u.dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/hello"},
		{"get", core + "@" + version},
		{"build", "-o", "hello", "."},
	} {
		if _, err := u.run(args...); err != nil {
			return err
		}
	}
	got, err := u.output("./hello")
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the README's program printed\n%s\nand promises\n%s", got, want)
	}
	modules, err := u.modules()
	if err != nil {
		return err
	}
	if len(modules) > maxModules {
		return fmt.Errorf("the user's go.mod lists %d modules; want at most %d: %v", len(modules), maxModules, modules)
	}
	fmt.Printf("the README's program prints what it promises; the user's go.mod lists %d modules:\n", len(modules))
	for _, m := range modules {
		fmt.Println("   ", m)
	}
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
	upstream, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOPROXY: %w", err)
	}
	cmd.Env = append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-mod=mod",
		"GOMODCACHE="+u.cache,
		"GOPROXY=file://"+u.proxy+","+strings.TrimSpace(string(upstream)),
		"GONOSUMDB="+core, "GONOSUMCHECK=1",
	)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
