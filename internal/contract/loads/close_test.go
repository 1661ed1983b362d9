package loads_test

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

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// Close while everything runs that can run: every caller gets ErrClosed at
// once, and nothing is left.
func TestE9CloseDuringEverything(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m, b := &rig.Mill{}, &rig.Bulk{}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 6, Reserve: 1})
		g := rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, LoadMany: b.Load}, weir.Options{
			TTL: time.Second, StaleWhileRevalidate: 2 * time.Second, StaleIfError: time.Hour,
			SoftTimeout: 500 * ms, AbandonGrace: time.Minute, LoadTimeout: time.Hour, Limiter: c})
		g.Get(s.Context(), "soft")
		s.At(2 * time.Second)
		g.Get(s.Context(), "stale")
		s.At(4 * time.Second)
		if err := g.SetEntry(s.Context(), "fresh", weir.Entry[int]{Value: 70, TTL: time.Hour}); err != nil {
			s.Fatal(err)
		}

		m.Takes, b.Takes = time.Minute, time.Minute
		g.Get(s.Context(), "stale") // a refresh in the background
		var waiting []*rig.Answer
		add := func(call func() weir.Result[int]) { waiting = append(waiting, s.Ask(call)) }
		get := func(key string) { add(func() weir.Result[int] { return g.GetResult(s.Context(), key) }) }
		get("load")
		get("load")
		get("soft")                                                               // waits for the soft timeout
		add(func() weir.Result[int] { return g.RefreshResult(s.Context(), "r") }) // a forced load
		for _, key := range []string{"a", "b"} {
			add(func() weir.Result[int] { return g.GetMany(s.Context(), []string{"a", "b"})[key] })
		}
		s.Want(s.Get(s.Until(4100*ms), g, "grace"), 0, context.DeadlineExceeded, 4100*ms)
		get("queued") // for admission: all six permits are out
		rig.WantInUse(s, c, 6)
		if n := c.Stats().Queued; n != 1 {
			s.Fatalf("%d queued for admission; want 1", n)
		}

		s.At(4200 * ms)
		if err := g.Close(s.Context()); err != nil || s.Now() != 4200*ms {
			s.Errorf("Close = %v at %v; want nil at once", err, s.Now())
		}
		for _, a := range waiting {
			s.Want(a, 0, weir.ErrClosed, 4200*ms)
		}
		synctest.Wait()
		rig.WantGauges(s, g, weir.Stats{})
		if !errors.Is(b.Causes[0], weir.ErrClosed) {
			s.Errorf("cause of the bulk load = %v; want ErrClosed", b.Causes[0])
		}
		if st := g.Stats(); st.Refusals != 0 || st.Abandoned != 0 || st.LoadFailures != 0 {
			s.Errorf("Refusals, Abandoned, LoadFailures = %d, %d, %d; want 0, 0, 0", st.Refusals, st.Abandoned, st.LoadFailures)
		}
	})
}

