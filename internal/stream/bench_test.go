package stream_test

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/weir-go/weir/internal/stream"
)

// BenchmarkFanOut has one writer and 1,000 readers of a body of 64 KiB, which
// arrives in pieces of 4 KiB or at once. One operation is the whole body.
func BenchmarkFanOut(b *testing.B) {
	const followers, size = 1000, 64 * kib
	data := pattern(size)
	for _, bench := range []struct {
		name  string
		size  int64
		piece int
	}{
		{"known/pieces", size, 4 * kib},
		{"known/at-once", size, size},
		{"unknown/pieces", -1, 4 * kib},
		{"unknown/at-once", -1, size},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(followers * size)
			ctx := context.Background()
			for b.Loop() {
				body := stream.New(stream.Options{Size: bench.size, Limit: 1 << 20})
				var wg sync.WaitGroup
				for range followers {
					r := body.Join()
					wg.Go(func() {
						defer r.Close()
						n := 0
						for {
							p, err := r.Next(ctx)
							n += len(p)
							if err != nil {
								if err != io.EOF || n != size {
									b.Errorf("reader got %d bytes, %v; want %d, EOF", n, err, size)
								}
								return
							}
						}
					})
				}
				for p := data; len(p) > 0; p = p[bench.piece:] {
					body.Write(ctx, p[:bench.piece])
				}
				body.Finish(nil, nil)
				wg.Wait()
			}
		})
	}
}
