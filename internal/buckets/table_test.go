package buckets

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sound fails the test if the structure of table is broken.
func sound(t *testing.T, table *Table) {
	t.Helper()
	if err := table.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestH13_TableHoldsItsBoundAndForgetsFullBuckets(t *testing.T) {
	for _, keys := range []int{1, 2, 7, 2047, 4096, 10_001} {
		rng := rand.New(rand.NewPCG(uint64(keys), 0))
		m := NewMeter(int64(time.Second), int64(1), 10, 0)
		table := NewTable(keys, m)
		long := strings.Repeat("x", 1000)
		now := time.Duration(0)
		held := func() int {
			sound(t, table)
			return table.Len()
		}
		for i := range 50_000 {
			now += time.Duration(rng.IntN(1000))
			table.Take(long+strconv.Itoa(rng.IntN(5*keys)), now)
			if i%5000 == 0 {
				if n := held(); n > keys {
					t.Errorf("%d buckets are held; want at most %d", n, keys)
				}
			}
		}
		before := held()
		// Once all are full again, each new key makes the table forget two.
		now += m.refill
		for range before {
			table.Take(strconv.Itoa(rng.Int()), now)
			now += m.refill
		}
		if n := held(); n > len(table.shards)*2 && n > before/10 {
			t.Errorf("%d of %d buckets are still held after all were full again; want almost none", n, before)
		}
	}
}

func TestTableSharesOutAllPlaces(t *testing.T) {
	for _, keys := range []int{1, 5, 2048, 4095, 4097, 100_000, 1_000_003} {
		places := 0
		table := NewTable(keys, Meter{})
		for i := range table.shards {
			places += table.shards[i].places
		}
		if places != keys {
			t.Errorf("%d shards have %d places; want %d", len(table.shards), places, keys)
		}
	}
}

func BenchmarkTable(b *testing.B) {
	m := NewMeter(int64(time.Second), int64(100), 100, 0)
	for _, bench := range []struct {
		name string
		keys uint64
	}{{"known", 1000}, {"flood", 1 << 62}} {
		b.Run(bench.name, func(b *testing.B) {
			table := NewTable(100_000, m)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
				key := make([]byte, 0, 24)
				for pb.Next() {
					key = strconv.AppendUint(key[:0], rng.Uint64N(bench.keys), 10)
					table.Take(string(key), 0)
				}
			})
		})
	}
}
