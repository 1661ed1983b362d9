package bench

import (
	"context"
	"testing"
)

// missKeys is how many keys a cache loads before an empty one replaces it.
const missKeys = 256 << 10

// BenchmarkMiss asks each key once: nobody joins, the load returns at once, and
// the value is stored. The libraries' tables grow while it runs, all alike.
func BenchmarkMiss(b *testing.B) {
	run(b, miss, libWeir, libResenjeSet, libOtter, libSturdyc, libTheine, libMap)
}

// BenchmarkFlight is a miss without a store, for the libraries that only
// coalesce.
func BenchmarkFlight(b *testing.B) {
	run(b, miss, libFlight, libXSync, libResenje)
}

func miss(b *testing.B, l library[string]) {
	value := new(record)
	keys := makeKeys("miss", missKeys)
	loads := 0 // by one caller, one load at a time
	c := config[string]{entries: missKeys, load: func(context.Context, string) (*record, error) {
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

func (i instance[K]) shut() {
	if i.close != nil {
		i.close()
	}
}
