package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/jobs/outbox/outboxpgx"
)

// The programs of docs/howto/enqueue-in-a-transaction.md.

// An Email is the input of a job.
type Email struct{ To, Text string }

// order stores an order and its email, or neither.
func order(ctx context.Context, pool *pgxpool.Pool, emails *outbox.Queue[Email], item, to string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (item) VALUES ($1)", item); err != nil {
			return err
		}
		_, err := emails.Enqueue(ctx, outbox.Pgx(tx), Email{To: to, Text: "Thank you for your order"}, outbox.EnqueueOptions{})
		return err
	})
}

// orderSQL is order with database/sql.
func orderSQL(ctx context.Context, db *sql.DB, emails *outbox.Queue[Email], item, to string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES ($1)", item); err != nil {
		return err
	}
	if _, err := emails.Enqueue(ctx, outbox.SQL(tx), Email{To: to, Text: "Thank you for your order"}, outbox.EnqueueOptions{}); err != nil {
		return err
	}
	return tx.Commit()
}

// relay creates the table, and submits its rows until ctx ends.
func relay(ctx context.Context, pool *pgxpool.Pool, store *jobs.Store) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := outbox.Migrate(ctx, db, outbox.MigrateOptions{}); err != nil {
		return err
	}
	table, err := outbox.NewTable(db, outbox.TableOptions{})
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(ctx, table, store, outbox.RelayOptions{
		Queues: map[string]jobs.QueueOptions{"emails": {}}, // the options of the workers' queue
		Listen: outboxpgx.Listen(pool.Config().ConnConfig),
	})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// retryParked lists the parked rows of a reason, and submits them again.
func retryParked(ctx context.Context, table *outbox.Table, reason outbox.Reason) error {
	rows, err := table.Parked(ctx, outbox.ParkedFilter{Reason: reason})
	if err != nil {
		return err
	}
	for _, row := range rows {
		fmt.Println(row.Queue, row.ID, row.Reason, row.Detail)
		if _, err := table.Retry(ctx, row.Seq); err != nil {
			return err
		}
	}
	return nil
}

func TestHowto(t *testing.T) {
	r := newRig(t)
	r.exec("CREATE TABLE orders (item text NOT NULL)")
	emails, err := outbox.NewQueue[Email]("emails", outbox.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan string, 2)
	q, err := jobs.NewQueue[Email, struct{}](t.Context(), r.store, "emails", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := q.Work(func(_ context.Context, j *jobs.Job[Email]) (none struct{}, err error) {
		sent <- j.Input.To
		return none, nil
	}, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		relay(ctx, r.pool, r.store)
	}()
	if err := order(t.Context(), r.pool, emails, "pen", "ann"); err != nil {
		t.Fatal(err)
	}
	if err := orderSQL(t.Context(), r.db, emails, "cup", "ben"); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{<-sent: true, <-sent: true}
	if !got["ann"] || !got["ben"] {
		t.Errorf("emails to %v; want to ann and ben", got)
	}
	if err := retryParked(t.Context(), r.table, outbox.ReasonConflict); err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
}
