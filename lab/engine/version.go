package engine

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// versionTimeout bounds the run of a program that prints its version: Java and Chromium
// take over a second on a busy machine.
const versionTimeout = 20 * time.Second

// versionArgs are the arguments with which a program prints its version. Those that are
// not here have --version.
var versionArgs = map[string]string{
	"nginx":   "-v",
	"varnish": "-V",
	"caddy":   "version",
	"ab":      "-V",
	"wrk":     "-v",
}

// noVersion lists the programs that cannot print their version. The version of their
// Debian package is used instead.
var noVersion = map[string]bool{"hey": true}

// Version returns the version of the engine or tool called name, which is installed:
// that of the program which [Start] and [Command] run.
func Version(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	switch {
	case name == "cassandra":
		if _, err := findCassandra(); err != nil {
			return "", err
		}
		return cassandraVersion, nil // its jars are pinned
	case noVersion[name]:
		if err := Installed(name); err != nil {
			return "", err
		}
		return printed(ctx, name, "dpkg-query", "--show", "--showformat=${Version}", known[name].packages)
	}
	var path string
	var err error
	if name == "postgres" {
		var dir string
		dir, err = findPostgres()
		path = filepath.Join(dir, "postgres")
	} else {
		path, err = findProgram(name)
	}
	if err != nil {
		return "", err
	}
	arg := versionArgs[name]
	if arg == "" {
		arg = "--version"
	}
	return printed(ctx, name, path, arg)
}

// printed runs a program and returns the version in its output.
func printed(ctx context.Context, name, path string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("engine: version of %s: %w", name, context.Cause(ctx))
	}
	// wrk prints its version, then its usage, and exits with an error.
	if v := versionIn(string(out)); v != "" {
		return v, nil
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return "", fmt.Errorf("engine: version of %s: no version in the output of %s %s (%v): %q", name, path, strings.Join(args, " "), err, line)
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// versionIn returns the first version number in a program's output. Debian's script that
// starts Chromium may complain before it.
func versionIn(out string) string { return versionNumber.FindString(out) }
