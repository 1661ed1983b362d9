package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// one runs go test with the given arguments, of which the first is a package, and starts
// the engines that its tests need. It shows the output as it comes.
func (w workshop) one(ctx context.Context, args []string) error {
	need, err := enginesOf(ctx, args[0])
	if err != nil {
		return err
	}
	name, words := "go", append([]string{"test", "-count=1"}, args...)
	if len(need) > 0 {
		fmt.Printf("engines: %s\n", strings.Join(need, ", "))
		if _, err := (command{stdout: os.Stdout}).run(ctx, "go", "build", "-o", w.with(), "./lab/cmd/with"); err != nil {
			return err
		}
		optional := slices.DeleteFunc(slices.Clone(need), func(n string) bool { return !slices.Contains(optionalEngines, n) })
		required := slices.DeleteFunc(need, func(n string) bool { return slices.Contains(optionalEngines, n) })
		prefix := w.withEngines(required, optional)
		name, words = prefix[0], slices.Concat(prefix[1:], []string{name}, words)
	}
	cmd := exec.CommandContext(ctx, name, words...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// enginesOf returns the engines whose names occur in the code that the tests of a package
// consist of. A test that needs one whose name is nowhere fails, because it is missing.
func enginesOf(ctx context.Context, pkg string) ([]string, error) {
	out, err := command{quiet: true}.run(ctx, "go", "list", "-deps", "-test", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles", pkg)
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w\n%s", pkg, err, meterOf(ctx).output())
	}
	var need []string
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath                    string
			GoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return need, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", pkg, err)
		}
		if !strings.HasPrefix(p.ImportPath, modulePath) || strings.HasPrefix(p.ImportPath, modulePath+"/lab/engine") {
			continue
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			b, err := os.ReadFile(filepath.Join(p.Dir, f))
			if errors.Is(err, os.ErrNotExist) {
				continue // the main file of a test, which the go command makes
			} else if err != nil {
				return nil, err
			}
			for _, name := range slices.Concat(engines, optionalEngines) {
				if !slices.Contains(need, name) && mentions(b, name) {
					need = append(need, name)
				}
			}
		}
	}
}

// mentions reports whether code has the name of an engine as a string, or in the name of
// its variable.
func mentions(code []byte, engine string) bool {
	return regexp.MustCompile(`"` + engine + `"|WEIR_TEST_` + strings.ToUpper(engine) + `\b`).Match(code)
}