func TestE9AfterClose(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: 10 * time.Second, RefreshAhead: 0.5, RefreshJitter: -1, StaleWhileRevalidate: time.Hour})
		g.Get(s.Context(), "k")
		for range 3 {
			if err := g.Close(s.Context()); err != nil {
				s.Errorf("Close = %v; want nil", err)
			}
		}
		ctx := s.Context()
		calls := map[string]func() error{
			"Get":            func() error { _, err := g.Get(ctx, "miss"); return err },
			"GetResult":      func() error { return g.GetResult(ctx, "miss").Err },
			"GetMany":        func() error { return g.GetMany(ctx, []string{"miss"})["miss"].Err },
			"Refresh":        func() error { return g.RefreshResult(ctx, "k").Err },
			"Set":            func() error { return g.Set(ctx, "k", 7) },
			"SetEntry":       func() error { return g.SetEntry(ctx, "k", weir.Entry[int]{}) },
			"Invalidate":     func() error { return g.Invalidate(ctx, "k") },
			"InvalidateTags": func() error { return g.InvalidateTags(ctx, "tag") },
			"Expire":         func() error { return g.Expire(ctx, "k") },
			"InvalidateAll":  func() error { return g.InvalidateAll(ctx) },
			"ExpireTags":     func() error { return g.ExpireTags(ctx, "t") },
			"ExpireAll":      func() error { return g.ExpireAll(ctx) },
		}
		for name, call := range calls {
			if err := call(); err != weir.ErrClosed {
				s.Errorf("%s = %v; want ErrClosed", name, err)
			}
		}
		s.At(9 * time.Second) // fresh, and past refresh-ahead
		if *rig.FleetOfOne {  // it hears of no invalidation any more (T10)
			s.Want(s.Get(ctx, g, "k"), 0, weir.ErrClosed, 9*time.Second)
			s.WantMany(s.Many(ctx, g, "k", "miss"), 9*time.Second, map[string]any{"k": weir.ErrClosed, "miss": weir.ErrClosed})
		} else {
			s.Want(s.Get(ctx, g, "k"), 1, nil, 9*time.Second)
			s.WantMany(s.Many(ctx, g, "k", "miss"), 9*time.Second, map[string]any{"k": 1, "miss": weir.ErrClosed})
		}
		s.At(10 * time.Second) // stale: not served any more
		s.Want(s.Get(ctx, g, "k"), 0, weir.ErrClosed, 10*time.Second)
		s.WantMany(s.Many(ctx, g, "k"), 10*time.Second, map[string]any{"k": weir.ErrClosed})
		s.WantRuns(m, 1)
	})
}

func TestE9CloseErrorCountsLoadsThatIgnoreTheirCancellation(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 10 * time.Second, Deaf: true}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 10})
		g := s.Guard(m.Load, weir.Options{LoadTimeout: 5 * time.Second, Limiter: c})
		deaf := []*rig.Answer{s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")}
		s.Want(s.Get(s.Until(time.Second), g, "left"), 0, context.DeadlineExceeded, time.Second)
		m.Deaf = false
		obeys := s.Get(s.Context(), g, "c")

		s.At(2 * time.Second)
		impatient := errors.New("impatient")
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, impatient)
		defer cancel()
		err := g.Close(ctx)
		var ce *weir.CloseError
		if !errors.As(err, &ce) || ce.Running != 3 || ce.Cause != impatient || !errors.Is(err, impatient) || s.Now() != 3*time.Second {
			s.Errorf("Close = %v at %v; want 3 loads that ignore their cancellation at 3s", err, s.Now())
		}
		for _, a := range append(deaf, obeys) {
			s.Want(a, 0, weir.ErrClosed, 2*time.Second)
		}
		rig.WantInUse(s, c, 3)

		var closers []*rig.Answer // several more calls, which keep waiting
		for range 3 {
			closers = append(closers, s.Ask(func() weir.Result[int] { return weir.Result[int]{Err: g.Close(s.Context())} }))
		}
		rig.WantGauges(s, g, weir.Stats{Running: 3})
		s.At(6 * time.Second) // beyond the hard timeout, too
		rig.WantGauges(s, g, weir.Stats{Running: 3, Stuck: 3})
		for _, a := range closers {
			s.Want(a, 0, nil, 10*time.Second)
		}
		rig.WantInUse(s, c, 0)
	})
}

func TestE9CloseWithAnEndedContext(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		ended, cancel := s.Cancelable()
		cancel(nil)
		idle := s.Guard((&rig.Mill{}).Load, weir.Options{})
		for range 64 { // a select between the two would be wrong half of the time
			if err := idle.Close(ended); err != nil {
				s.Fatalf("Close of an idle Guard = %v; want nil", err)
			}
		}
		g := s.Guard((&rig.Mill{Takes: time.Second, Deaf: true}).Load, weir.Options{})
		a := s.Get(s.Context(), g, "k")
		var ce *weir.CloseError
		if err := g.Close(ended); !errors.As(err, &ce) || ce.Running != 1 {
			s.Errorf("Close = %v; want a CloseError about one load", err)
		}
		s.Want(a, 0, weir.ErrClosed, 0) // closed anyway
	})
}

