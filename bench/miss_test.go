package bench

import (
	"context"
	"testing"
)

// missKeys is how many keys a cache loads before an empty one replaces it.
const missKeys = 256 << 10

// BenchmarkMiss requests each key once: no caller joins, the load returns at once,
// and the value is stored. The tables of all libraries grow alike while it runs.
func BenchmarkMiss(b *testing.B) {
	keys := makeKeys("miss", missKeys)
	run(b, func(b *testing.B, l library[string]) { miss(b, l, keys) }, libWeir, libResenjeSet, libOtter, libSturdyc, libTheine, libMap)
}

// BenchmarkMissFull is BenchmarkMiss with int keys and a full cache: each stored
// value evicts another.
func BenchmarkMissFull(b *testing.B) {
	run(b, missFull, library[int]{"weir", openWeir[int]}, library[int]{"resenje+otter", openResenjeSet[int]}, library[int]{"otter", openOtter[int]})
}

// BenchmarkFlight is a miss without a store, for the libraries that only
// coalesce.
func BenchmarkFlight(b *testing.B) {
	keys := makeKeys("miss", missKeys)
	run(b, func(b *testing.B, l library[string]) { miss(b, l, keys) }, libFlight, libXSync, libResenje)
}

func miss[K comparable](b *testing.B, l library[K], keys []K) {
	value := new(record)
	loads := 0 // no lock: there is one caller, and one load at a time
	c := config[K]{entries: missKeys, load: func(context.Context, K) (*record, error) {
		loads++
		return value, nil
	}}
	in := l.open(b, c)
	b.ReportAllocs()
	ctx, n := b.Context(), 0
	for b.Loop() {
		if n > 0 && n%missKeys == 0 {
			b.StopTimer()
			in.shut()
			in = l.open(b, c)
			b.StartTimer()
		}
		if v, err := in.get(ctx, keys[n%missKeys]); v != value || err != nil {
			b.Fatal(v, err)
		}
		n++
	}
	in.shut()
	if loads != n {
		b.Errorf("%d loads for %d keys", loads, n)
	}
}

func missFull(b *testing.B, l library[int]) {
	const entries = 64 << 10 // the caches hold twice as many
	value := new(record)
	get := l.openFor(b, config[int]{entries: entries, load: func(context.Context, int) (*record, error) { return value, nil }})
	ctx, key := b.Context(), 0
	next := func() {
		if v, err := get(ctx, key*7919); v != value || err != nil { // spread, but the same in each run
			b.Fatal(v, err)
		}
		key++
	}
	for range 3 * entries {
		next()
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}

func (i instance[K]) shut() {
	if i.close != nil {
		i.close()
	}
}
