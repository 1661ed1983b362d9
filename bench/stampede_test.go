package bench

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkStampede is 1,000 callers who ask for one missing key at once, with
// a load of 1 ms. Time and bytes are those of the whole stampede, the callers'
// goroutines included. Through weir it is one load, always; a library that only
// coalesces may load again for a caller who is late.
func BenchmarkStampede(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) { stampede(b, l, newcomers) }, libWeir, libFlight, libXSync, libResenje, libOtter, libSturdyc, libTheine, libMap)
}

// BenchmarkStampedeWarm is the same with callers whose goroutines have been
// there for a while, as those of a server's connections have. A new goroutine
// that calls anything deep pays for a larger stack, which has little to do with
// the library.
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
