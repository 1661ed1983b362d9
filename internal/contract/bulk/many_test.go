package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// Single and bulk loads alternate: running loads are joined, fresh keys are not
// loaded, and the rest is one call, which starts before any wait and takes one
// permit.
func TestB3JoinsWhatRunsAndLoadsTheRestInOneCall(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m, b := &rig.Mill{Takes: 2 * time.Second}, &rig.Bulk{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 2, Queue: -1})
		g := rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, LoadMany: b.Load}, weir.Options{TTL: time.Minute, Limiter: c})
		if err := g.Set(s.Context(), "fresh", 70); err != nil {
			s.Fatal(err)
		}
		running := s.Get(s.Context(), g, "running")
		a := s.Many(s.Context(), g, "running", "a", "fresh", "b", "a", "a", "fresh", "running")
		rig.WantInUse(s, c, 2)
		b.Want(s, "a b at 0s")
		joiner := s.Get(s.Context(), g, "a") // one that joins the bulk load
		second := s.Many(s.Context(), g, "b", "running", "fresh")
		s.WantMany(a, 2*time.Second, map[string]any{"running": 1, "a": 1, "b": 1, "fresh": 70})
		s.WantMany(second, 2*time.Second, map[string]any{"running": 1, "b": 1, "fresh": 70})
		if r := s.Want(joiner, 1, nil, time.Second); !r.Joined {
			s.Error("Joined = false; want true")
		}
		s.Want(running, 1, nil, 2*time.Second)
		for key, joined := range map[string]bool{"running": true, "a": false, "fresh": false} {
			if a.Results[key].Joined != joined {
				s.Errorf("%s: Joined = %v; want %v", key, !joined, joined)
			}
		}
		s.WantRuns(m, 1)
		b.Want(s, "a b at 0s")
		if st := g.Stats(); st.Loads != 2 || c.Stats().Admitted != 2 || st.Joins != 4 {
			s.Errorf("Loads, permits, Joins = %d, %d, %d; want 2, 2, 4", st.Loads, c.Stats().Admitted, st.Joins)
		}
		if g.GetMany(s.Context(), nil) == nil || len(g.GetMany(s.Context(), []string{})) != 0 {
			s.Error("GetMany of no keys; want an empty map")
		}
	})
}

// Two GetMany that overlap: the second loads only what the first does not.
func TestB3OverlappingCallsShare(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{})
		first := s.Many(s.Context(), g, "a", "b", "c")
		s.At(500 * ms)
		second := s.Many(s.Context(), g, "b", "c", "d", "e")
		third := s.Many(s.Context(), g, "e", "a")
		s.WantMany(first, time.Second, map[string]any{"a": 1, "b": 1, "c": 1})
		s.WantMany(second, 1500*ms, map[string]any{"b": 1, "c": 1, "d": 2, "e": 2})
		s.WantMany(third, 1500*ms, map[string]any{"a": 1, "e": 2})
		b.Want(s, "a b c at 0s", "d e at 500ms")
	})
}

func TestB3LoadManyAloneServesEverything(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour})
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, time.Second)
		s.Want(s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "k") }), 2, nil, 2*time.Second)
		s.At(4 * time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 4*time.Second) // stale, and a refresh
		s.At(5 * time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 3, nil, 5*time.Second)
		b.Lacks = []string{"gone"}
		s.Want(s.Get(s.Context(), g, "gone"), 0, weir.ErrNotFound, 6*time.Second)
		b.Want(s, "k at 0s", "k at 1s", "k at 4s", "gone at 5s")
	})
}

// A bulk load is canceled when the joiners of all its keys have left, and not
// before.
func TestB3CanceledWhenAllHaveLeft(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: 10 * time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{})
		starter := s.Many(s.Until(time.Second), g, "a", "b", "c")
		one := s.Get(s.Until(2*time.Second), g, "b")
		other := s.Many(s.Until(3*time.Second), g, "c", "b")
		gone := map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded, "c": context.DeadlineExceeded}
		s.WantMany(starter, time.Second, gone)
		s.Want(one, 0, context.DeadlineExceeded, 2*time.Second)
		delete(gone, "a")
		s.At(2999 * ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 3, Running: 1}) // including the key without a caller
		s.WantMany(other, 3*time.Second, gone)
		s.At(3 * time.Second)
		rig.WantGauges(s, g, weir.Stats{})
		if !slices.Equal(b.Causes, []error{weir.ErrAbandoned}) {
			s.Errorf("causes = %v; want ErrAbandoned", b.Causes)
		}
		if n := g.Stats().Abandoned; n != 1 {
			s.Errorf("Abandoned = %d; want 1", n)
		}
	})
}

