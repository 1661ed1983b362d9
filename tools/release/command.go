package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-go/weir/tools/released"
)

// waitDelay is how long a command may take to end after an interrupt.
const waitDelay = 10 * time.Second

// output runs a program in dir and returns its output. env is added to our own
// environment.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = waitDelay
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// A git runs git in a folder.
type git struct {
	dir string
	env []string
}

func (g git) run(ctx context.Context, args ...string) (string, error) {
	return output(ctx, g.dir, g.env, "git", args...)
}

// A goEnv is the environment of the go command. It uses none of the user's settings
// except those stored here.
type goEnv struct {
	proxy    string // GOPROXY
	modcache string
	cache    string
	more     []string
}

// scratch returns an environment with a separate module cache. Modules that are in the
// machine's cache are not fetched again.
func scratch(ctx context.Context, modcache, cache string) (goEnv, error) {
	out, err := output(ctx, "", nil, "go", "env", "GOPROXY", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return goEnv{}, err
	}
	have := strings.Fields(out)
	if len(have) != 3 {
		return goEnv{}, fmt.Errorf("go env: %q", out)
	}
	if cache == "" {
		cache = have[2]
	}
	return goEnv{proxy: fileProxy(have[1]) + "," + have[0], modcache: modcache, cache: cache}, nil
}

// fileProxy returns the URL with which a module cache serves as a module proxy.
func fileProxy(modcache string) string {
	return "file://" + filepath.ToSlash(filepath.Join(modcache, "cache", "download"))
}

// list returns the variables.
func (e goEnv) list() []string {
	return append([]string{
		"GOENV=off", "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOEXPERIMENT=", "GOPRIVATE=", "GONOPROXY=",
		"GOPROXY=" + e.proxy, "GOMODCACHE=" + e.modcache, "GOCACHE=" + e.cache,
		// Our versions are not in the checksum database until they are published.
		"GONOSUMDB=" + released.Core + "," + released.Core + "/*",
	}, e.more...)
}

// run runs the go command.
func (e goEnv) run(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, e.list(), "go", args...)
}
