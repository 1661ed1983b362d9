// Package host describes the machine that measurements ran on, for the results of
// bench and lab.
package host

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// Kernel returns the release of the operating system; "" if unknown.
func Kernel() (release string) {
	lines("/proc/sys/kernel/osrelease", func(line string) bool {
		release = strings.TrimSpace(line)
		return false
	})
	return release
}

// CPU returns the name of the processor as reported by Linux, or otherwise its
// architecture.
func CPU() string {
	name := runtime.GOARCH
	lines("/proc/cpuinfo", func(line string) bool {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "model name" {
			return true
		}
		name = strings.TrimSpace(value)
		return false
	})
	return name
}

// lines calls each with each line of a file, until it returns false. A file that
// cannot be read has no lines.
func lines(file string, each func(line string) bool) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan() && each(s.Text()); {
	}
}
