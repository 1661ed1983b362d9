package show

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
	// boardEvery is from one look at the queues to the next.
	boardEvery = 5 * time.Second
	// boardPatience bounds one look.
	boardPatience = 4 * time.Second
	// boardAge is after how long what was seen is not told any more.
	boardAge = time.Minute
)

// A Keeper of jobs knows its queues: a jobs.Store, or a test's.
type Keeper interface {
	Queues(ctx context.Context) ([]jobs.QueueStatus, error)
}

// A Board has how the queues of jobs stood a few seconds ago, since to ask takes
// a call of the servers that keep them. Close it.
type Board struct {
	keeper Keeper
	logger *slog.Logger
	said   *rate.Limiter
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	queues []jobs.QueueStatus // guarded by mu; not altered
	seen   time.Time          // guarded by mu; zero before the first time
}

// NewBoard returns a Board, which looks at once and every few seconds from then
// on, until it is closed. What goes wrong is logged, once a minute at most. With
// a nil Keeper there is nothing to see.
func NewBoard(k Keeper, l *slog.Logger) *Board {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Board{keeper: k, logger: plain.Logger(l), said: rate.NewLimiter(rate.Every(time.Minute), 1), stop: cancel, done: make(chan struct{})}
	if k == nil {
		close(b.done)
		return b
	}
	go b.watch(ctx)
	return b
}

// Queues returns the queues by name. There are none if no server could be
// reached for a minute. It never waits, and what it returns must not be
// altered.
func (b *Board) Queues() []jobs.QueueStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.seen) > boardAge {
		return nil
	}
	return b.queues
}

// Close stops the looking and waits for its end.
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
			b.logger.Warn("how the queues of jobs stand cannot be learnt", "error", err)
		}
		return
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b jobs.QueueStatus) int { return strings.Compare(a.Queue, b.Queue) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues, b.seen = all, time.Now()
}
