package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
)

// A command runs a program in the checkout's root. Its step's meter gets what it prints
// and uses.
type command struct {
	env    []string  // added to our own environment
	dir    string    // where it runs; empty: the checkout's root
	prefix []string  // a program and its arguments that run the command
	quiet  bool      // return its output instead of keeping it
	lavish bool      // it only compiles: memory is cheaper than its garbage collector
	stdout io.Writer // gets its output; nil: the meter
}

// run runs a program and waits for it. It returns its output if c.quiet.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	m := meterOf(ctx)
	if name == "go" && slices.Contains([]string{"build", "test", "vet", "run"}, args[0]) {
		if f, err := os.CreateTemp("", "weir-actions-"); err == nil {
			defer os.Remove(f.Name())
			f.Close()
			args = slices.Insert(slices.Clone(args), 1, "-debug-actiongraph="+f.Name())
			defer func() { m.compiled(f.Name()) }()
		}
	}
	if len(c.prefix) > 0 {
		args = slices.Concat(c.prefix[1:], []string{name}, args)
		name = c.prefix[0]
	}
	if nice, err := exec.LookPath("nice"); err == nil && givesWay(ctx) {
		args = slices.Concat([]string{"-n", "19", name}, args)
		name = nice
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	if c.lavish && os.Getenv("GOGC") == "" {
		cmd.Env = append(cmd.Env, "GOGC=200")
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = m
	defer func() { m.used(cmd.ProcessState) }()
	if c.quiet {
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	cmd.Stdout = m
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	return "", cmd.Run()
}

type priorityKey struct{}

// withPriority says whether the commands of a step come first, or give way to those of
// other steps.
func withPriority(ctx context.Context, first bool) context.Context {
	return context.WithValue(ctx, priorityKey{}, first)
}

// givesWay reports whether the commands of a step give way to others.
func givesWay(ctx context.Context) bool {
	first, ok := ctx.Value(priorityKey{}).(bool)
	return ok && !first
}

// alone runs commands of the core without the workspace, which hides a missing require.
var alone = command{env: []string{"GOWORK=off"}}

// patterns returns a pattern for the packages of each module in go.work:
// ./..., ./app/... and so on.
func patterns() ([]string, error) {
	b, err := os.ReadFile("go.work")
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", b, nil)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, use := range work.Use {
		found = append(found, "./"+path.Join(use.Path, "..."))
	}
	return found, nil
}
