package console

import (
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/weir-go/weir/console/build"
)

// started is approximately when the program was started.
var started = time.Now()

// process describes the program.
func process() Process {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	p := Process{
		Version:    build.Version(),
		Go:         runtime.Version(),
		PID:        os.Getpid(),
		Started:    started.UTC(),
		State:      "ready",
		Goroutines: runtime.NumGoroutine(),
	}
	if heap[0].Value.Kind() == metrics.KindUint64 {
		p.Memory = heap[0].Value.Uint64()
	}
	return p
}
