package outbox_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/jobs/outbox/outboxpgx"
)

// An Email is the input of a job.
type Email struct{ To, Text string }

// The order and the email's job commit together, or not at all.
func ExampleQueue_Enqueue() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://shop@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	emails, err := outbox.NewQueue[Email]("emails", outbox.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (item) VALUES ($1)", "pen"); err != nil {
			return err
		}
		_, err := emails.Enqueue(ctx, outbox.Pgx(tx), Email{To: "ann@example.com", Text: "Thank you"}, outbox.EnqueueOptions{})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A relay submits the rows to the queue, until ctx ends.
func ExampleRelay_Run() {
	var (
		ctx   context.Context // ends with the program
		db    *sql.DB         // with pgx: stdlib.OpenDBFromPool(pool)
		store *jobs.Store     // with the workers' queue emails
	)
	table, err := outbox.NewTable(db, outbox.TableOptions{})
	if err != nil {
		log.Fatal(err)
	}
	config, err := pgx.ParseConfig("postgres://shop@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(ctx, table, store, outbox.RelayOptions{
		Queues: map[string]jobs.QueueOptions{"emails": {}},
		Listen: outboxpgx.Listen(config),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := relay.Run(ctx); err != nil {
		log.Print(err)
	}
}
