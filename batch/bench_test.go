package batch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/batch"
)

// BenchmarkDo measures the cost of batching when the bulk call itself costs nothing:
// each of many callers waits for its own item. The rejected alternative, a linger, is
// in the same table.
func BenchmarkDo(b *testing.B) {
	run := func(_ context.Context, items []int) ([]int, error) { return items, nil }
	for _, o := range []batch.Options{{}, {MaxParallel: 1}, {MaxSize: 64, Linger: ms}} {
		b.Run(fmt.Sprintf("parallel=%d/linger=%v", o.MaxParallel, o.Linger), func(b *testing.B) {
			rows := batch.Must(batch.New(run, o))
			b.ReportAllocs()
			b.SetParallelism(128)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if v, err := rows.Do(b.Context(), 7); v != 7 || err != nil {
						b.Error(v, err)
					}
				}
			})
			st := rows.Stats()
			b.ReportMetric(float64(st.Items)/float64(st.Batches), "items/batch")
			rows.Close(context.Background())
		})
	}
}

// BenchmarkRefusal measures a call that is rejected because of MaxPending.
func BenchmarkRefusal(b *testing.B) {
	hold := make(chan struct{})
	rows := batch.Must(batch.New(func(_ context.Context, items []int) ([]int, error) { <-hold; return items, nil }, batch.Options{MaxPending: 1}))
	defer rows.Close(context.Background())
	defer close(hold)
	go rows.Do(context.Background(), 1)
	for rows.Stats().Pending == 0 {
	}
	b.ReportAllocs()
	for b.Loop() {
		rows.Do(b.Context(), 2)
	}
}

// BenchmarkSource measures a source that takes a millisecond per call, four calls at a
// time, with many callers, both one by one and in batches.
func BenchmarkSource(b *testing.B) {
	run := func(_ context.Context, items []int) ([]int, error) { time.Sleep(ms); return items, nil }
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			rows := batch.Must(batch.New(run, batch.Options{MaxSize: size}))
			b.ReportAllocs()
			b.SetParallelism(128)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					rows.Do(b.Context(), 7)
				}
			})
			st := rows.Stats()
			b.ReportMetric(float64(st.Items)/float64(st.Batches), "items/batch")
			rows.Close(context.Background())
		})
	}
}
