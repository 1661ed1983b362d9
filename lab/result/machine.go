package result

import (
	"bufio"
	"context"
	"os"
	"os/exec"
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

// Commit names the commit of the checkout in the working directory, with
// -dirty if files are changed that git knows. Without one it is "unknown".
func Commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)lab/results").Output()
	if err != nil || len(changed) > 0 {
		name += "-dirty"
	}
	return name
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
