package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// launchers is the folder of the launchers of the programs unpacked below root.
func launchers(root string) string { return filepath.Join(root, "weir") }

// addLauncher writes a script that runs the program called file, unpacked below root
// but not installed, with its libraries, fonts and tools.
func addLauncher(root, file string) error {
	program := unpacked(root, file)
	if program == "" {
		return fmt.Errorf("the packages have no %s", file)
	}
	if err := os.MkdirAll(launchers(root), 0o755); err != nil {
		return err
	}
	var env strings.Builder
	for _, l := range [][2]string{
		{"PATH", `$root/weir:$root/usr/bin:${PATH:-/usr/bin:/bin}`},
		{"LD_LIBRARY_PATH", inRoot(libraries(root))},
		{"C_INCLUDE_PATH", inRoot(folders(root, "usr/include", "usr/include/*-linux-gnu*"))},
		{"FONTCONFIG_FILE", inRoot(folders(root, "etc/fonts/fonts.conf"))},
		{"XDG_DATA_HOME", inRoot(folders(root, "usr/share"))},
	} {
		if l[1] != "" {
			fmt.Fprintf(&env, "export %s=\"%s\"\n", l[0], l[1])
		}
	}
	// Varnish compiles its configuration to a shared library for itself. That does
	// not need the start files of the C library, which the linker finds only if they
	// are installed.
	for _, compiler := range folders(root, "usr/bin/*-gcc") {
		if err := writeLauncher(root, compiler, "", "-nostdlib"); err != nil {
			return err
		}
	}
	return writeLauncher(root, program, env.String(), "")
}

// writeLauncher writes a script named after the program, which is below root.
func writeLauncher(root, program, env, args string) error {
	text := fmt.Sprintf("#!/bin/sh\n# Runs a program that was unpacked and not installed.\nroot=${0%%/*}/..\n%sexec \"$root/%s\" \"$@\" %s\n",
		env, program, args)
	return os.WriteFile(filepath.Join(launchers(root), filepath.Base(program)), []byte(text), 0o755)
}

// unpacked returns the path below root of the program called file, or "". It looks
// first in a folder of that name, because the file in usr/bin may be a script with
// the fixed path of its package (Chromium's).
func unpacked(root, file string) string {
	for _, dir := range []string{filepath.Join("usr/lib", file), "usr/bin", "usr/sbin", "usr/lib/jvm/*/bin"} {
		for _, path := range folders(root, filepath.Join(dir, file)) {
			if executable(filepath.Join(root, path)) {
				return path
			}
		}
	}
	return ""
}

// libraries returns Debian's library folders below root. Some packages, such as
// pulseaudio, have a subfolder there that the loader finds only through an installed
// library.
func libraries(root string) []string {
	var found []string
	for _, dir := range folders(root, "usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/*", "lib/*-linux-gnu*/*") {
		if len(folders(root, filepath.Join(dir, "lib*.so*"))) > 0 {
			found = append(found, dir)
		}
	}
	return found
}

// folders returns the matches of the patterns below root, relative to root.
func folders(root string, patterns ...string) []string {
	var found []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, path := range paths {
			if rel, err := filepath.Rel(root, path); err == nil {
				found = append(found, rel)
			}
		}
	}
	return found
}

// inRoot returns the paths as written in a launcher, separated by colons.
func inRoot(paths []string) string {
	var b strings.Builder
	for i, path := range paths {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString("$root/" + path)
	}
	return b.String()
}
