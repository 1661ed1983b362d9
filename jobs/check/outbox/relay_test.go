package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/jobs/outbox/outboxpgx"
)

func (r *rig) listen() func(context.Context) (outbox.Listener, error) {
	r.Helper()
	config, err := pgx.ParseConfig(r.url)
	if err != nil {
		r.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "listener"
	return outboxpgx.Listen(config)
}

// The relay's polls are an hour apart: only the notification wakes it.
func TestQ7_ACommitWakesTheRelay(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	relay := r.relay(outbox.RelayOptions{Poll: time.Hour, MinPoll: time.Hour, Listen: r.listen()})
	r.eventually("the listener's first look", func() bool { return relay.Stats().Polled >= 1 && r.listeners() == 1 })
	q := r.queue("q", outbox.QueueOptions{NotifyEvery: time.Nanosecond})
	for n := range 3 {
		r.enqueue(q, "in", outbox.EnqueueOptions{})
		r.eventually("the job", func() bool { return relay.Stats().Submitted == uint64(n+1) })
	}
	// The connection is cut. The relay opens another, and looks at once.
	r.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listener'")
	r.eventually("trouble", func() bool { return relay.Stats().Trouble >= 1 })
	r.enqueue(q, "in", outbox.EnqueueOptions{})
	r.eventually("the job of the time without a listener", func() bool { return relay.Stats().Submitted == 4 })
	// A retried row wakes the relay too.
	r.exec(`WITH gone AS (DELETE FROM weir_outbox RETURNING 1)
		INSERT INTO weir_outbox_parked (seq, queue, id, input, version, serial, owner, fingerprint, enqueued_at, reason, detail)
		VALUES (1, 'q', 'x', '""', 0, '', '', '', now(), 'conflict', '')`)
	if _, err := r.table.Retry(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.eventually("the retried row's job", func() bool { return relay.Stats().Submitted == 5 })
}

// listeners returns the number of listening connections.
func (r *rig) listeners() int {
	return r.count("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'listener' AND datname = current_database() AND query LIKE 'LISTEN%'")
}

// Many transactions send few notifications, and all rows are found by polling.
func TestQ7_NotificationsAreRare(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	relay := r.relay(outbox.RelayOptions{Poll: time.Hour, MinPoll: 20 * time.Millisecond, Listen: r.listen()})
	r.eventually("the listener's first look", func() bool { return relay.Stats().Polled >= 1 && r.listeners() == 1 })
	q := r.queue("q", outbox.QueueOptions{NotifyEvery: time.Hour})
	for range 50 {
		r.enqueue(q, "in", outbox.EnqueueOptions{})
	}
	r.empty()
	if s := relay.Stats(); s.Notified != 1 || s.Submitted != 50 {
		t.Errorf("Stats = %+v; want one notification and 50 jobs", s)
	}
}

// Without a Listener, as through PgBouncer, the relay polls; Wake makes it look at once.
func TestQ7_WithoutAListenerTheRelayPolls(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	relay := r.relay(outbox.RelayOptions{Poll: 30 * time.Millisecond})
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	r.empty()
	if err := relay.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow := r.relay(outbox.RelayOptions{Poll: time.Hour, MinPoll: time.Hour})
	r.eventually("the first look", func() bool { return slow.Stats().Polled >= 1 })
	r.enqueue(r.jobs, "in", outbox.EnqueueOptions{})
	slow.Wake("q")
	r.empty()
}

func TestQ9_MigrateCanRunTwiceAtOnce(t *testing.T) {
	r := newRig(t)
	r.exec("CREATE SCHEMA tenant")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := outbox.Migrate(t.Context(), r.db, outbox.MigrateOptions{Schema: "tenant"}); err != nil {
				t.Errorf("Migrate = %v; want nil", err)
			}
		})
	}
	wg.Wait()
	if n := r.count("SELECT count(*) FROM tenant.weir_outbox_version"); n != 1 {
		t.Errorf("%d versions recorded; want 1", n)
	}
	// Each schema has a separate outbox.
	table, err := outbox.NewTable(r.db, outbox.TableOptions{Schema: "tenant"})
	if err != nil {
		t.Fatal(err)
	}
	r.table = table
	r.enqueue(r.queue("q", outbox.QueueOptions{Schema: "tenant"}), "in", outbox.EnqueueOptions{ID: "a", Owner: "ann"})
	if n := r.count("SELECT count(*) FROM tenant.weir_outbox"); n != 1 {
		t.Errorf("%d rows in the schema; want 1", n)
	}
	relay := r.relay(outbox.RelayOptions{})
	r.eventually("the job", func() bool { return relay.Stats().Submitted == 1 })
}

