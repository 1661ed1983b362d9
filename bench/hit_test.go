package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// hitKeys is how many keys the hits are spread over. It is a power of two.
const hitKeys = 16 << 10

// BenchmarkHit measures one caller that reads fresh values.
func BenchmarkHit(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) { hit(b, l, makeKeys("hit", hitKeys)) },
		libWeir, libParts, libOtter, libSturdyc, libTheine, libMap, libMapChan, libMapFirst)
}

// BenchmarkHitInt is BenchmarkHit for the libraries that accept keys of any type.
func BenchmarkHitInt(b *testing.B) {
	keys := make([]int, hitKeys)
	for i := range keys {
		keys[i] = i * 7919 // spread, but the same in each run
	}
	run(b, func(b *testing.B, l library[int]) { hit(b, l, keys) },
		library[int]{"weir", openWeir[int]}, library[int]{"parts", openParts[int]}, library[int]{"otter", openOtter[int]}, library[int]{"theine", openTheine[int]})
}

// manyKeys is more than the number of entries that fit in the processor's caches.
const manyKeys = 1 << 20

// BenchmarkHitMany is BenchmarkHit over a million keys in random order, where most
// hits wait for memory.
func BenchmarkHitMany(b *testing.B) {
	keys := makeKeys("hit", manyKeys)
	run(b, func(b *testing.B, l library[string]) { hit(b, l, keys) }, libWeir, libParts, libOtter)
}

// BenchmarkHitManyInt is BenchmarkHitMany with int keys.
func BenchmarkHitManyInt(b *testing.B) {
	keys := rand.New(rand.NewPCG(1, 2)).Perm(manyKeys)
	run(b, func(b *testing.B, l library[int]) { hit(b, l, keys) },
		library[int]{"weir", openWeir[int]}, library[int]{"parts", openParts[int]}, library[int]{"otter", openOtter[int]})
}

// hit requests the keys in turn. Their number must be a power of two.
func hit[K comparable](b *testing.B, l library[K], keys []K) {
	get := warm(b, l, keys)
	b.ReportAllocs()
	ctx, i := b.Context(), 0
	for b.Loop() {
		if v, err := get(ctx, keys[i&(len(keys)-1)]); v == nil || err != nil {
			b.Fatal(v, err)
		}
		i++
	}
}

// BenchmarkHitParallel measures one caller per processor.
func BenchmarkHitParallel(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) {
		keys := makeKeys("hit", hitKeys)
		get := warm(b, l, keys)
		b.ReportAllocs()
		var callers atomic.Int64
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			ctx := b.Context()
			i := int(callers.Add(1)) * (hitKeys / 7) // callers start at different keys
			for pb.Next() {
				if v, err := get(ctx, keys[i&(hitKeys-1)]); v == nil || err != nil {
					b.Error(v, err)
					return
				}
				i++
			}
		})
	}, libWeir, libOtter, libSturdyc, libTheine, libMap, libMapChan, libMapFirst)
}

// warm opens l and loads every key once. A later load fails the benchmark, because it
// would not measure hits.
func warm[K comparable](b *testing.B, l library[K], keys []K) getFunc[K] {
	var loads atomic.Int64
	get := l.openFor(b, config[K]{entries: len(keys), load: func(context.Context, K) (*record, error) {
		loads.Add(1)
		return new(record), nil
	}})
	for _, k := range keys {
		if _, err := get(b.Context(), k); err != nil {
			b.Fatalf("Get(%v): %v", k, err)
		}
	}
	b.Cleanup(func() {
		if n := loads.Load(); n != int64(len(keys)) {
			b.Errorf("%d loads; want %d, one per key", n, len(keys))
		}
	})
	return get
}

// makeKeys returns n different keys of 16 bytes in random order.
func makeKeys(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%0*d", prefix, 15-len(prefix), i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}
