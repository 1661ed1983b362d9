package bench

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkStampede measures 1,000 callers that request one missing key at once, with
// a load of 1 ms. Time and bytes are for the whole stampede, including the callers'
// goroutines. Weir always makes one load; a library that only coalesces may load
// again for a late caller.
func BenchmarkStampede(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) { stampede(b, l, newcomers) }, libWeir, libFlight, libXSync, libResenje, libOtter, libSturdyc, libTheine, libMap)
}

// BenchmarkStampedeWarm is the same with long-lived goroutines, such as those of a
// server's connections. In a new goroutine, a deep call pays for a larger stack,
// which has little to do with the library.
func BenchmarkStampedeWarm(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) { stampede(b, l, residents) }, libWeir, libFlight, libXSync, libResenje, libOtter)
}

func stampede(b *testing.B, l library[string], gather func(*testing.B, getFunc[string]) crowd) {
	var loads atomic.Int64
	keys := makeKeys("stampede", 16<<10)
	get := l.openFor(b, config[string]{entries: len(keys), load: func(_ context.Context, key string) (*record, error) {
		loads.Add(1)
		time.Sleep(time.Millisecond)
		return &record{key: key}, nil
	}})
	all := gather(b, get)
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for b.Loop() {
		all(keys[n%len(keys)])
		n++
	}
	runtime.ReadMemStats(&after)
	callers := float64(n * crowdSize)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/callers, "ns/caller")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/callers, "B/caller")
	b.ReportMetric(float64(loads.Load())/float64(n), "loads/op")
	if l.name == libWeir.name && loads.Load() != int64(n) {
		b.Errorf("%d loads in %d stampedes; want one each", loads.Load(), n)
	}
}
