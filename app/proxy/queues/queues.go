// Package queues keeps the status of the job queues for the console and the metrics.
package queues

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

const (
	// boardEvery is the interval between queries.
	boardEvery = 5 * time.Second
	// boardPatience bounds one query.
	boardPatience = 4 * time.Second
	// boardAge is the age at which a result is no longer used.
	boardAge = time.Minute
)

// A Keeper reports the queues of jobs: a jobs.Store, or a fake in tests.
type Keeper interface {
	Queues(ctx context.Context) ([]jobs.QueueStatus, error)
}

// A Board keeps the status of the job queues as of a few seconds ago, because a query
// is a call to the servers that store the jobs. Close it.
type Board struct {
	keeper Keeper
	logger *slog.Logger
	said   *rate.Limiter
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	queues []jobs.QueueStatus // guarded by mu; contents are not changed
	seen   time.Time          // guarded by mu; zero before the first time
}

// New returns a Board, which queries its Keeper immediately and then every few seconds
// until it is closed. Errors are logged, at most once a minute. With a nil Keeper there
// are no queues.
func New(k Keeper, l *slog.Logger) *Board {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Board{keeper: k, logger: plain.Logger(l), said: rate.NewLimiter(rate.Every(time.Minute), 1), stop: cancel, done: make(chan struct{})}
	if k == nil {
		close(b.done)
		return b
	}
	go b.watch(ctx)
	return b
}

// Queues returns the queues, sorted by name. It returns none if no query has succeeded
// for a minute. It never waits. The result must not be changed.
func (b *Board) Queues() []jobs.QueueStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.seen) > boardAge {
		return nil
	}
	return b.queues
}

// Close stops the queries and waits for the last one to end.
func (b *Board) Close() {
	b.stop()
	<-b.done
}

func (b *Board) watch(ctx context.Context) {
	defer close(b.done)
	tick := time.NewTicker(boardEvery)
	defer tick.Stop()
	for {
		b.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Board) look(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, boardPatience)
	defer cancel()
	all, err := b.keeper.Queues(asked)
	if err != nil {
		if ctx.Err() == nil && b.said.Allow() {
			b.logger.Warn("cannot read the status of the job queues", "error", err)
		}
		return
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b jobs.QueueStatus) int { return strings.Compare(a.Queue, b.Queue) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues, b.seen = all, time.Now()
}