// One live joiner of one key keeps the whole load, and all its values are kept.
func TestB3OneJoinerKeepsTheLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: 2 * time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Minute})
		starter := s.Many(s.Until(time.Second), g, "a", "b", "c")
		joiner := s.Get(s.Context(), g, "c")
		s.WantMany(starter, time.Second, map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded, "c": context.DeadlineExceeded})
		s.Want(joiner, 1, nil, 2*time.Second)
		s.WantMany(s.Many(s.Context(), g, "a", "b", "c"), 2*time.Second, map[string]any{"a": 1, "b": 1, "c": 1})
		b.Want(s, "a b c at 0s")
	})
}

// The context ends in the middle: ready keys have their values, and the rest
// the cause.
func TestB3ContextEndsInTheMiddle(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m, b := &rig.Mill{Takes: 2 * time.Second}, &rig.Bulk{Takes: 500 * ms}
		g := rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, LoadMany: b.Load}, weir.Options{TTL: time.Minute})
		slow := s.Get(s.Context(), g, "slow")
		gone := errors.New("gone")
		ctx, hangUp := s.Cancelable()
		a := s.Many(ctx, g, "slow", "a", "b") // waits for the slow one first
		s.At(time.Second)
		hangUp(gone)
		s.WantMany(a, time.Second, map[string]any{"slow": gone, "a": 1, "b": 1})
		s.Want(slow, 1, nil, 2*time.Second)
	})
}

// If the soft timeout was over before the context ended, the stale value is
// returned, whatever the order in which the keys were awaited.
func TestB3SoftTimeoutIsNotLostBehindAnotherKey(t *testing.T) {
	for range 16 { // a select between the two would be right half the time
		rig.Tell(t, func(s *rig.Story) {
			m := &rig.Mill{}
			g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 100 * ms})
			g.Get(s.Context(), "stale")
			m.Takes = time.Hour
			s.At(2 * time.Second)
			want := map[string]any{"stale": 1, "cold": context.DeadlineExceeded}
			a, b := s.Many(s.Until(3*time.Second), g, "stale", "cold"), s.Many(s.Until(3*time.Second), g, "cold", "stale")
			s.WantMany(a, 3*time.Second, want)
			s.WantMany(b, 3*time.Second, want)
		})
	}
}

func TestB3AnswersPerKey(t *testing.T) {
	memo := weir.FailureMemo{Transient: weir.Backoff{Initial: time.Hour}}
	for name, row := range map[string]struct {
		err  error
		want any // of a key that is missing from the map
	}{
		"missing is not found":    {nil, weir.ErrNotFound},
		"with an error it failed": {rig.ErrDown, rig.ErrDown},
		"not found as an error":   {fmt.Errorf("none: %w", weir.ErrNotFound), weir.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				b := &rig.Bulk{Takes: time.Second, Err: row.err, Lacks: []string{"b", "c"}}
				g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, FailureMemo: memo})
				want := map[string]any{"a": 1, "b": row.want, "c": row.want, "d": 1}
				s.WantMany(s.Many(s.Context(), g, "a", "b", "c", "d"), time.Second, want)
				s.WantMany(s.Many(s.Context(), g, "a", "b", "c", "d"), time.Second, want) // from memory
				b.Want(s, "a b c d at 0s")
				if _, ok := g.Peek("nobody asked"); ok {
					s.Error("a key that was not asked for is kept")
				}
			})
		})
	}
}

func TestB3WithoutLoadManySingleLoadsAtOnce(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 2})
		g := s.Guard(m.Load, weir.Options{TTL: time.Hour, Limiter: c})
		a := s.Many(s.Context(), g, "a", "b", "c", "d", "a")
		rig.WantInUse(s, c, 2)
		<-a.Done
		if a.At != 2*time.Second || len(a.Results) != 4 {
			s.Errorf("%d results at %v; want 4 at 2s: two at a time", len(a.Results), a.At)
		}
		s.WantRuns(m, 4)
	})
}

func TestB3RefusedOrHungAsAWhole(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{
			TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 100 * ms, LoadTimeout: 5 * time.Second, Limiter: c})
		s.WantMany(s.Many(s.Context(), g, "a", "b"), 0, map[string]any{"a": 1, "b": 1})
		b.Takes = time.Hour
		s.At(2 * time.Second)
		hung := s.Many(s.Context(), g, "a", "b", "cold") // the soft timeout for two of them
		refused := s.Many(s.Context(), g, "colder", "colder still")
		s.WantMany(refused, 2*time.Second, map[string]any{"colder": limit.ErrLimited, "colder still": limit.ErrLimited})
		if n := g.Stats().Refusals; n != 1 {
			s.Errorf("Refusals = %d; want 1", n)
		}
		s.WantMany(hung, 7*time.Second, map[string]any{"a": 1, "b": 1, "cold": context.DeadlineExceeded})
		for _, key := range []string{"a", "b"} {
			if r := hung.Results[key]; r.State != weir.StateStaleOnError || r.Cause == nil {
				s.Errorf("%s: State, Cause = %v, %v; want stale on error", key, r.State, r.Cause)
			}
		}
	})
}

