package flight_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/flight"
)

func one(context.Context) (int, error) { return 1, nil }

// BenchmarkDo measures calls without joiners, of a function that returns at once: the
// cost of coalescing when there is no benefit. "bare" is the minimum cost of a function
// on a new goroutine.
func BenchmarkDo(b *testing.B) {
	request, cancel := context.WithCancel(b.Context())
	defer cancel()
	contexts := []struct {
		name string
		ctx  context.Context
	}{{"background", context.Background()}, {"cancelable", request}}

	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			done := make(chan int)
			go func() { v, _ := one(request); done <- v }()
			<-done
		}
	})
	for _, c := range contexts {
		b.Run("miss/"+c.name, func(b *testing.B) {
			var g flight.Group[string, int]
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Do(c.ctx, "key", one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("miss/parallel", func(b *testing.B) {
		var g flight.Group[string, int]
		var id atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			key := strconv.FormatInt(id.Add(1), 10)
			for pb.Next() {
				if _, err := g.Do(request, key, one); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("chan", func(b *testing.B) {
		var g flight.Group[string, int]
		b.ReportAllocs()
		for b.Loop() {
			if r := <-g.DoChan(request, "key", one); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	})
}

// BenchmarkStampede measures a thousand callers of one key, which all join the flight
// before it ends. One iteration is all thousand calls.
func BenchmarkStampede(b *testing.B) {
	const callers = 1000
	var g flight.Group[string, int]
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		var arrived atomic.Int64
		full := make(chan struct{})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if arrived.Add(1) == callers {
					close(full)
				}
				g.Do(ctx, "key", func(context.Context) (int, error) {
					<-full
					return 1, nil
				})
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/callers, "ns/caller")
}

// A hasty context ends between the join of its caller and the wait.
type hasty struct {
	context.Context
	asked int
	over  chan struct{} // closed
}

func (c *hasty) Done() <-chan struct{} { return c.over }

func (c *hasty) Err() error {
	if c.asked++; c.asked == 1 {
		return nil
	}
	return context.Canceled
}

// BenchmarkJoin measures a caller that joins a flight and leaves it at once, which
// takes the lock twice. That is the cost of a joiner for all other callers.
func BenchmarkJoin(b *testing.B) {
	var g flight.Group[string, int]
	release := make(chan struct{})
	first := g.DoChan(b.Context(), "key", func(context.Context) (int, error) {
		<-release
		return 1, nil
	})
	over := make(chan struct{})
	close(over)
	join := func() error {
		_, err := g.Do(&hasty{Context: context.Background(), over: over}, "key", one)
		return err
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := join(); err != context.Canceled {
				b.Fatalf("Do = %v; want Canceled", err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := join(); err != context.Canceled {
					b.Errorf("Do = %v; want Canceled", err)
				}
			}
		})
	})
	close(release)
	<-first
}
