// Command newuser tests this checkout from the point of view of a new user. Outside the
// repository, it adds each released module to an empty one, builds it and compiles its
// tests. It runs the README's program and the tests of the modules that need no engine.
//
//	go run ./tools/newuser             every module
//	go run ./tools/newuser gateway     one module, by its folder; . is the core
//
// The modules come from a module proxy built from the checkout. Its zip files follow the
// same rules as those of a release, so a file that would be missing from a release is
// also missing here. Their go.mod files require the modules that they import from each
// other, as in a release. The go.mod files in the checkout do not, because go.work
// provides those modules.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/tools/released"
)

const version = "v0.0.0-test"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "newuser:", err)
		os.Exit(1)
	}
}

func run(only []string) error {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return fmt.Errorf("run this in the checkout's root: %w", err)
	}
	tmp, err := os.MkdirTemp("", "weir-newuser-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	proxy := filepath.Join(tmp, "proxy")
	if err := makeProxy(proxy); err != nil {
		return err
	}
	env, err := released.Environment(proxy, filepath.Join(tmp, "modcache"))
	if err != nil {
		return err
	}
	defer released.User{Dir: tmp, Env: env}.Run("clean", "-modcache") // its files are read-only
	for i, m := range released.Modules {
		if len(only) > 0 && !slices.Contains(only, m.Dir) {
			continue
		}
		u := released.User{Dir: filepath.Join(tmp, fmt.Sprint("user", i)), Env: env}
		counted, err := u.Try(m, version)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path(), err)
		}
		fmt.Printf("%s: %s\n", m.Path(), counted)
		if m.Dir != "." {
			continue
		}
		if err := runReadme(u, readme); err != nil {
			return err
		}
	}
	return nil
}

// runReadme runs the README's program.
func runReadme(u released.User, text []byte) error {
	program, want, err := readmeProgram(text)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(u.Dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	if _, err := u.Run("build", "-o", "hello", "."); err != nil {
		return err
	}
	got, err := u.Output("./hello")
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the README's program printed\n%s\nwant\n%s", got, want)
	}
	fmt.Println("the README's program prints the output shown in the README")
	return nil
}

// readmeProgram returns the README's first program and the output given in its
// "// Output:" comment, which can have one line or several, as in an Example.
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
