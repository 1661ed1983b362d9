package disk_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/disk"
)

// filled returns a closed folder with n records of 1 kB, or one that is still open.
func filled(b *testing.B, n int) (*disk.Store, disk.Options) {
	b.Helper()
	o := disk.Options{Folder: b.TempDir(), Bytes: 1 << 30, QueueBytes: 1 << 30}
	s, err := disk.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	body := strings.Repeat("x", 1000)
	for i := range n {
		put(s, fmt.Sprint("https://shop.example/product/", i), body)
	}
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if s, err = disk.Open(o); err != nil {
		b.Fatal(err)
	}
	return s, o
}

// BenchmarkOpen opens a folder with 100,000 records of 1 kB.
func BenchmarkOpen(b *testing.B) {
	s, o := filled(b, 100_000)
	_ = s.Close(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		s, err := disk.Open(o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n := s.Stats().Objects; n != 100_000 {
			b.Fatalf("%d objects", n)
		}
		_ = s.Close(b.Context())
		b.StartTimer()
	}
}

func BenchmarkGet(b *testing.B) {
	s, _ := filled(b, 100_000)
	defer s.Close(b.Context())
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		e := s.Get(fmt.Sprint("https://shop.example/product/", i%100_000), any1)
		if e == nil {
			b.Fatal("not found")
		}
		e.Close()
		i += 7919
	}
}

func BenchmarkPut(b *testing.B) {
	s, _ := filled(b, 0)
	defer s.Close(b.Context())
	body := strings.Repeat("x", 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		put(s, fmt.Sprint("https://shop.example/product/", i%100_000), body)
		i++
	}
	b.ReportMetric(float64(s.Stats().Dropped)/float64(i), "dropped/op")
}

// BenchmarkPurge makes 1,000 purges, each waited for: one after the other, and 32 at
// once. Run it with -benchtime 1x.
func BenchmarkPurge(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s, _ := filled(b, 100_000)
			defer s.Close(b.Context())
			var n atomic.Int64
			var wg sync.WaitGroup
			begin := time.Now()
			for range callers {
				wg.Go(func() {
					for i := n.Add(1); i <= 1000; i = n.Add(1) {
						key := fmt.Sprint("https://shop.example/product/", i)
						if err := s.Sync(b.Context(), purge(s, key, false)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(time.Since(begin).Microseconds())*float64(callers)/1000, "µs/purge")
			st := s.Stats()
			b.ReportMetric(float64(st.Removals)/float64(max(st.Flushes, 1)), "purges/flush")
		})
	}
}
