package batching_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/batch"
)

// An Event is a row of
//
//	CREATE TABLE events (at timestamptz NOT NULL, kind text NOT NULL, body jsonb NOT NULL)
type Event struct {
	At   time.Time
	Kind string
	Body string // JSON
}

// Events are written with COPY, which is cheaper still and returns no rows. Use it
// only if duplicate rows do no harm: COPY cannot skip existing rows, so an event that
// is resent after a lost response may be stored twice.
func Example_copyPostgres() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// A COPY is also a single transaction: one bad event, and none is written. If
	// badRow reports that a row is to blame, each event is retried alone.
	write := func(ctx context.Context, events []Event) ([]struct{}, error) {
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"events"}, []string{"at", "kind", "body"},
			pgx.CopyFromSlice(len(events), func(i int) ([]any, error) {
				return []any{events[i].At, events[i].Kind, []byte(events[i].Body)}, nil
			}))
		return nil, err
	}
	events, err := batch.NewFrom(
		batch.Source[Event, struct{}]{Run: write, Retry: badRow},
		batch.Options{MaxSize: 1000, Linger: 5 * time.Millisecond, MaxParallel: 2, RetrySingly: true},
	)
	if err != nil {
		log.Fatal(err)
	}

	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if _, err := events.Do(ctx, Event{time.Now(), "login", `{"ok": true}`}); err != nil {
				log.Print(err)
			}
		})
	}
	callers.Wait()
	if err := events.Close(ctx); err != nil { // sends the remaining events
		log.Fatal(err)
	}
	var n int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&n); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "events")
	// Prints:
	// 100 events
}
