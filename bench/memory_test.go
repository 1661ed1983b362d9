package bench

import (
	"context"
	"runtime"
	"testing"
)

// BenchmarkMemory fills a cache with 200,000 entries. B/entry is what the heap
// has grown by, an entry, with all keys and values allocated before: the
// library's own. The 24 bytes of a string header and a pointer that stand in
// each entry are in it.
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

// heap returns the bytes that live objects take. The second collection empties
// the pools (sync.Pool) that the first has only moved aside.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
