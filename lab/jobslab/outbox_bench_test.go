package jobslab

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/lab/engine"
)

// BenchmarkEnqueueInATransaction has 64 writers, whose transactions insert one row into
// a business table, and enqueue one job in the named way. PostgreSQL flushes its log.
func BenchmarkEnqueueInATransaction(b *testing.B) {
	if os.Getenv("WEIR_TEST_POSTGRES") == "" {
		b.Skip("WEIR_TEST_POSTGRES is not set; run it with go run ./lab/cmd/with postgres")
	}
	pg, err := engine.Postgres(b.Context(), engine.PostgresOptions{Durable: true})
	if err != nil {
		b.Fatal(err)
	}
	defer pg.Stop()
	rival, err := OpenRiver(b.Context(), RiverOptions{URL: pg.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer rival.Close()
	pool := rival.(*riverSystem).pool
	prepareOutbox(b, pool)
	input := riverJob{Number: 1}
	enqueue := func(o outbox.QueueOptions) func(context.Context, pgx.Tx) error {
		q, err := outbox.NewQueue[riverJob]("q", o)
		if err != nil {
			b.Fatal(err)
		}
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := q.Enqueue(ctx, outbox.Pgx(tx), input, outbox.EnqueueOptions{})
			return err
		}
	}
	for _, way := range []struct {
		name string
		do   func(context.Context, pgx.Tx) error
	}{
		{"plain insert", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO plain (input) VALUES ($1)`, []byte(`{"number":1}`))
			return err
		}},
		{"outbox without NOTIFY", enqueue(outbox.QueueOptions{NotifyEvery: -1})},
		{"outbox", enqueue(outbox.QueueOptions{})},
		{"outbox with each NOTIFY", enqueue(outbox.QueueOptions{NotifyEvery: 1})},
		{"River", func(ctx context.Context, tx pgx.Tx) error {
			_, err := rival.(*riverSystem).client.InsertTx(ctx, tx, input, nil)
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) { transactions(b, pool, way.do) })
	}
}

func prepareOutbox(b *testing.B, pool *pgxpool.Pool) {
	b.Helper()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := outbox.Migrate(b.Context(), db, outbox.MigrateOptions{}); err != nil {
		b.Fatal(err)
	}
	const tables = `CREATE TABLE business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text);
		CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, input bytea)`
	if _, err := pool.Exec(b.Context(), tables); err != nil {
		b.Fatal(err)
	}
}

// transactions runs b.N transactions, 64 at a time.
func transactions(b *testing.B, pool *pgxpool.Pool, do func(context.Context, pgx.Tx) error) {
	const writers = 64
	var failed atomic.Pointer[error]
	left := atomic.Int64{}
	left.Store(int64(b.N))
	done := make(chan struct{})
	b.ResetTimer()
	for range writers {
		go func() {
			defer func() { done <- struct{}{} }()
			for left.Add(-1) >= 0 {
				err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(b.Context(), "INSERT INTO business (item) VALUES ('pen')"); err != nil {
						return err
					}
					return do(b.Context(), tx)
				})
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		}()
	}
	for range writers {
		<-done
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
}