// Callers come while Close runs: each gets its value or ErrClosed, and no load
// begins after Close.
func TestE9CloseInTheCrowd(t *testing.T) {
	for range 20 {
		rig.Tell(t, func(s *rig.Story) {
			var closed atomic.Bool
			g := rig.GuardFrom(s, weir.Source[int, int]{Load: func(ctx context.Context, key int) (int, error) {
				if closed.Load() {
					s.Error("a load after Close has returned")
				}
				// Never 0: goroutines of a bubble that find expired timers at the same time
				// crash the race detector of Go 1.26.
				select {
				case <-time.After(time.Duration(rand.IntN(3))*ms + 1):
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
				return -key, nil
			}}, weir.Options{TTL: 2 * ms, StaleWhileRevalidate: time.Second})
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for s.Now() < 20*ms {
						key := rand.IntN(50)
						if v, err := g.Get(s.Context(), key); err == nil && v != -key || err != nil && err != weir.ErrClosed {
							s.Errorf("Get(%d) = %d, %v; want %d or ErrClosed", key, v, err, -key)
						}
						time.Sleep(time.Duration(rand.IntN(4)) * ms / 4)
					}
				})
			}
			for range 3 {
				wg.Go(func() {
					time.Sleep(10 * ms)
					if err := g.Close(s.Context()); err != nil {
						s.Errorf("Close = %v; want nil", err)
					}
					closed.Store(true)
				})
			}
			wg.Wait()
		})
	}
}

// An idle Guard owns no goroutine, even after use and without a Close: the
// bubble would not end if one were left.
func TestE9IdleGuardOwnsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := weir.Must(weir.New((&rig.Mill{Takes: ms}).Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Second, SoftTimeout: time.Second, AbandonGrace: 30 * time.Second}))
		for i := range 1000 {
			g.Get(t.Context(), fmt.Sprint(i%600))
			if i%7 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), ms/2)
				g.Get(ctx, "left")
				cancel()
			}
		}
	})
}