// The stale keys of a GetMany are refreshed by one call in the background,
// which takes one place of MaxRefreshes.
func TestB3StaleKeysAreRefreshedInOneCall(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, MaxRefreshes: 1})
		s.Many(s.Context(), g, "a", "b", "c")
		b.Takes = time.Second
		s.At(2 * time.Second)
		for range 3 {
			s.WantMany(s.Many(s.Context(), g, "a", "b"), 2*time.Second, map[string]any{"a": 1, "b": 1})
		}
		s.Want(s.Get(s.Context(), g, "c"), 1, nil, 2*time.Second) // skipped
		rig.WantGauges(s, g, weir.Stats{Flights: 2, Running: 1, Refreshing: 1})
		s.At(3 * time.Second)
		s.WantMany(s.Many(s.Context(), g, "a", "b"), 3*time.Second, map[string]any{"a": 2, "b": 2})
		b.Want(s, "a b c at 0s", "a b at 2s")
		if n := g.Stats().RefreshesSkipped; n != 1 {
			s.Errorf("RefreshesSkipped = %d; want 1", n)
		}
	})
}

// A write takes one key off a running bulk load; the others are kept.
func TestB3WriteDuringABulkLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: time.Hour})
		a := s.Many(s.Context(), g, "a", "b", "c")
		s.At(500 * ms)
		g.Set(s.Context(), "a", 70)
		g.Invalidate(s.Context(), "b")
		late := s.Many(s.Context(), g, "a", "b", "c")
		s.WantMany(a, time.Second, map[string]any{"a": 1, "b": 1, "c": 1})
		for key, want := range map[string]bool{"a": true, "b": true, "c": false} {
			if got := a.Results[key].Superseded; got != want {
				s.Errorf("%s: Superseded = %v; want %v", key, got, want)
			}
		}
		s.WantMany(late, 1500*ms, map[string]any{"a": 70, "b": 2, "c": 1})
		s.WantMany(s.Many(s.Context(), g, "a", "b", "c"), 1500*ms, map[string]any{"a": 70, "b": 2, "c": 1})
	})
}

// A GetMany that meets a bulk load whose function has just returned must not
// get its values, which are older; it loads all of them again, in one call.
func TestB3KeysToLoadAgainAreOneCall(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		var weighing atomic.Int64
		weighing.Store(int64(100 * ms))
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load, Weigh: func(string, int) uint32 {
			time.Sleep(time.Duration(weighing.Load()))
			return 1
		}}, weir.Options{MaxWeight: 100})
		first := s.Many(s.Context(), g, "a", "b", "c", "d")
		s.At(50 * ms)
		hasty := s.Many(s.Until(150*ms), g, "a", "b", "c", "d")
		second := s.Many(s.Context(), g, "a", "b", "c", "d")
		s.WantMany(hasty, 150*ms, map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded, "c": context.DeadlineExceeded, "d": context.DeadlineExceeded})
		b.Mu.Lock()
		b.Takes = time.Second
		b.Mu.Unlock()
		s.At(250 * ms)
		weighing.Store(0) // of the last key
		s.WantMany(first, 300*ms, map[string]any{"a": 1, "b": 1, "c": 1, "d": 1})
		s.WantMany(second, 1300*ms, map[string]any{"a": 2, "b": 2, "c": 2, "d": 2})
		b.Want(s, "a b c d at 0s", "a b c d at 300ms")
	})
}

// Many callers with overlapping sets of keys: each key has one load, and each
// caller gets its keys' values.
func TestB3Crowd(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		loads := make(map[int]int)
		var mu sync.Mutex
		g := rig.GuardFrom(s, weir.Source[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
			mu.Lock()
			defer mu.Unlock()
			values := make(map[int]int)
			for _, key := range keys {
				loads[key]++
				values[key] = -key
			}
			return values, nil
		}}, weir.Options{TTL: time.Hour})
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for j := range 20 {
					keys := []int{j, j + 1, j + i, j * i, 100}
					results := g.GetMany(s.Context(), keys)
					for _, key := range keys {
						if r := results[key]; r.Value != -key || r.Err != nil {
							s.Errorf("GetMany(%d) = %d, %v; want %d, nil", key, r.Value, r.Err, -key)
						}
					}
				}
			})
		}
		wg.Wait()
		for key, n := range loads {
			if n != 1 {
				s.Errorf("%d loads of %d; want 1", n, key)
			}
		}
	})
}
