package outbox_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/natstest"
	"github.com/weir-go/weir/jobs/check/internal/pgtest"
	"github.com/weir-go/weir/jobs/outbox"
)

var (
	historySeed  = flag.Uint64("outbox.seed", 0, "seed of the outbox's history test; 0: random")
	historySteps = flag.Int("outbox.steps", 14, "number of faults in the outbox's history test")
)

// A fate is what the model knows about a transaction's rows.
type fate uint8

const (
	rolledBack fate = iota // certainly: COMMIT was never sent
	uncertain              // COMMIT was sent, and failed
	committed              // COMMIT returned
)

// A history is a run of transactions, with the model: the fate of each row, and the
// business table, to which each transaction adds the IDs of its rows. The table is what
// PostgreSQL itself says about which transactions exist, after crashes and a restore.
type history struct {
	*testing.T
	pg     *pgtest.Server
	nats   *natstest.Server
	pool   *pgxpool.Pool
	queue  *outbox.Queue[string]
	relays *relays
	book   ledger

	mu    sync.Mutex
	fates map[string]fate // guarded by mu
}

// Relays, the server of the jobs and PostgreSQL are killed at random, and PostgreSQL is
// restored to an earlier point, while transactions commit and roll back. Each row that
// exists in PostgreSQL's history became exactly one job. A row that was rolled back
// became none. A row that the restore took back became one or none. (Q1, Q2, Q3, Q11)
func TestQ3_EveryCommittedRowIsOneJobWhateverIsKilled(t *testing.T) {
	seed := *historySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-outbox.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	h := newHistory(t)
	var stop atomic.Bool
	var writers sync.WaitGroup
	for i := range 4 {
		own := rand.New(rand.NewPCG(seed, uint64(i+2)))
		writers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				h.transaction(own, fmt.Sprintf("w%d-%d", i, n))
				<-time.After(time.Duration(own.IntN(5)) * time.Millisecond)
			}
		})
	}
	steps := *historySteps
	for step := range steps {
		<-time.After(time.Duration(100+random.IntN(400)) * time.Millisecond)
		switch what := random.IntN(6); {
		case step == steps/3:
			h.pg.Snapshot()
		case step == 2*steps/3:
			h.pg.Restore()
		case what < 2:
			h.relays.kill(random.IntN(2))
		case what < 4:
			h.nats.Restart()
		default:
			h.pg.Restart()
		}
	}
	stop.Store(true)
	writers.Wait()
	h.judge()
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{T: t, pg: pgtest.Start(t), nats: natstest.Start(t, natstest.Options{}), fates: map[string]fate{}}
	if err := outbox.Migrate(t.Context(), pgtest.Open(t, h.pg.URL()), outbox.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(h.pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	if h.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.pool.Close)
	if _, err := h.pool.Exec(t.Context(), "CREATE TABLE business (id text PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if h.queue, err = outbox.NewQueue[string]("q", outbox.QueueOptions{NotifyEvery: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(h.nats.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	store := openStore(t, nc)
	q, err := jobs.NewQueue[string, string](t.Context(), store, "q", historyQueue)
	if err != nil {
		t.Fatal(err)
	}
	worker, err := q.Work(h.book.handle, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { worker.Close(context.Background()) })
	h.relays = startRelays(t, 2, relayTask{Postgres: h.pg.URL(), NATS: h.nats.URL(), Crash: 60})
	return h
}

// transaction enqueues up to three rows, and commits or rolls back. Some of the rows
// have an ID that was used before.
func (h *history) transaction(random *rand.Rand, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tx, err := h.pool.Begin(ctx)
	if err != nil {
		return // PostgreSQL is away
	}
	defer tx.Rollback(context.Background())
	var ids []string
	for n := range 1 + random.IntN(3) {
		id := fmt.Sprintf("%s-%d", name, n)
		ids = append(ids, id)
		h.note(id, rolledBack)
		for range 1 + random.IntN(2) { // two rows with one ID are one job
			if _, err := h.queue.Enqueue(ctx, outbox.Pgx(tx), id, outbox.EnqueueOptions{ID: id}); err != nil {
				return
			}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO business VALUES ($1)", id); err != nil {
			return
		}
	}
	if random.IntN(4) == 0 {
		return
	}
	f := committed
	for _, id := range ids {
		h.note(id, uncertain)
	}
	if err := tx.Commit(ctx); err != nil {
		f = uncertain
	}
	for _, id := range ids {
		h.note(id, f)
	}
}

func (h *history) note(id string, f fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fates[id] = f
}

// judge waits until all rows are relayed and their jobs done, and compares with the
// model.
func (h *history) judge() {
	h.Helper()
	r := &rig{T: h.T, pool: h.pool}
	r.eventually("PostgreSQL", func() bool { return h.pool.Ping(h.Context()) == nil })
	r.empty()
	if n := r.count("SELECT count(*) FROM weir_outbox_parked"); n > 0 {
		h.Errorf("%d rows are parked; want none", n)
	}
	rows, err := h.pool.Query(h.Context(), "SELECT id FROM business")
	if err != nil {
		h.Fatal(err)
	}
	exist, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.Fatal(err)
	}
	for _, id := range exist {
		r.eventually("a job of row "+id, func() bool { return h.book.of(id) > 0 })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	there := map[string]bool{}
	for _, id := range exist {
		there[id] = true
		if h.fates[id] == rolledBack {
			h.Errorf("row %s exists, and was rolled back", id)
		}
	}
	var taken int
	for _, id := range slices.Sorted(maps.Keys(h.fates)) {
		n := h.book.of(id)
		switch {
		case there[id] && n != 1:
			h.Errorf("committed row %s was %d jobs; want one", id, n)
		case h.fates[id] == rolledBack && n != 0:
			h.Errorf("row %s was rolled back, and was %d jobs", id, n)
		case n > 1:
			h.Errorf("row %s, which the restore took back, was %d jobs; want at most one", id, n)
		}
		if h.fates[id] == committed && !there[id] {
			taken++
		}
	}
	crashes, known := h.relays.printed("crash"), h.relays.printed("known")
	h.Logf("%d rows with an ID, %d committed, %d taken back by the restore; %d crashes before the deletion, %d rows known",
		len(h.fates), len(exist), taken, crashes, known)
	if len(exist) < 100 || taken == 0 || crashes == 0 || known == 0 {
		h.Error("the run was too short: it must have 100 committed rows, some taken back, crashes, and known rows")
	}
}
