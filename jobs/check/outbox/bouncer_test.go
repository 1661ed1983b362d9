package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/pgtest"
	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/jobs/outbox/outboxpgx"
)

// Q7: programs and relays work through a PgBouncer with transaction pooling. It delivers
// no notifications, so that polling finds the rows, even if a Listener has been set that
// goes through it. Migrate works too.
func TestQ7_ThroughPgBouncer(t *testing.T) {
	r := newRig(t)
	through := pgtest.Bouncer(t, r.url)
	db := pgtest.Open(t, through)
	r.exec("DROP TABLE weir_outbox, weir_outbox_parked, weir_outbox_version")
	r.db = db
	r.migrate() // r.table uses it from here on
	pool, err := pgxpool.New(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r.target("q", jobs.QueueOptions{})
	r.relay(outbox.RelayOptions{})
	listener, err := pgx.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	// A second relay; its listener hears nothing, and the relay does not notice that.
	r.relay(outbox.RelayOptions{Listen: outboxpgx.Listen(listener), Poll: 200 * time.Millisecond})

	q := r.queue("q", outbox.QueueOptions{NotifyEvery: time.Nanosecond})
	const rows = 40
	r.pool = pool // enqueue uses it
	for range rows {
		r.enqueue(q, "in", outbox.EnqueueOptions{Delay: time.Millisecond})
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := q.Enqueue(t.Context(), outbox.SQL(tx), "in", outbox.EnqueueOptions{ID: "sql"}); err != nil {
		t.Fatalf("Enqueue = %v; want a row", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r.enqueue(q, "other", outbox.EnqueueOptions{ID: "sql"}) // parked
	r.parked(1)
	r.empty()
	if n := len(r.ids("q")); n != rows+1 {
		t.Errorf("%d jobs; want %d", n, rows+1)
	}
	if _, err := r.table.Backlog(context.Background()); err != nil {
		t.Errorf("Backlog = %v; want nil", err)
	}
}
