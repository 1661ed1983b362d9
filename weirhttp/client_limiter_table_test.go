package weirhttp

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// check checks the structure of s.
func (s *clientShard) check(t *testing.T) {
	t.Helper()
	ring := 0
	last := time.Duration(1<<63 - 1)
	for i := s.buckets[0].next; i != 0; i = s.buckets[i].next {
		b := &s.buckets[i]
		if s.index[b.key] != i {
			t.Fatalf("bucket %d is at %d in the index", i, s.index[b.key])
		}
		if s.buckets[b.next].prev != i || s.buckets[b.prev].next != i {
			t.Fatalf("bucket %d is not linked both ways", i)
		}
		if b.seen > last {
			t.Fatalf("bucket %d was seen at %v, later than the one before it", i, b.seen)
		}
		last = b.seen
		if ring++; ring > len(s.buckets) {
			t.Fatal("the ring does not close")
		}
	}
	free := 0
	for i := s.free; i != 0; i = s.buckets[i].next {
		if free++; free > len(s.buckets) {
			t.Fatal("the free list does not end")
		}
	}
	if ring != len(s.index) || ring > s.places || ring+free+1 != len(s.buckets) {
		t.Fatalf("%d in the ring, %d in the index, %d free, of %d; at most %d", ring, len(s.index), free, len(s.buckets), s.places)
	}
}

func TestH13_TableHoldsItsBoundAndForgetsFullBuckets(t *testing.T) {
	for _, keys := range []int{1, 2, 7, 2047, 4096, 10_001} {
		rng := rand.New(rand.NewPCG(uint64(keys), 0))
		m := newMeter(ClientLimiterOptions{Rate: 1, Per: time.Second, Burst: 10})
		table := newClientTable(keys, m)
		long := strings.Repeat("x", 1000)
		now := time.Duration(0)
		held := func() (n int) {
			for i := range table.shards {
				table.shards[i].check(t)
				n += len(table.shards[i].index)
			}
			return n
		}
		for i := range 50_000 {
			now += time.Duration(rng.IntN(1000))
			table.take(long+strconv.Itoa(rng.IntN(5*keys)), now)
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
			table.take(strconv.Itoa(rng.Int()), now)
			now += m.refill
		}
		if n := held(); n > len(table.shards)*2 && n > before/10 {
			t.Errorf("%d of %d buckets are still held after all were full again; want almost none", n, before)
		}
	}
}

func TestClientTableSharesOutAllPlaces(t *testing.T) {
	for _, keys := range []int{1, 5, 2048, 4095, 4097, 100_000, 1_000_003} {
		places := 0
		table := newClientTable(keys, meter{})
		for i := range table.shards {
			places += table.shards[i].places
		}
		if places != keys {
			t.Errorf("%d shards have %d places; want %d", len(table.shards), places, keys)
		}
	}
}

func BenchmarkClientTable(b *testing.B) {
	m := newMeter(ClientLimiterOptions{Rate: 100, Per: time.Second, Burst: 100})
	for _, bench := range []struct {
		name string
		keys uint64
	}{{"known", 1000}, {"flood", 1 << 62}} {
		b.Run(bench.name, func(b *testing.B) {
			table := newClientTable(100_000, m)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
				key := make([]byte, 0, 24)
				for pb.Next() {
					key = strconv.AppendUint(key[:0], rng.Uint64N(bench.keys), 10)
					table.take(string(key), 0)
				}
			})
		})
	}
}
