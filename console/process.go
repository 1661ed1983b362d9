package console

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// started is when the program was, about.
var started = time.Now()

// version is what was built, as far as the program knows.
var version = sync.OnceValue(func() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return ""
})

// process tells of the program.
func process() Process {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	p := Process{
		Version:    version(),
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
