package batching_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir"
)

// Twenty goroutines request one customer each. The Guard loads the missing ones with
// one or two queries, not twenty.
func Example_readPostgres() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	var queries atomic.Int64
	// A user that is missing from the map is not found.
	names := func(ctx context.Context, ids []int64) (map[int64]string, error) {
		queries.Add(1)
		rows, err := pool.Query(ctx, `SELECT id, name FROM customers WHERE id = ANY($1)`, ids)
		if err != nil {
			return nil, err
		}
		found := make(map[int64]string, len(ids))
		var id int64
		var name string
		_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
			found[id] = name
			return nil
		})
		return found, err
	}
	customers, err := weir.NewFrom(weir.Source[int64, string]{LoadMany: names}, weir.Options{
		TTL:         time.Minute,
		NegativeTTL: 10 * time.Second,
		Batch:       weir.Batching{MaxSize: 500, Linger: time.Millisecond, MaxParallel: 4},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer customers.Close(ctx)

	answers := make([]string, 20)
	var callers sync.WaitGroup
	for i := range answers {
		callers.Go(func() {
			name, err := customers.Get(ctx, int64(i))
			answers[i] = fmt.Sprintln(i, name, err)
		})
	}
	callers.Wait()
	fmt.Print(answers[7], answers[19])
	fmt.Println("few queries:", queries.Load() < 10)
	// Prints:
	// 7 Ada <nil>
	// 19  weir: not found
	// few queries: true
}
