// Command newuser does what new users do with this checkout: outside the repository,
// it adds each released module to an empty one, builds it and compiles its tests. It
// runs the README's program and the tests of the modules that need no engine.
//
//	go run ./tools/newuser             every module
//	go run ./tools/newuser gateway     one, by its folder; . is the core
//
// The modules come from a module proxy made of the checkout, as zip files built by the
// rules of the real ones, so a file that would be missing from a release is missing here.
// What they import from each other is written into their go.mod as it will be for a
// release: the checkout's go.mod files leave it to go.work.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	core    = "github.com/weir-go/weir"
	version = "v0.0.0-test"
)

// A release is a module as users get it.
type release struct {
	dir   string   // in the checkout
	most  int      // modules that its user's go.mod may list
	never []string // modules that must not be in its user's graph
	test  bool     // its tests run without an engine and without the checkout
}

// heavy is what a client of an existing NATS must not get.
var heavy = []string{"github.com/nats-io/nats-server/v2", "github.com/anishathalye/porcupine"}

var releases = []release{
	{dir: ".", most: 5},
	{dir: "gateway", most: 6, test: true},
	{dir: "console", most: 6, test: true},
	{dir: "jobs", most: 12, never: heavy, test: true},
	{dir: "jobs/embedded", most: 20},
	{dir: "adapter/weirredis", most: 7},
	{dir: "adapter/weirprom", most: 17},
	{dir: "adapter/weirotel", most: 18},
	{dir: "app", most: 65},
}

// path is the module's path.
func (r release) path() string { return strings.TrimSuffix(core+"/"+r.dir, "/.") }

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
	env, err := environment(proxy, filepath.Join(tmp, "modcache"))
	if err != nil {
		return err
	}
	defer user{dir: tmp, env: env}.run("clean", "-modcache") // its files are read-only
	for i, r := range releases {
		if len(only) > 0 && !slices.Contains(only, r.dir) {
			continue
		}
		u := user{dir: filepath.Join(tmp, fmt.Sprint("user", i)), env: env}
		if err := u.try(r); err != nil {
			return fmt.Errorf("%s: %w", r.path(), err)
		}
		if r.dir != "." {
			continue
		}
		if err := u.readme(readme); err != nil {
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
