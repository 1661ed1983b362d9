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

// BenchmarkHit is one caller that reads fresh values.
func BenchmarkHit(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) { hit(b, l, makeKeys("hit", hitKeys)) },
		libWeir, libParts, libOtter, libSturdyc, libTheine, libMap, libMapChan, libMapFirst)
}

// BenchmarkHitInt is BenchmarkHit for the libraries that take keys of any type.
func BenchmarkHitInt(b *testing.B) {
	keys := make([]int, hitKeys)
	for i := range keys {
		keys[i] = i * 7919 // spread, but the same in each run
	}
	run(b, func(b *testing.B, l library[int]) { hit(b, l, keys) },
		library[int]{"weir", openWeir[int]}, library[int]{"parts", openParts[int]}, library[int]{"otter", openOtter[int]}, library[int]{"theine", openTheine[int]})
}

// manyKeys are more than the processor's caches hold entries of.
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

// hit asks for keys, whose number is a power of two, in turn.
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

// BenchmarkHitParallel is a caller on every processor.
func BenchmarkHitParallel(b *testing.B) {
	run(b, func(b *testing.B, l library[string]) {
		keys := makeKeys("hit", hitKeys)
		get := warm(b, l, keys)
		b.ReportAllocs()
		var callers atomic.Int64
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			ctx := b.Context()
			i := int(callers.Add(1)) * (hitKeys / 7) // start apart
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

// warm opens l with every key loaded once. A load after that fails the
// benchmark: what it measures would not be hits.
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
			b.Errorf("%d loads; want %d, one a key", n, len(keys))
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
