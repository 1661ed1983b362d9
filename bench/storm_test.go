package bench

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkStorm measures 1,000 callers that hit one stale value at once. Its refresh
// does not end before they have their results, so that goroutines waiting for it are
// visible.
func BenchmarkStorm(b *testing.B) {
	run(b, storm, libWeir, libOtter, libSturdyc)
}

func storm(b *testing.B, l library[string]) {
	const stale = time.Millisecond
	var loads, running atomic.Int64
	release := make(chan struct{}, crowdSize)
	get := l.openFor(b, config[string]{entries: 16, stale: stale, load: func(_ context.Context, key string) (*record, error) {
		loads.Add(1)
		running.Add(1)
		defer running.Add(-1)
		<-release
		return &record{key: key}, nil
	}})
	release <- struct{}{}
	if _, err := get(b.Context(), "storm"); err != nil {
		b.Fatal(err)
	}
	loads.Store(0)

	all := residents(b, get)
	b.ReportAllocs()
	n, extra := 0, 0
	for b.Loop() {
		b.StopTimer()
		time.Sleep(2 * stale)
		before := runtime.NumGoroutine()
		b.StartTimer()
		all("storm")
		b.StopTimer()
		extra += settled(before + 1)
		extra -= before
		for running.Load() > 0 || loads.Load() <= int64(n) {
			select {
			case release <- struct{}{}:
			default:
			}
			time.Sleep(100 * time.Microsecond)
		}
		for len(release) > 0 {
			<-release
		}
		b.StartTimer()
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/crowdSize, "ns/caller")
	b.ReportMetric(float64(loads.Load())/float64(n), "loads/op")
	b.ReportMetric(float64(extra)/float64(n), "goroutines/op")
}

// settled returns the number of goroutines once it is at most want or stops falling.
// A goroutine that has done its work takes a moment to end.
func settled(want int) int {
	n := runtime.NumGoroutine()
	for range 50 {
		if n <= want {
			break
		}
		time.Sleep(20 * time.Microsecond)
		n = runtime.NumGoroutine()
	}
	return n
}
