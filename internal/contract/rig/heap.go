package rig

import (
	"runtime"
)

// Heap returns the number of heap bytes in use.
func Heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
