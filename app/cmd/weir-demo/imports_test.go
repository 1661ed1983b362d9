package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const weirPath = "github.com/weir-go/weir"

// allowed are the modules that weir-demo may import, besides the standard library and weir:
// each one is a download and a build for somebody who runs `make demo` first.
var allowed = []string{
	"github.com/maypok86/otter/v2", // memory
	"github.com/spf13/cobra",       // the command line
	"github.com/spf13/pflag",
	"golang.org/x/sync",
	"golang.org/x/sys", // of x/term
	"golang.org/x/term",
	"golang.org/x/time",
}

// refused are the packages of weir that weir-demo may not import, with all below them.
var refused = []string{"adapter", "jobs"}

func TestImports(t *testing.T) {
	const format = `{{if not .Standard}}{{.ImportPath}} {{.Module.Path}}{{end}}`
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if below(pkg, weirPath) {
			for _, no := range refused {
				if below(pkg, weirPath+"/"+no) {
					t.Errorf("weir-demo imports %s", pkg)
				}
			}
			continue
		}
		seen[module] = true
		if !slices.Contains(allowed, module) {
			t.Errorf("weir-demo imports %s of module %s; want the standard library, weir and %v", pkg, module, allowed)
		}
	}
	for _, module := range allowed {
		if !seen[module] {
			t.Errorf("weir-demo does not import %s; take it off the list", module)
		}
	}
}

// below reports whether path is base or below it.
func below(path, base string) bool {
	return path == base || strings.HasPrefix(path, base+"/")
}
