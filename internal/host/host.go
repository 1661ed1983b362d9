// Package host names what measurements were made on, for the results of bench and
// lab.
package host

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// Kernel is the operating system's release; "" if it is not known.
func Kernel() (release string) {
	lines("/proc/sys/kernel/osrelease", func(line string) bool {
		release = strings.TrimSpace(line)
		return false
	})
	return release
}

// CPU is the processor's name as Linux gives it, or its architecture.
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

// lines calls each with the lines of a file, until it returns false. A file that cannot
// be read has none.
func lines(file string, each func(line string) bool) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan() && each(s.Text()); {
	}
}
