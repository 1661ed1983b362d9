package inserts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/lab/inserts"
	"github.com/weir-go/weir/lab/internal/pgtest"
)

// A fault is injected into a bulk call.
type fault int

const (
	none   fault = iota
	before       // it fails, and nothing was sent
	after        // it is committed, but its response is lost
	killed       // its backend is terminated: before, during or after it
	slow         // it outlasts the Batcher's timeout
	nFaults
)

var (
	errBefore = errors.New("injected, before anything was sent")
	errAfter  = errors.New("injected, after the commit")
)

const (
	callers       = 24
	ordersEach    = 10
	batchTimeout  = 50 * time.Millisecond // at first; see TestBatchesUnderFaults
	callerRetries = 20
)

// A table is the orders table of one test, in its own schema.
type table struct {
	t     *testing.T
	url   string
	admin *pgxpool.Pool // of the test itself; its backends are not killed
}

// newTable creates the table, with a trigger that delays a statement's commit by the
// time in weir.sleep, in seconds.
func newTable(t *testing.T) *table {
	t.Helper()
	tab := &table{t: t, url: pgtest.Schema(t)}
	tab.admin = tab.newPool("weir-test-admin")
	if err := inserts.Create(t.Context(), tab.admin); err != nil {
		t.Fatal(err)
	}
	tab.exec(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(coalesce(nullif(current_setting('weir.sleep', true), ''), '0')::float8);
		RETURN NULL;
	END $$`)
	tab.exec(`CREATE TRIGGER hold AFTER INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION hold()`)
	return tab
}

// newPool returns a pool whose connections have that application name on the server.
func (tab *table) newPool(name string) *pgxpool.Pool {
	tab.t.Helper()
	cfg, err := pgxpool.ParseConfig(tab.url)
	if err != nil {
		tab.t.Fatal(err)
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	pool, err := pgxpool.NewWithConfig(tab.t.Context(), cfg)
	if err != nil {
		tab.t.Fatal(err)
	}
	tab.t.Cleanup(pool.Close)
	return pool
}

func (tab *table) exec(sql string, args ...any) {
	tab.t.Helper()
	if _, err := tab.admin.Exec(tab.t.Context(), sql, args...); err != nil {
		tab.t.Fatalf("%s: %v", sql, err)
	}
}

// settled closes the pool and waits until the server has ended all its sessions: a
// session can go on, and commit, after its client has left.
func (tab *table) settled(pool *pgxpool.Pool) {
	tab.t.Helper()
	pool.Close()
	name := pool.Config().ConnConfig.RuntimeParams["application_name"]
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var n int
		err := tab.admin.QueryRow(tab.t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, name).Scan(&n)
		if err != nil {
			tab.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
	tab.t.Fatal("sessions do not end")
}

// A breaker injects faults between a Batcher and the table.
type breaker struct {
	*table
	pool    *pgxpool.Pool
	timeout time.Duration // of the Batcher

	mu        sync.Mutex
	rng       *rand.Rand     // guarded by mu
	injected  [nFaults]int   // guarded by mu
	committed map[int64]bool // guarded by mu; orders whose first response was lost after the commit
	resent    int            // guarded by mu; how often such an order was sent again
}

func newBreaker(tab *table, seed uint64, timeout time.Duration) *breaker {
	return &breaker{
		table:     tab,
		timeout:   timeout,
		pool:      tab.newPool(fmt.Sprintf("%s, seed %d", tab.t.Name(), seed)),
		rng:       rand.New(rand.NewPCG(seed, 1)),
		committed: make(map[int64]bool),
	}
}

// run is the Batcher's bulk call.
func (b *breaker) run(ctx context.Context, orders []inserts.Order) ([]int64, error) {
	f, hold, kill := b.draw(orders)
	if f == before {
		return nil, errBefore
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `SELECT set_config('weir.sleep', $1, false)`, fmt.Sprint(hold.Seconds())); err != nil {
		return nil, err
	}
	if f == killed {
		pid := conn.Conn().PgConn().PID()
		done := make(chan struct{})
		defer func() { <-done }() // so that it does not kill another call's statement
		go func() {
			defer close(done)
			time.Sleep(kill)
			_, _ = b.admin.Exec(context.Background(), `SELECT pg_terminate_backend($1)`, pid)
		}()
	}
	numbers, err := inserts.InsertAll(ctx, conn, orders)
	if f == after && err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, o := range orders {
			b.committed[o.ID] = true
		}
		return nil, errAfter
	}
	return numbers, err
}

// draw chooses a fault, the delay of the statement's commit, and the time after which
// its backend is killed.
func (b *breaker) draw(orders []inserts.Order) (f fault, hold, kill time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range orders {
		if b.committed[o.ID] {
			b.resent++
		}
	}
	switch n := b.rng.IntN(32); {
	case n < 2:
		f = before
	case n < 5:
		f = after
	case n < 8:
		f = killed
	case n < 9:
		f = slow
	}
	b.injected[f]++
	hold = upTo(b.rng, 3*time.Millisecond)
	if f == slow {
		hold = b.timeout + upTo(b.rng, 10*time.Millisecond)
	}
	return f, hold, upTo(b.rng, 8*time.Millisecond)
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// refused reports whether the table's constraint on cents was violated.
func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.ConstraintName == "orders_cents"
}

// outcomeOf is inserts.OutcomeOf for injected faults. It also allows for the fact
// that an error of the last try says nothing about earlier tries. bad means that the
// order itself violates the constraint.
func outcomeOf(ctx context.Context, err error, bad, once bool) inserts.Outcome {
	switch {
	case bad && refused(err):
		return inserts.Absent // no try can store it
	case errors.Is(err, errAfter):
		return inserts.Unknown
	case errors.Is(err, errBefore):
		if once {
			return inserts.Absent
		}
		return inserts.Unknown
	}
	o := inserts.OutcomeOf(ctx, err)
	if o == inserts.Absent && !once {
		return inserts.Unknown
	}
	return o
}

// A caller inserts its orders one after another.
type caller struct {
	id       int
	batcher  *batch.Batcher[inserts.Order, int64]
	rng      *rand.Rand
	ledger   *inserts.Ledger
	isolates bool // bad rows are isolated, so a good one must not be refused
	retries  bool // the Batcher may resend a committed order
}

func (c *caller) work(t *testing.T) {
	for n := range ordersEach {
		o := inserts.NewOrder(int64(c.id*ordersEach + n))
		bad := c.rng.IntN(30) == 0
		if bad {
			o.Cents = -o.Cents // violates orders_cents
		}
		number, outcome := c.insert(t, o, bad)
		c.ledger.Tell(c.id, o.ID, number, outcome)
	}
}

// insert inserts one order. While the outcome is unknown, it usually sends the order
// again.
func (c *caller) insert(t *testing.T, o inserts.Order, bad bool) (number int64, outcome inserts.Outcome) {
	once := !c.retries
	for range callerRetries {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if c.rng.IntN(8) == 0 {
			ctx, cancel = context.WithTimeout(ctx, upTo(c.rng, 6*time.Millisecond))
		}
		number, err := c.batcher.Do(ctx, o)
		outcome = outcomeOf(ctx, err, bad, once)
		cancel()
		if c.isolates && !bad && inserts.BadRow(err) {
			t.Errorf("order %d is good, and was refused: %v", o.ID, err)
		}
		if outcome == inserts.Stored && number == 0 {
			t.Errorf("order %d is stored, and its caller got no number", o.ID)
		}
		if outcome != inserts.Unknown || c.rng.IntN(3) == 0 {
			return number, outcome
		}
		once = false
	}
	return 0, outcome
}

// No row is lost or duplicated, whichever bulk calls and callers fail.
//
// On a machine that is busy with other work, all calls of a round can outlast the
// Batcher's timeout, and then no outcome is known. Further rounds have longer ones.
func TestBatchesUnderFaults(t *testing.T) {
	const seeds, most = 5, 12
	bad := func(err error) bool { return inserts.BadRow(err) }
	modes := []struct {
		name    string
		retry   func(error) bool
		options batch.Options
	}{
		{"fail as a whole", nil, batch.Options{}},
		{"retry bad rows", bad, batch.Options{RetrySingly: true}},
		{"retry everything", nil, batch.Options{RetrySingly: true}},
	}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.options.MaxSize, m.options.MaxParallel = 16, 4
			tab := newTable(t)
			var sum tally
			timeout := batchTimeout
			for seed := uint64(0); seed < seeds || seed < most && !sum.complete(); seed++ {
				if seed >= seeds {
					timeout *= 2
				}
				m.options.Timeout = timeout
				tab.exec(`TRUNCATE orders`)
				b := newBreaker(tab, seed, timeout)
				batcher, err := batch.NewFrom(batch.Source[inserts.Order, int64]{Run: b.run, Retry: m.retry}, m.options)
				if err != nil {
					t.Fatal(err)
				}
				v := round(t, b, batcher, seed, m.options.RetrySingly, m.options.RetrySingly && m.retry == nil)
				if err := v.Err(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				sum.add(b, v)
			}
			sum.check(t)
		})
	}
}

// round runs all callers, and compares the table with their results.
func round(t *testing.T, br *breaker, b *batch.Batcher[inserts.Order, int64], seed uint64, isolates, retries bool) inserts.Verdict {
	t.Helper()
	ledger := inserts.NewLedger(callers)
	var all sync.WaitGroup
	for id := range callers {
		c := &caller{id: id, batcher: b, rng: rand.New(rand.NewPCG(seed, uint64(id+2))), ledger: ledger, isolates: isolates, retries: retries}
		all.Go(func() { c.work(t) })
	}
	all.Wait()
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	br.settled(br.pool)
	v, err := ledger.Compare(t.Context(), br.admin)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A tally counts the events of all rounds. The test proves something only if each has
// occurred.
type tally struct {
	verdict  inserts.Verdict
	injected [nFaults]int
	resent   int
}

func (s *tally) add(b *breaker, v inserts.Verdict) {
	for f, n := range b.injected {
		s.injected[f] += n
	}
	s.resent += b.resent
	s.verdict.Add(v)
}

func (s *tally) check(t *testing.T) {
	t.Helper()
	t.Logf("%d stored, %d absent, %d unknown of which %d stored; calls by fault %v; %d orders sent again after their commit",
		s.verdict.Stored, s.verdict.Absent, s.verdict.Unknown, s.verdict.UnknownStored, s.injected, s.resent)
	for f, n := range s.injected {
		if n == 0 {
			t.Errorf("fault %d was never injected", f)
		}
	}
	if !s.complete() {
		t.Error("an outcome that the test needs did not occur")
	}
}

// complete reports whether each outcome has occurred.
func (s *tally) complete() bool {
	v := s.verdict
	return v.Stored > 0 && v.Absent > 0 && v.UnknownStored > 0 && v.UnknownStored < v.Unknown && s.resent > 0
}

// One bad row in a batch fails alone: RetrySingly resends the others, and all of them
// are stored once.
func TestBadRowFailsAlone(t *testing.T) {
	const rows, bad = 40, 17
	tab := newTable(t)
	var sizes []int // written by one bulk call at a time
	b, err := batch.NewFrom(batch.Source[inserts.Order, int64]{
		Run: func(ctx context.Context, orders []inserts.Order) ([]int64, error) {
			sizes = append(sizes, len(orders))
			return inserts.InsertAll(ctx, tab.admin, orders)
		},
		Retry: inserts.BadRow,
	}, batch.Options{MaxSize: rows, MaxParallel: 1, Linger: time.Minute, RetrySingly: true}) // it is sent when it is full
	if err != nil {
		t.Fatal(err)
	}
	ledger := inserts.NewLedger(rows)
	var all sync.WaitGroup
	for id := range rows {
		all.Go(func() {
			o := inserts.NewOrder(int64(id))
			if id == bad {
				o.Cents = 0
			}
			number, err := b.Do(t.Context(), o)
			if got := refused(err); got != (id == bad) || !got && err != nil {
				t.Errorf("Do(order %d) = %d, %v; want the constraint's error for %d alone", id, number, err, bad)
			}
			ledger.Tell(id, o.ID, number, inserts.OutcomeOf(t.Context(), err))
		})
	}
	all.Wait()
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(sizes) != 1+rows || sizes[0] != rows {
		t.Errorf("bulk calls of sizes %v; want one of %d, and then %d of 1", sizes, rows, rows)
	}
	v, err := ledger.Compare(t.Context(), tab.admin)
	if want := (inserts.Verdict{Stored: rows - 1, Absent: 1}); v != want || err != nil {
		t.Errorf("Compare = %+v, %v; want %+v", v, err, want)
	}
}
