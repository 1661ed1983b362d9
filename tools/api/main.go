// Command api compares the exported API of the released modules with the files in api/,
// and fails if they differ. A reviewer sees in the diff of these files what a commit
// changes for users.
//
//	go run ./tools/api          compare
//	go run ./tools/api -write   write the files again
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weir-go/weir/tools/released"
)

// folder contains one file for each released module.
const folder = "api"

func main() {
	write := flag.Bool("write", false, "write the files again instead of comparing them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *write); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write bool) error {
	files, err := describe(ctx, released.Modules)
	if err != nil {
		return err
	}
	if write {
		return writeFiles(folder, files)
	}
	return compareFiles(folder, files)
}

// fileName returns the name of m's file: weir.txt for the core, jobs-outbox.txt.
func fileName(m released.Module) string {
	if m.Dir == "." {
		return "weir.txt"
	}
	return strings.ReplaceAll(m.Dir, "/", "-") + ".txt"
}

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, want := range files {
		if err := os.WriteFile(filepath.Join(dir, name), want, 0o644); err != nil {
			return err
		}
	}
	for _, name := range unknown(dir, files) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// compareFiles returns an error that lists the lines in which files and dir differ.
func compareFiles(dir string, files map[string][]byte) error {
	var changes []string
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		changes = append(changes, diff(name, have, want)...)
	}
	for _, name := range unknown(dir, files) {
		changes = append(changes, name+": belongs to no released module")
	}
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("the exported API differs from the files in %s:\n\t%s\nIf you want this change, run go run ./tools/api -write and commit the files",
		dir, strings.Join(changes, "\n\t"))
}

// unknown returns the names in dir that files does not have.
func unknown(dir string, files map[string][]byte) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // compareFiles reports each missing file
	}
	var names []string
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok {
			names = append(names, e.Name())
		}
	}
	return names
}

// diff returns the lines that only one of two sorted files has: removed lines with -,
// then added lines with +.
func diff(name string, have, want []byte) []string {
	var found []string
	only := func(sign string, a, b []byte) {
		in := map[string]bool{}
		for line := range bytes.Lines(b) {
			in[string(line)] = true
		}
		for line := range bytes.Lines(a) {
			if !in[string(line)] {
				found = append(found, name+": "+sign+strings.TrimSuffix(string(line), "\n"))
			}
		}
	}
	only("-", have, want)
	only("+", want, have)
	return found
}
