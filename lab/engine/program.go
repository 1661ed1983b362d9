package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Command returns a command that runs the tool called name (ab, wrk, hey, h2load,
// promtool, chromium, node, pgbouncer, or one of the proxies). A machine without it gives a
// [*MissingError]. Like [exec.CommandContext], it is killed when ctx ends.
func Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := findProgram(name)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, path, args...), nil
}

// Path returns the file of the engine or tool called name, for programs that start it
// themselves.
func Path(name string) (string, error) { return findProgram(name) }

// findProgram looks on the search path, in the folders that only root has on it, and
// among the programs that Install unpacked.
func findProgram(name string) (string, error) {
	d, ok := known[name]
	if !ok {
		return "", unknown(name)
	}
	if d.program == "" {
		return "", fmt.Errorf("engine: %s is not a single program", name)
	}
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin", launchers(unpackedFolder(name)))
	for _, dir := range dirs {
		if path := filepath.Join(dir, d.program); filepath.IsAbs(dir) && executable(path) {
			return path, nil
		}
	}
	return "", missing(name)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
