package flight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/histories"
)

// TestHistory runs many callers on a few keys and checks invariants that hold for any
// history. All times are whole milliseconds, so that many events fall on the same
// instant and race. A seed reproduces the plan, but not the order within an instant.
func TestHistory(t *testing.T) {
	for seed := range histories.Seeds(t, 100, 1000) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newHistory(t, seed).play() })
		})
	}
}

const (
	historyKeys    = 3
	historyCallers = 24
	historyCalls   = 8
)

// A history is one run of the test.
type history struct {
	*testing.T
	seed  uint64
	group flight.Group[int, *chronicle]
	clock atomic.Int64 // logical clock, orders events at the same instant

	keys [historyKeys]struct {
		mu      sync.Mutex
		running map[*chronicle]bool // guarded by mu: loads whose context has not ended
		forgets atomic.Int64        // calls of Forget that have begun
		forgot  atomic.Int64        // calls of Forget that have returned
	}
}

// A chronicle records one load. It also serves as the load's value, its error, and its
// panic value.
type chronicle struct {
	key    int
	forgot int64 // of the key, before the call that started this load

	ended    time.Time // written before the function returns, read by callers that have the result
	canceled bool      // as ended: the context had ended

	known   atomic.Int64 // the clock when a caller first had the result, 0 before
	joiners atomic.Int64 // from Result.Joiners, 0 before
	answers atomic.Int64 // callers that have had the result
}

func (c *chronicle) Error() string { return fmt.Sprintf("load of key %d", c.key) }

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{T: t, seed: seed}
	h.group.Grace = []time.Duration{0, 0, 2 * ms, flight.Never}[seed%4]
	for i := range h.keys {
		h.keys[i].running = make(map[*chronicle]bool)
	}
	return h
}

func (h *history) play() {
	var wg sync.WaitGroup
	for i := range uint64(historyCallers) {
		rng := rand.New(rand.NewPCG(h.seed, i))
		wg.Go(func() {
			for range historyCalls {
				time.Sleep(time.Duration(rng.IntN(6)) * ms)
				key := rng.IntN(historyKeys)
				if rng.IntN(12) == 0 {
					h.keys[key].forgets.Add(1)
					h.group.Forget(key)
					h.keys[key].forgot.Add(1)
				}
				h.call(rng, key)
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Second) // the abandoned loads end too
	synctest.Wait()
	if n := h.group.Len(); n != 0 {
		h.Errorf("Len() = %d at the end; want 0", n)
	}
}

// call makes one call and checks its result.
func (h *history) call(rng *rand.Rand, key int) {
	own := errors.New("this caller's own deadline")
	patience := time.Duration(1+rng.IntN(10)) * ms
	if rng.IntN(4) == 0 {
		patience = 50 * ms
	}
	c := &chronicle{key: key, forgot: h.keys[key].forgot.Load()}
	fn, ran := h.load(c, rng)
	ctx, cancel := context.WithTimeoutCause(h.Context(), patience, own)
	defer cancel()

	called, tick := time.Now(), h.clock.Add(1)
	var r flight.Result[*chronicle]
	if rng.IntN(3) == 0 {
		ch := h.group.DoChan(ctx, key, fn)
		r = <-ch
		defer func() { // exactly one result
			time.Sleep(ms)
			if len(ch) > 0 {
				h.Errorf("DoChan(%d) sent a second result: %+v", key, <-ch)
			}
		}()
	} else {
		r = h.group.DoResult(ctx, key, fn)
	}
	took, back := time.Since(called), h.clock.Add(1)

	switch {
	case r.Err == own:
		if took != patience || r.Value != nil || r.Joiners != 0 {
			h.Errorf("Do(%d) left after %v with %+v; want its own cause after %v", key, took, r, patience)
		}
	case took > patience:
		h.Errorf("Do(%d) took %v; want at most %v", key, took, patience)
	case r.Joined == ran.Load():
		h.Errorf("Do(%d): Joined = %v, but its own load ran: %v", key, r.Joined, ran.Load())
	case r.Err == flight.ErrGoexit && r.Value == nil && r.Joiners > 0:
		// there is nothing more to check about such a load
	default:
		h.checkAnswer(key, r, called, tick, back)
	}
}

// checkAnswer checks the result of a load for a caller that arrived at tick and
// returned at back.
func (h *history) checkAnswer(key int, r flight.Result[*chronicle], called time.Time, tick, back int64) {
	c := r.Value
	var p *flight.PanicError
	if errors.As(r.Err, &p) {
		c, _ = p.Value.(*chronicle)
	} else if r.Err != nil && (c != nil || !errors.As(r.Err, &c)) {
		c = nil
	}
	if c == nil {
		h.Errorf("Do(%d) = %v, %v; want a load's value or its error", key, r.Value, r.Err)
		return
	}
	known := c.known.Load()
	for known == 0 && !c.known.CompareAndSwap(0, back) {
		known = c.known.Load()
	}
	switch {
	case c.key != key:
		h.Errorf("Do(%d) got the result of key %d", key, c.key)
	case known != 0 && known < tick:
		h.Errorf("Do(%d) was called at %d and got a result that another caller had at %d", key, tick, known)
	case c.ended.Before(called):
		h.Errorf("Do(%d) was called at %v and got a result from %v", key, called, c.ended)
	case c.canceled:
		h.Errorf("Do(%d) got the result of a load that was canceled while the caller waited", key)
	}
	n := int64(r.Joiners)
	if was := c.joiners.Swap(n); was != 0 && was != n || n < c.answers.Add(1) {
		h.Errorf("Do(%d): Joiners = %d; another caller got %d, and %d callers have the result", key, n, was, c.answers.Load())
	}
}

// load returns a load that is recorded in c, and whether it has run.
func (h *history) load(c *chronicle, rng *rand.Rand) (fn func(context.Context) (*chronicle, error), ran *atomic.Bool) {
	d, manner := time.Duration(rng.IntN(6))*ms, rng.IntN(7)
	ran = new(atomic.Bool)
	return func(ctx context.Context) (*chronicle, error) {
		if ran.Swap(true) {
			h.Errorf("a load of key %d ran twice", c.key)
		}
		h.enter(ctx, c)
		defer h.exit(ctx, c)
		switch manner {
		case 0: // hangs until canceled, or for 100 ms
			d = 100 * ms
			fallthrough
		case 1, 2, 3: // follows its context
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		default: // ignores its context
			time.Sleep(d)
		}
		switch manner {
		case 2, 4:
			return nil, c
		case 3:
			runtime.Goexit()
		case 5:
			panic(c)
		}
		return c, nil
	}, ran
}

// enter records that c runs, until its context ends. Half a millisecond later, when
// nothing else happens, it checks that at most one load runs among those that cannot
// have been forgotten, because no Forget has begun since before their calls.
func (h *history) enter(ctx context.Context, c *chronicle) {
	k := &h.keys[c.key]
	k.mu.Lock()
	k.running[c] = true
	k.mu.Unlock()
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.running, c)
	})
	time.AfterFunc(ms/2, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		n := 0
		for other := range k.running {
			if other.forgot == k.forgets.Load() {
				n++
			}
		}
		if n > 1 {
			h.Errorf("%d loads of key %d at once", n, c.key)
		}
	})
}

// exit records how c's function ends.
func (h *history) exit(ctx context.Context, c *chronicle) {
	c.ended, c.canceled = time.Now(), ctx.Err() != nil
}
