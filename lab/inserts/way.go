package inserts

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/batch"
)

// A way is one of the ways to insert single orders.
type way struct {
	name string
	open func(ctx context.Context, s setup) (inserter, error)
}

// ways are the ways that Run compares, in this order.
var ways = []way{
	{"single", openSingle},
	{"pool", openPool},
	{"batch", openBatch},
	{"copy", openCopy},
}

// A setup has the parameters of a way.
type setup struct {
	url         string
	callers     int
	connections int           // of the pool
	statements  *atomic.Int64 // counts statements sent to the server
}

// An inserter inserts orders in one way. All callers call insert concurrently, each
// one call at a time. The number is 0 if the way returns none.
type inserter interface {
	insert(ctx context.Context, caller int, o Order) (number int64, err error)
	close()
}

// single has a connection for every caller.
type single struct {
	setup
	conns []*pgx.Conn // each used by its caller alone
}

func openSingle(ctx context.Context, s setup) (inserter, error) {
	w := &single{setup: s, conns: make([]*pgx.Conn, s.callers)}
	for i := range w.conns {
		if err := w.connect(ctx, i); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *single) connect(ctx context.Context, caller int) error {
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return fmt.Errorf("inserts: connect caller %d: %w", caller, err)
	}
	w.conns[caller] = conn
	return nil
}

func (w *single) insert(ctx context.Context, caller int, o Order) (int64, error) {
	if w.conns[caller].IsClosed() { // a deadline in the middle of a statement closes the connection
		if err := w.connect(ctx, caller); err != nil {
			return 0, err
		}
	}
	w.statements.Add(1)
	return Insert(ctx, w.conns[caller], o)
}

func (w *single) close() {
	for _, c := range w.conns {
		if c != nil {
			closeConn(c)
		}
	}
}

// closeConn closes a connection cleanly, within a short time limit.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // nothing can be lost on it
}

// pooled has a pool for all callers.
type pooled struct {
	setup
	pool *pgxpool.Pool
}

func newPooled(ctx context.Context, s setup) (*pooled, error) {
	cfg, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(s.connections)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &pooled{s, pool}, nil
}

func openPool(ctx context.Context, s setup) (inserter, error) { return newPooled(ctx, s) }

func (w *pooled) insert(ctx context.Context, _ int, o Order) (int64, error) {
	w.statements.Add(1)
	return Insert(ctx, w.pool, o)
}

func (w *pooled) close() { w.pool.Close() }

// batched has a Batcher over the pool.
type batched struct {
	*pooled
	batcher *batch.Batcher[Order, int64]
}

// Batching are the options of the ways batch and copy: a batch has the orders that
// arrived while earlier batches were in flight, and does not wait for more.
var Batching = batch.Options{MaxSize: 256, MaxParallel: 2}

func openBatch(ctx context.Context, s setup) (inserter, error) {
	return newBatched(ctx, s, func(ctx context.Context, db DB, orders []Order) ([]int64, error) {
		return InsertAll(ctx, db, orders)
	})
}

func openCopy(ctx context.Context, s setup) (inserter, error) {
	return newBatched(ctx, s, func(ctx context.Context, db DB, orders []Order) ([]int64, error) {
		return make([]int64, len(orders)), CopyAll(ctx, db, orders)
	})
}

func newBatched(ctx context.Context, s setup, run func(context.Context, DB, []Order) ([]int64, error)) (inserter, error) {
	p, err := newPooled(ctx, s)
	if err != nil {
		return nil, err
	}
	b, err := batch.New(func(ctx context.Context, orders []Order) ([]int64, error) {
		s.statements.Add(1)
		return run(ctx, p.pool, orders)
	}, Batching)
	if err != nil {
		p.close()
		return nil, err
	}
	return &batched{p, b}, nil
}

func (w *batched) insert(ctx context.Context, _ int, o Order) (int64, error) {
	return w.batcher.Do(ctx, o)
}

func (w *batched) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = w.batcher.Close(ctx) // closing the pool waits for statements in flight
	w.pooled.close()
}
