// Package outbox_test checks package outbox against its contract (docs/goals.md, Q1 and
// on) with a real PostgreSQL and a real server of jobs.
package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
	"github.com/weir-go/weir/jobs/check/internal/pgtest"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/outbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(relayVariable) != "" {
		relayProcess()
		return
	}
	natstest.Main(m)
}

// patience is how long a test waits for something that must happen.
const patience = 30 * time.Second

// A rig is a database with the table, and a server of jobs.
type rig struct {
	*testing.T
	url   string
	nc    *nats.Conn
	db    *sql.DB
	pool  *pgxpool.Pool
	store *jobs.Store
	table *outbox.Table
	jobs  *outbox.Queue[string]
}

// newRig returns a rig whose outbox.Queue sends no notifications.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{T: t, url: pgtest.Database(t)}
	r.db = pgtest.Open(t, r.url)
	r.migrate()
	var err error
	if r.pool, err = pgxpool.New(t.Context(), r.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(context.Background()) })
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r.nc, r.store = nc, openStore(t, nc)
	r.jobs = r.queue("q", outbox.QueueOptions{NotifyEvery: -1})
	return r
}

func openStore(t *testing.T, nc *nats.Conn) *jobs.Store {
	t.Helper()
	s, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{MaxBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func (r *rig) migrate() {
	r.Helper()
	if err := outbox.Migrate(r.Context(), r.db, outbox.MigrateOptions{}); err != nil {
		r.Fatal(err)
	}
	var err error
	if r.table, err = outbox.NewTable(r.db, outbox.TableOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) queue(name string, o outbox.QueueOptions) *outbox.Queue[string] {
	r.Helper()
	q, err := outbox.NewQueue[string](name, o)
	if err != nil {
		r.Fatal(err)
	}
	return q
}

// target returns the jobs.Queue that a relay submits to.
func (r *rig) target(name string, o jobs.QueueOptions) *jobs.Queue[string, string] {
	r.Helper()
	q, err := jobs.NewQueue[string, string](r.Context(), r.store, name, o)
	if err != nil {
		r.Fatal(err)
	}
	return q
}

// enqueue commits one row in its own transaction.
func (r *rig) enqueue(q *outbox.Queue[string], in string, o outbox.EnqueueOptions) string {
	r.Helper()
	tx, err := r.pool.Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	id, err := q.Enqueue(r.Context(), outbox.Pgx(tx), in, o)
	if err != nil {
		r.Fatalf("Enqueue = %v; want a row", err)
	}
	if err := tx.Commit(r.Context()); err != nil {
		r.Fatal(err)
	}
	return id
}

// relay returns a running relay of queue q, unless o has other queues.
func (r *rig) relay(o outbox.RelayOptions) *outbox.Relay {
	r.Helper()
	relay := r.newRelay(o)
	done := make(chan error, 1)
	go func() { done <- relay.Run(context.Background()) }()
	r.Cleanup(func() {
		if err := relay.Close(context.Background()); err != nil {
			r.Errorf("Close = %v; want nil", err)
		}
		if err := <-done; err != nil {
			r.Errorf("Run = %v after Close; want nil", err)
		}
	})
	return relay
}

func (r *rig) newRelay(o outbox.RelayOptions) *outbox.Relay {
	r.Helper()
	if o.Queues == nil {
		o.Queues = map[string]jobs.QueueOptions{"q": {}}
	}
	if o.Poll == 0 {
		o.Poll = 50 * time.Millisecond
	}
	relay, err := outbox.NewRelay(r.Context(), r.table, r.store, o)
	if err != nil {
		r.Fatalf("NewRelay = %v; want a relay", err)
	}
	return relay
}

// exec runs a statement.
func (r *rig) exec(query string, args ...any) {
	r.Helper()
	if _, err := r.pool.Exec(r.Context(), query, args...); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
}

// count returns the number that a query returns.
func (r *rig) count(query string, args ...any) (n int) {
	r.Helper()
	if err := r.pool.QueryRow(r.Context(), query, args...).Scan(&n); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
	return n
}

// eventually waits until ok returns true.
func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			r.Fatalf("after %v there is still not: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// empty waits until the table has no rows.
func (r *rig) empty() {
	r.Helper()
	r.eventually("an empty table", func() bool { return r.count("SELECT count(*) FROM weir_outbox") == 0 })
}

// ids returns the keys of all jobs of a queue, sorted.
func (r *rig) ids(queue string) []string {
	r.Helper()
	all, err := r.store.List(r.Context(), jobs.Filter{Queue: queue, Limit: 100_000})
	if err != nil {
		r.Fatal(err)
	}
	var keys []string
	for _, s := range all {
		keys = append(keys, s.Key)
	}
	slices.Sort(keys)
	return keys
}

// parked waits for n parked rows.
func (r *rig) parked(n int) (rows []outbox.ParkedRow) {
	r.Helper()
	r.eventually(fmt.Sprintf("%d parked rows", n), func() bool {
		var err error
		if rows, err = r.table.Parked(r.Context(), outbox.ParkedFilter{}); err != nil {
			r.Fatal(err)
		}
		return len(rows) == n
	})
	return rows
}

// A recorder is an Observer that keeps the events.
type recorder struct {
	outbox.NopObserver
	mu     sync.Mutex
	events []outbox.Event // guarded by mu
}

func (o *recorder) Event(_ context.Context, e outbox.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *recorder) of(kind outbox.EventKind) (found []outbox.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// A ledger notes the runs of jobs. One job has one time of submission, however often its
// handler is called.
type ledger struct {
	mu    sync.Mutex
	lives map[string]map[time.Time]bool // guarded by mu; by key
	input map[string]string             // guarded by mu
}

func (l *ledger) handle(_ context.Context, j *jobs.Job[string]) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lives == nil {
		l.lives, l.input = map[string]map[time.Time]bool{}, map[string]string{}
	}
	if l.lives[j.Key] == nil {
		l.lives[j.Key] = map[time.Time]bool{}
	}
	l.lives[j.Key][j.Submitted] = true
	l.input[j.Key] = j.Input
	return j.Input, nil
}

// of returns how many jobs a key had.
func (l *ledger) of(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lives[key])
}

// work runs the jobs of a queue until the test ends.
func (r *rig) work(q *jobs.Queue[string, string], handle jobs.Handler[string, string]) *jobs.Worker {
	r.Helper()
	w, err := q.Work(handle, jobs.WorkerOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { w.Close(context.Background()) })
	return w
}

// faulty reports whether err has a fault of each of the fields, and no other.
func faulty(err error, fields ...string) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	var have []string
	if ok {
		for _, err := range joined.Unwrap() {
			var fault *outbox.OptionError
			if errors.As(err, &fault) {
				have = append(have, fault.Field)
			}
		}
	}
	slices.Sort(have)
	slices.Sort(fields)
	return slices.Equal(have, fields)
}
