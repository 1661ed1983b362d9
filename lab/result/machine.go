package result

import (
	"runtime"

	"github.com/weir-go/weir/internal/host"
)

// ThisMachine describes the machine that this program runs on.
func ThisMachine() Machine {
	return Machine{
		OS:     runtime.GOOS,
		Kernel: host.Kernel(),
		Arch:   runtime.GOARCH,
		CPU:    host.CPU(),
		CPUs:   runtime.NumCPU(),
		Go:     runtime.Version(),
	}
}
