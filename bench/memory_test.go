package bench

import (
	"context"
	"runtime"
	"testing"
)

// BenchmarkMemory fills a cache with 200,000 entries. B/entry is the growth of the
// heap per entry. All keys and values are allocated beforehand, so it counts the
// library's memory only. It includes the 24 bytes for a string header and a pointer
// in each entry.
func BenchmarkMemory(b *testing.B) {
	run(b, memory, libWeir, libOtter, libSturdyc, libTheine, libMap)
}

func memory(b *testing.B, l library[string]) {
	const entries = 200_000
	keys := makeKeys("memory", entries)
	values := make(map[string]*record, entries)
	for _, k := range keys {
		values[k] = &record{key: k}
	}
	c := config[string]{entries: entries, load: func(_ context.Context, key string) (*record, error) {
		return values[key], nil
	}}
	n, grown := 0, 0.0
	for b.Loop() {
		before := heap()
		in := l.open(b, c)
		for _, k := range keys {
			if _, err := in.get(b.Context(), k); err != nil {
				b.Fatal(err)
			}
		}
		grown += float64(heap()) - float64(before)
		runtime.KeepAlive(in.keep)
		in.shut()
		n++
	}
	runtime.KeepAlive(values)
	b.ReportMetric(grown/float64(n)/entries, "B/entry")
}

// heap returns the bytes of live objects. The second collection empties the pools
// (sync.Pool), which the first one only moves to their victim caches.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
