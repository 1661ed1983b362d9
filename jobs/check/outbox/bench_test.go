package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/pgtest"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/outbox"
)

// BenchmarkRelay relays 5,000 rows, with batches of some sizes, to a server that flushes
// each write and to one that does not.
func BenchmarkRelay(b *testing.B) {
	const rows = 5000
	for _, d := range []jobs.Durability{jobs.DurabilityProcess, jobs.DurabilityDisk} {
		for _, batch := range []int{outbox.DefaultBatch, outbox.MaxBatch} {
			b.Run(fmt.Sprintf("%s/batch=%d", d, batch), func(b *testing.B) {
				db := pgtest.Open(b, pgtest.Database(b))
				if err := outbox.Migrate(b.Context(), db, outbox.MigrateOptions{}); err != nil {
					b.Fatal(err)
				}
				table, err := outbox.NewTable(db, outbox.TableOptions{})
				if err != nil {
					b.Fatal(err)
				}
				server, err := embedded.Start(embedded.Options{Dir: b.TempDir(), Durability: d, MinFree: -1})
				if err != nil {
					b.Fatal(err)
				}
				defer server.Close(context.Background())
				nc, err := server.Connect()
				if err != nil {
					b.Fatal(err)
				}
				defer nc.Close()
				store, err := jobs.Open(b.Context(), nc, jobs.StoreOptions{Durability: d})
				if err != nil {
					b.Fatal(err)
				}
				defer store.Close(context.Background())
				var took time.Duration
				for b.Loop() {
					if _, err := db.ExecContext(b.Context(), `INSERT INTO weir_outbox (queue, id, input) SELECT 'q', gen_random_uuid()::text, '"in"' FROM generate_series(1, $1::int)`, rows); err != nil {
						b.Fatal(err)
					}
					relay, err := outbox.NewRelay(b.Context(), table, store, outbox.RelayOptions{Batch: batch, Queues: map[string]jobs.QueueOptions{"q": {MaxQueued: 1 << 30}}})
					if err != nil {
						b.Fatal(err)
					}
					done := make(chan error, 1)
					begin := time.Now()
					go func() { done <- relay.Run(context.Background()) }()
					for relay.Stats().Submitted < rows {
						<-time.After(time.Millisecond)
					}
					took += time.Since(begin)
					if err := relay.Close(b.Context()); err != nil {
						b.Fatal(err)
					}
					<-done
				}
				b.ReportMetric(float64(rows)*float64(b.N)/took.Seconds(), "rows/s")
			})
		}
	}
}
