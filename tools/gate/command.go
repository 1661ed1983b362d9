package main

import (
	"context"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
)

// A command runs a program in the checkout's root.
type command struct {
	env   []string // added to our own environment
	dir   string   // where it runs; empty: the checkout's root
	quiet bool     // return its output instead of showing it
}

// run runs a program and waits for it. It returns its output if c.quiet.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = os.Stderr
	if c.quiet {
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	cmd.Stdout = os.Stdout
	return "", cmd.Run()
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
