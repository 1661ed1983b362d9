package jobs_test

import (
	"context"
	"sync"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// BenchmarkSubmitMany submits 1,000 jobs, with one call, and with Submit from 1 and 64
// goroutines.
func BenchmarkSubmitMany(b *testing.B) {
	const n = 1000
	all := make([]jobs.Submission[int], n)
	apart := func(workers int) func(*jobs.Queue[int, int]) error {
		return func(q *jobs.Queue[int, int]) error {
			var wg sync.WaitGroup
			errs := make(chan error, workers)
			for range workers {
				wg.Go(func() {
					for range n / workers {
						if _, err := q.Submit(context.Background(), 0, jobs.SubmitOptions{}); err != nil {
							errs <- err
							return
						}
					}
				})
			}
			wg.Wait()
			close(errs)
			return <-errs
		}
	}
	for _, d := range []jobs.Durability{jobs.DurabilityProcess, jobs.DurabilityDisk} {
		for _, way := range []struct {
			name string
			do   func(*jobs.Queue[int, int]) error
		}{
			{"SubmitMany", func(q *jobs.Queue[int, int]) error {
				_, err := q.SubmitMany(context.Background(), all)
				return err
			}},
			{"Submit", apart(1)},
			{"Submit from 64", apart(64)},
		} {
			b.Run(d.String()+"/"+way.name, func(b *testing.B) {
				srv, err := embedded.Start(embedded.Options{Dir: b.TempDir(), Durability: d})
				if err != nil {
					b.Fatal(err)
				}
				defer srv.Close(context.Background())
				nc, err := srv.Connect()
				if err != nil {
					b.Fatal(err)
				}
				defer nc.Close()
				s, err := jobs.Open(b.Context(), nc, jobs.StoreOptions{Durability: d})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close(context.Background())
				q, err := jobs.NewQueue[int, int](b.Context(), s, "q", jobs.QueueOptions{MaxQueued: 1 << 30})
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if err := way.do(q); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}
