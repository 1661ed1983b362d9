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

// Events are written by COPY, which is cheaper still, and returns nothing. It
// is for rows of which one more does no harm: COPY cannot leave out what is
// there already, so an event that is sent again after a lost answer may be
// there twice.
func Example_copyPostgres() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// A COPY is one transaction, too: one bad event, and none is written.
	// Then badRow, and only then, has each of them tried alone.
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
	if err := events.Close(ctx); err != nil { // sends off what is gathered
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
