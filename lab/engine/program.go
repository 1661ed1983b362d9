package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A program is a file to run.
type program struct {
	path string
	root string // below which it was unpacked; "" for one that is installed
}

// Command returns a command that runs the tool called name (ab, wrk, hey,
// promtool, chromium, node, or one of the proxies). A machine without it gives a
// [*MissingError]. Like [exec.CommandContext], it is killed when ctx ends.
func Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	p, err := findProgram(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = p.environ(os.Environ())
	return cmd, nil
}

// Path returns the file of the engine or tool called name, for what starts it
// by itself. One that was unpacked and not installed needs its libraries, too,
// which only Command gives it.
func Path(name string) (string, error) {
	p, err := findProgram(name)
	return p.path, err
}

// environ returns env with what the program needs to find its libraries and
// fonts.
func (p program) environ(env []string) []string {
	if p.root == "" {
		return env
	}
	env = append(env, "LD_LIBRARY_PATH="+libraries(p.root))
	fonts := filepath.Join(p.root, "etc/fonts/fonts.conf") // not there where the machine has its own
	if _, err := os.Stat(fonts); err == nil {
		env = append(env, "FONTCONFIG_FILE="+fonts, "XDG_DATA_HOME="+filepath.Join(p.root, "usr/share"))
	}
	return env
}

// findProgram looks on the search path, in the folders that only root has on
// it, and among what Install unpacked.
func findProgram(name string) (program, error) {
	d, ok := known[name]
	if !ok {
		return program{}, unknown(name)
	}
	if d.program == "" {
		return program{}, fmt.Errorf("engine: %s is no single program", name)
	}
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin")
	if p, ok := lookup(d.program, dirs, unpackedFolder(name)); ok {
		return p, nil
	}
	return program{}, missing(name)
}

// lookup returns the first program called file in dirs, or else the one below
// root: there first in a folder of the program's own, since what is in usr/bin may
// be a script that knows where its package has to be (Chromium's).
func lookup(file string, dirs []string, root string) (program, bool) {
	for _, dir := range dirs {
		if path := filepath.Join(dir, file); filepath.IsAbs(dir) && executable(path) {
			return program{path: path}, true
		}
	}
	for _, dir := range []string{filepath.Join("usr/lib", file), "usr/bin", "usr/sbin"} {
		if path := filepath.Join(root, dir, file); executable(path) {
			return program{path: path, root: root}, true
		}
	}
	return program{}, false
}

// libraries returns Debian's folders for libraries below root, with a colon
// between them. Some packages, such as pulseaudio, have a subfolder there that
// the loader knows only from an installed library.
func libraries(root string) string {
	var found []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/*", "lib/*-linux-gnu*/*"} {
		dirs, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, dir := range dirs {
			if libs, _ := filepath.Glob(filepath.Join(dir, "lib*.so*")); len(libs) > 0 {
				found = append(found, dir)
			}
		}
	}
	return strings.Join(found, ":")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
