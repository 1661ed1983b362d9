package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A call of reflect.Value.MethodByName with a name that is not constant, or of
// reflect.Type.Method, makes the linker keep every exported method of every type: the
// program grew from 36 MB to 53 MB (decision 0006). text/template has such a call, and so
// had kong.
func TestNothingKeepsEveryMethodInTheProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "weir")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-ldflags=-dumpdep", "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	edges := 0
	for line := range strings.Lines(string(out)) {
		from, to, ok := strings.Cut(line, " -> ")
		if !ok {
			continue
		}
		edges++
		if strings.Contains(to, "<ReflectMethod>") {
			t.Errorf("%s reaches %s", from, strings.TrimSpace(to))
		}
	}
	if edges < 10_000 {
		t.Errorf("%d edges between symbols; is this test looking?", edges)
	}
}