// TestEverythingAtOnce runs all kinds of callers and writers, a source with all
// kinds of faults, and a limiter, at random and concurrently. A value must
// belong to its key, a call must return by its deadline, and in the end nothing
// may run and all permits must be back.
func TestEverythingAtOnce(t *testing.T) {
	for seed := range histories.Seeds(t, 2, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) { everything(s, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func everything(s *rig.Story, rng *rand.Rand) {
	o := weir.Options{
		TTL: 3 * ms, TTLJitter: 0.3, RefreshAhead: 0.5, StaleWhileRevalidate: 3 * ms, StaleIfError: 10 * ms,
		NegativeTTL: 2 * ms, RefreshRetry: ms, LoadTimeout: 8 * ms, MaxEntries: 30, MaxRefreshes: 3, MaxStuck: 4,
		SoftTimeout:  []time.Duration{0, 2 * ms}[rng.IntN(2)],
		AbandonGrace: []time.Duration{0, ms, weir.Never}[rng.IntN(3)],
		FailureMemo:  weir.FailureMemo{Transient: weir.Backoff{Initial: ms, Max: 4 * ms}},
	}
	if rng.IntN(3) == 0 {
		o.Observer = rude{}
	}
	permits := []int{6, 40}[rng.IntN(2)] // too few, or some to spare for refreshes
	c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: permits, Queue: 8, MaxWait: 5 * ms})
	o.Limiter = c
	var running, most atomic.Int64
	load := func(ctx context.Context, key int) (int, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		takes := time.Duration(rand.IntN(16)) * ms / 4
		switch rand.IntN(40) {
		case 0:
			panic("boom")
		case 1:
			runtime.Goexit()
		case 2:
			return 0, rig.ErrDown
		case 3:
			return 0, weir.ErrNotFound
		case 4:
			time.Sleep(20 * ms) // hangs and ignores its context
			return -key, nil
		case 5:
			takes = time.Hour // hangs and follows its context
		}
		select {
		case <-time.After(takes):
			return -key, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	src := weir.Source[int, int]{
		LoadEntry: func(ctx context.Context, key int, prev weir.Previous[int]) (weir.Entry[int], error) {
			if prev.OK && prev.Value != -key {
				s.Errorf("previous value of %d = %d; want %d", key, prev.Value, -key)
			}
			v, err := load(ctx, key)
			return weir.Entry[int]{Value: v, Tags: []string{fmt.Sprint("tag", key%3)}, NoStore: rand.IntN(10) == 0, NotModified: err == nil && prev.OK && rand.IntN(4) == 0}, err
		},
		LoadEntries: func(ctx context.Context, keys []int, prev []weir.Previous[int]) (map[int]weir.Entry[int], error) {
			entries := make(map[int]weir.Entry[int])
			_, err := load(ctx, keys[0])
			for i, key := range keys {
				if prev[i].OK && prev[i].Value != -key {
					s.Errorf("previous value of %d = %d; want %d", key, prev[i].Value, -key)
				}
				entries[key] = weir.Entry[int]{Value: -key, Tags: []string{fmt.Sprint("tag", key%3)}, NotModified: prev[i].OK && key%4 == 0}
			}
			return entries, err
		},
	}
	g := rig.GuardFrom(s, src, o)

	check := func(key, v int, err error) {
		var p *weir.PanicError
		switch {
		case err == nil && v != -key:
			s.Errorf("value of %d = %d; want %d", key, v, -key)
		case err == nil, errors.Is(err, rig.ErrDown), errors.Is(err, weir.ErrNotFound), errors.Is(err, weir.ErrGoexit), errors.As(err, &p):
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, limit.ErrLimited), errors.Is(err, weir.ErrStuck):
		default:
			s.Errorf("Get(%d) = %d, %v; want none of that", key, v, err)
		}
	}
	ask := func(ctx context.Context, rng *rand.Rand) {
		key := 1 + rng.IntN(40)
		switch rng.IntN(14) {
		default:
			v, err := g.Get(ctx, key)
			check(key, v, err)
		case 0:
			r := g.RefreshResult(ctx, key)
			check(key, r.Value, r.Err)
		case 1, 2:
			for key, r := range g.GetMany(ctx, []int{key, key%40 + 1, 1 + rng.IntN(40), key, 7}) {
				check(key, r.Value, r.Err)
			}
		case 3:
			g.Set(ctx, key, -key)
		case 4:
			g.Invalidate(ctx, key, 1+rng.IntN(40))
		case 5:
			g.Expire(ctx, key)
		case 6:
			g.InvalidateTags(ctx, fmt.Sprint("tag", rng.IntN(3)))
		case 7:
			g.Stats()
			if r, ok := g.Peek(key); ok && r.Err == nil && r.Value != -key {
				s.Errorf("Peek(%d) = %d; want %d", key, r.Value, -key)
			}
			if rng.IntN(10) == 0 {
				g.InvalidateAll(ctx)
			}
		}
	}
	var wg sync.WaitGroup
	for i := range uint64(48) {
		rng := rand.New(rand.NewPCG(rng.Uint64(), i))
		wg.Go(func() {
			for s.Now() < 150*ms {
				patience := time.Duration(1+rng.IntN(40)) * ms / 4
				ctx, cancel := context.WithTimeout(s.Context(), patience)
				began := s.Now()
				ask(ctx, rng)
				if took := s.Now() - began; took > patience {
					s.Errorf("a call took %v; want its deadline of %v at most", took, patience)
				}
				cancel()
				time.Sleep(time.Duration(rng.IntN(8)) * ms / 4)
			}
		})
	}
	wg.Wait()
	s.At(s.Now() + time.Second) // the hard timeout has ended the remaining loads
	rig.WantGauges(s, g, weir.Stats{})
	rig.WantInUse(s, c, 0)
	if running.Load() != 0 || most.Load() > int64(permits) {
		s.Errorf("%d loads run, at most %d did; want 0, %d", running.Load(), most.Load(), permits)
	}
	st := g.Stats()
	if st.Panics == 0 || st.LoadTimeouts == 0 || st.Refusals == 0 && permits == 6 || st.Joins == 0 || st.Refreshes == 0 && permits > 6 || st.Superseded == 0 || st.StaleOnError == 0 {
		s.Errorf("not everything has happened: %+v", st)
	}
	for key := 1; key <= 40; key++ { // it still works
		for range 100 {
			r := g.GetResult(s.Context(), key)
			if check(key, r.Value, r.Err); r.Err == nil {
				break
			}
			time.Sleep(5 * ms)
		}
	}
}