func TestQ9_ARelayNeedsTheTable(t *testing.T) {
	r := newRig(t)
	r.exec("CREATE SCHEMA bare")
	table, err := outbox.NewTable(r.db, outbox.TableOptions{Schema: "bare"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = outbox.NewRelay(t.Context(), table, r.store, outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": {}}})
	if !errors.Is(err, outbox.ErrNotMigrated) {
		t.Errorf("NewRelay = %v; want ErrNotMigrated", err)
	}
}

func TestQ8_BadOptionsAreNamedAtOnce(t *testing.T) {
	r := newRig(t)
	_, err := outbox.NewRelay(t.Context(), r.table, r.store, outbox.RelayOptions{
		Poll: -1, MinPoll: -1, Batch: -1, MaxBatchBytes: -1, Parallel: -1, Lease: -1, MaxTries: -1, UnknownAfter: 1})
	if !faulty(err, "RelayOptions.Queues", "RelayOptions.Poll", "RelayOptions.MinPoll", "RelayOptions.Batch", "RelayOptions.MaxBatchBytes",
		"RelayOptions.Parallel", "RelayOptions.Lease", "RelayOptions.MaxTries", "RelayOptions.UnknownAfter") {
		t.Errorf("NewRelay = %v; want all faults", err)
	}
	_, err = outbox.NewQueue[string]("a b", outbox.QueueOptions{Schema: `a"b`, Version: -1, MaxInput: -1, NotifyEvery: 2 * time.Hour})
	if !faulty(err, "queue", "QueueOptions.Schema", "QueueOptions.Version", "QueueOptions.MaxInput", "QueueOptions.NotifyEvery") {
		t.Errorf("NewQueue = %v; want all faults", err)
	}
	long := strings.Repeat("x", jobs.MaxKey+1)
	_, err = r.jobs.Enqueue(t.Context(), outbox.SQL(r.db), "in", outbox.EnqueueOptions{ID: long, Serial: long, Owner: "a\x00", Fingerprint: "\xff", Delay: -1, Deadline: -2})
	if !faulty(err, "EnqueueOptions.ID", "EnqueueOptions.Serial", "EnqueueOptions.Owner", "EnqueueOptions.Fingerprint", "EnqueueOptions.Delay", "EnqueueOptions.Deadline") {
		t.Errorf("Enqueue = %v; want all faults", err)
	}
	// A claim that lasts as long as the queue remembers would make each retry doubtful.
	_, err = outbox.NewRelay(t.Context(), r.table, r.store, outbox.RelayOptions{
		Queues: map[string]jobs.QueueOptions{"q": {ResultTTL: jobs.None}}, Lease: time.Minute})
	if !faulty(err, "RelayOptions.Lease") {
		t.Errorf("NewRelay = %v; want the lease refused", err)
	}
	if _, err := outbox.NewTable(r.db, outbox.TableOptions{Schema: "1"}); !faulty(err, "TableOptions.Schema") {
		t.Errorf("NewTable = %v; want the schema refused", err)
	}
}

func TestQ8_AnInputThatIsTooLargeIsRefused(t *testing.T) {
	r := newRig(t)
	q := r.queue("q", outbox.QueueOptions{MaxInput: 10})
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := q.Enqueue(t.Context(), outbox.Pgx(tx), "much too large", outbox.EnqueueOptions{}); !errors.Is(err, jobs.ErrTooLarge) {
		t.Errorf("Enqueue = %v; want ErrTooLarge", err)
	}
	if _, err := q.Enqueue(t.Context(), outbox.Pgx(tx), "small", outbox.EnqueueOptions{}); err != nil {
		t.Errorf("Enqueue after a refusal = %v; want the transaction usable", err)
	}
}

// The transactions of database/sql and of pgx, and pgx without prepared statements, as
// PgBouncer requires.
func TestQ1_EveryKindOfTransaction(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	o := outbox.EnqueueOptions{Delay: time.Hour, Deadline: 2 * time.Hour, Serial: "s", Owner: "o", Fingerprint: "f"}
	q := r.queue("q", outbox.QueueOptions{NotifyEvery: time.Nanosecond})
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		config, err := pgxpool.ParseConfig(r.url)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []outbox.EnqueueOptions{{}, o} {
			if _, err := q.Enqueue(t.Context(), outbox.Pgx(pool), "in", o); err != nil {
				t.Errorf("Enqueue in mode %v = %v; want a row", mode, err)
			}
		}
		pool.Close()
	}
	for _, o := range []outbox.EnqueueOptions{{}, o} {
		if _, err := q.Enqueue(t.Context(), outbox.SQL(r.db), "in", o); err != nil {
			t.Errorf("Enqueue with database/sql = %v; want a row", err)
		}
	}
	relay := r.relay(outbox.RelayOptions{})
	r.empty()
	if s := relay.Stats(); s.Submitted != 8 {
		t.Errorf("Stats = %+v; want 8 submitted", s)
	}
}

func TestQ12_CloseEndsRunAndReleasesRows(t *testing.T) {
	r := newRig(t)
	r.target("q", jobs.QueueOptions{})
	for version := range 2 { // two writes
		q := r.queue("q", outbox.QueueOptions{NotifyEvery: -1, Version: version})
		for range 20 {
			r.enqueue(q, "in", outbox.EnqueueOptions{})
		}
	}
	held, release := make(chan struct{}), make(chan struct{})
	relay := r.newRelay(outbox.RelayOptions{Parallel: 1, Observer: blocking{held: held, release: release}})
	before := runtime.NumGoroutine()
	done := make(chan error, 1)
	go func() { done <- relay.Run(context.Background()) }()
	<-held // the first rows are submitted
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := relay.Close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Close with an ended context = %v; want its cause", err)
	}
	close(release)
	if err := relay.Close(t.Context()); err != nil {
		t.Errorf("Close = %v; want nil", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run = %v; want nil after Close", err)
	}
	if err := relay.Run(t.Context()); !errors.Is(err, outbox.ErrClosed) {
		t.Errorf("Run after Close = %v; want ErrClosed", err)
	}
	jobs := len(r.ids("q"))
	free := r.count("SELECT count(*) FROM weir_outbox WHERE claim IS NULL AND tried_at IS NULL")
	if jobs != 20 || free != 20 {
		t.Errorf("%d jobs and %d free rows; want 20 of the first write, and the others free", jobs, free)
	}
	r.eventually(fmt.Sprintf("at most %d goroutines", before), func() bool { return runtime.NumGoroutine() <= before+20 })
}

func TestQ12_RunEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	relay := r.newRelay(outbox.RelayOptions{})
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := relay.Run(ctx); !errors.Is(err, cause) {
		t.Errorf("Run = %v; want the context's cause", err)
	}
	if err := relay.Run(t.Context()); !errors.Is(err, outbox.ErrRunning) {
		t.Errorf("Run, called again, %v; want ErrRunning", err)
	}
	if err := relay.Close(t.Context()); err != nil {
		t.Errorf("Close = %v; want nil", err)
	}
}

func TestQ3_AdviceNamesQueuesThatForget(t *testing.T) {
	r := newRig(t)
	relay := r.newRelay(outbox.RelayOptions{Queues: map[string]jobs.QueueOptions{"q": {}, "events": {ResultTTL: jobs.None}}})
	if a := relay.Advice(); len(a) != 1 || !strings.Contains(a[0], `"events"`) || !strings.Contains(a[0], "31s") {
		t.Errorf("Advice = %q; want one about events, with 31s", a)
	}
}
