package result

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// ThisMachine describes the one that this program runs on.
func ThisMachine() Machine {
	return Machine{
		OS:     runtime.GOOS,
		Kernel: kernel(),
		Arch:   runtime.GOARCH,
		CPU:    cpuModel(),
		CPUs:   runtime.NumCPU(),
		Go:     runtime.Version(),
	}
}

// kernel is the operating system's release, where that is known.
func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}

// cpuModel is the processor's name as Linux gives it, or its architecture.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
