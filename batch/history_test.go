package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// TestHistory runs many callers on a few scopes and checks invariants that hold for any
// history. All times are whole milliseconds, so that many events fall on the same
// instant and race.
func TestHistory(t *testing.T) {
	for seed := range histories.Seeds(t, 100, 1500) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newHistory(t, seed).play() })
		})
	}
}

// A history is one run of the test.
type history struct {
	*testing.T
	seed  uint64
	o     batch.Options
	b     *batch.Batcher[thing, outcome]
	limit *limit.Concurrency

	closing bool // closes the Batcher in the middle

	mu      sync.Mutex
	rng     *rand.Rand  // guarded by mu
	running int         // guarded by mu: bulk calls
	runs    map[int]int // guarded by mu: how often an item was run
}

type thing struct{ id, scope int }

type outcome struct{ id int }

// An itemError is the error of one item.
type itemError struct{ id int }

func (e itemError) Error() string { return fmt.Sprint("item ", e.id) }

var errWhole = errors.New("the whole call failed")

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), runs: make(map[int]int)}
	h.o = batch.Options{
		MaxSize:     1 + h.rng.IntN(6),
		Linger:      time.Duration(h.rng.IntN(4)) * ms,
		MaxParallel: 1 + h.rng.IntN(3),
		MaxPending:  []int{0, 12}[h.rng.IntN(2)],
		Timeout:     []time.Duration{-1, 20 * ms, 6 * ms}[h.rng.IntN(3)],
		RetrySingly: h.rng.IntN(2) == 0,
	}
	h.closing = h.rng.IntN(3) == 0
	if h.rng.IntN(3) == 0 {
		h.limit, _ = limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1 + h.rng.IntN(2), Queue: h.rng.IntN(4) - 1, MaxWait: 10 * ms})
		h.o.Limiter = h.limit
	}
	h.b = batch.Must(batch.NewFrom(batch.Source[thing, outcome]{Run: h.run, Scope: func(th thing) any { return th.scope }}, h.o))
	return h
}

func (h *history) play() {
	var wg sync.WaitGroup
	for i := range 24 {
		rng := rand.New(rand.NewPCG(h.seed, uint64(i+1)))
		wg.Go(func() {
			for j := range 6 {
				time.Sleep(time.Duration(rng.IntN(6)) * ms)
				h.call(thing{id: i*100 + j, scope: rng.IntN(3)}, time.Duration(1+rng.IntN(15))*ms)
			}
		})
	}
	if h.closing {
		time.Sleep(10 * ms)
		h.b.Close(contextFor(h.T, 5*ms))
	}
	wg.Wait()
	if err := h.b.Close(context.Background()); err != nil {
		h.Errorf("Close = %v", err)
	}
	if st := h.b.Stats(); st.Pending != 0 || st.Running != 0 || st.Stuck != 0 {
		h.Errorf("Stats = %+v; want nothing pending, running or stuck", st)
	}
	if h.limit != nil && h.limit.Stats().InUse != 0 {
		h.Errorf("%d permits were not released", h.limit.Stats().InUse)
	}
}

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// call calls Do once and checks its result.
func (h *history) call(th thing, patience time.Duration) {
	own := errors.New("this caller's own deadline")
	ctx, cancel := context.WithTimeoutCause(h.Context(), patience, own)
	defer cancel()
	start := time.Now()
	got, err := h.b.Do(ctx, th)
	took := time.Since(start)
	h.mu.Lock()
	ran := h.runs[th.id]
	h.mu.Unlock()
	var item itemError
	failed := errors.As(err, &item)
	switch {
	case took > patience:
		h.Errorf("Do(%v) took %v; want at most %v", th, took, patience)
	case err == nil:
		if got.id != th.id || ran == 0 {
			h.Errorf("Do(%v) = %v after %d runs; want the item's own result", th, got, ran)
		}
		return
	case errors.Is(err, own) && took != patience:
		h.Errorf("Do(%v) left after %v; want %v", th, took, patience)
	case failed && (item.id != th.id || ran == 0):
		h.Errorf("Do(%v) got the error of %d", th, item.id)
	case failed, errors.Is(err, batch.ErrUnknown), errors.As(err, new(*batch.PanicError)), err == errWhole, err == batch.ErrGoexit:
	case errors.Is(err, own), err == batch.ErrClosed, err == batch.ErrStuck, errors.Is(err, limit.ErrLimited):
		if ran > 0 && !h.o.RetrySingly {
			h.Errorf("Do(%v) = %v, which means that the item never ran; it ran %d times", th, err, ran)
		}
		h.mu.Lock()
		if !h.o.RetrySingly {
			h.runs[th.id] = 1 // it must not run from now on
		}
		h.mu.Unlock()
	default:
		h.Errorf("Do(%v) = %v", th, err)
	}
	if got != (outcome{}) {
		h.Errorf("Do(%v) = %v with %v; want no value", th, got, err)
	}
}

// run makes a bulk call and checks its items.
func (h *history) run(ctx context.Context, things []thing) ([]outcome, error) {
	h.mu.Lock()
	h.running++
	if h.running > h.o.MaxParallel {
		h.Errorf("%d bulk calls at once; want at most %d", h.running, h.o.MaxParallel)
	}
	if len(things) == 0 || len(things) > h.o.MaxSize {
		h.Errorf("%d items; want 1 to %d", len(things), h.o.MaxSize)
	}
	most := 1
	if h.o.RetrySingly {
		most = 2
	}
	for _, th := range things {
		if h.runs[th.id]++; h.runs[th.id] > most {
			h.Errorf("%v ran %d times, or although its caller's error means that it never runs", th, h.runs[th.id])
		}
		if th.scope != things[0].scope {
			h.Errorf("scopes %d and %d share a batch", th.scope, things[0].scope)
		}
	}
	takes, manner, deaf := time.Duration(h.rng.IntN(6))*ms, h.rng.IntN(8), h.rng.IntN(2) == 0
	if h.rng.IntN(10) == 0 {
		takes = 40 * ms
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running--
	}()
	var hung <-chan struct{}
	if !deaf {
		hung = ctx.Done()
	}
	select {
	case <-time.After(takes):
	case <-hung:
		return nil, ctx.Err()
	}
	results, errs := make([]outcome, len(things)), make(batch.Errors, len(things))
	for i, th := range things {
		results[i] = outcome{id: th.id}
		if th.id%5 == 0 {
			results[i], errs[i] = outcome{}, itemError{th.id}
		}
	}
	switch manner {
	case 0:
		panic(errWhole)
	case 1:
		runtime.Goexit()
	case 2, 3:
		return nil, errWhole
	}
	return results, errs
}
