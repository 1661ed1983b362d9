// Package heap makes the garbage collector of a small process run less often.
//
// By default a collection starts once the heap has doubled. The heap of a gateway
// without much in its store is a few megabytes, which a busy one allocates dozens of
// times per second: a quarter of its CPU time went into collections. [SetFloor] lets the
// heap grow to a fixed size first.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Floor is the size of the heap, in bytes, below which no collection starts. If the
// live heap is more than half of it, the heap is collected when it has doubled, as by
// default.
const Floor = 32 << 20

// normal is the default of GOGC: a collection when the heap has doubled.
const normal = 100

var once sync.Once

// SetFloor applies Floor to this process until it exits. It does nothing if the
// environment variable GOGC is set. GOMEMLIMIT takes precedence: a collection starts
// when the process comes close to it.
func SetFloor() {
	if os.Getenv("GOGC") == "" {
		once.Do(adjust)
	}
}

// adjust sets the percentage for the next collection, and arranges to be called again
// after it: a finalizer runs once its object has been found to be garbage.
func adjust() {
	sample := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/gogc:percent"},
	}
	metrics.Read(sample)
	live, roots := sample[0].Value.Uint64(), sample[1].Value.Uint64()+sample[2].Value.Uint64()
	want := percent(live, roots)
	if have := sample[3].Value.Uint64(); want > have+have/10 || want < have-have/10 { // setting it stops the world
		debug.SetGCPercent(int(want)) //nolint:gosec // at most 100 * Floor
	}
	runtime.SetFinalizer(new(cycle), func(*cycle) { adjust() })
}

// A cycle is garbage from the beginning. It contains a pointer, because the runtime can
// batch small objects without pointers into one block, and then keep them alive.
type cycle struct{ _ *cycle }

// most is the percentage at which the runtime's own minimum is Floor: it starts no
// collection below 4 MiB * GOGC / 100 (heapMinimum in runtime/mgcpacer.go). A higher
// percentage would move that minimum beyond Floor.
const most = Floor * 100 / (4 << 20)

// percent returns the growth, in percent of the live heap and the roots, at which the
// heap reaches Floor. See "The GC guide", https://go.dev/doc/gc-guide: target heap =
// live + (live + roots) * GOGC / 100.
func percent(live, roots uint64) uint64 {
	if live >= Floor {
		return normal
	}
	return min(most, max(normal, (Floor-live)*100/max(live+roots, 1)))
}
