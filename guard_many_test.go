package weir_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A bulk is a source of several keys whose behaviour a story changes as it
// goes: each load uses the fields as they are when it begins.
type bulk struct {
	takes time.Duration
	err   error
	lacks []string // keys it does not have

	mu     sync.Mutex
	calls  []string // guarded by mu: the sorted keys of each call, and when it began
	causes []error  // guarded by mu: of the calls that were canceled
	start  time.Time
}

// load returns the number of the call for every key, counted from 1.
func (b *bulk) load(ctx context.Context, keys []string) (map[string]int, error) {
	b.mu.Lock()
	takes, err, lacks := b.takes, b.err, b.lacks
	if b.start.IsZero() {
		b.start = time.Now()
	}
	b.calls = append(b.calls, fmt.Sprintf("%s at %v", strings.Join(slices.Sorted(slices.Values(keys)), " "), time.Since(b.start)))
	n := len(b.calls)
	b.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		b.mu.Lock()
		b.causes = append(b.causes, context.Cause(ctx))
		b.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	values := map[string]int{"nobody asked": -1}
	for _, key := range keys {
		if !slices.Contains(lacks, key) {
			values[key] = n
		}
	}
	return values, err
}

func (b *bulk) want(s *story, calls ...string) {
	s.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.calls, calls) {
		s.Errorf("calls: %q; want %q", b.calls, calls)
	}
}

// A manyAnswer is the result of GetMany, and its time.
type manyAnswer struct {
	results map[string]weir.Result[int]
	at      time.Duration
	done    chan struct{}
}

// many calls GetMany on a new goroutine, and returns when that waits.
func (s *story) many(ctx context.Context, g *weir.Guard[string, int], keys ...string) *manyAnswer {
	a := &manyAnswer{done: make(chan struct{})}
	s.ask(func() weir.Result[int] {
		defer close(a.done)
		a.results = g.GetMany(ctx, keys)
		a.at = s.now()
		return weir.Result[int]{}
	})
	return a
}

// wantMany waits for the answer and compares it: each key with its value or
// its error.
func (s *story) wantMany(a *manyAnswer, at time.Duration, want map[string]any) {
	s.Helper()
	<-a.done
	if a.at != at || len(a.results) != len(want) {
		s.Errorf("GetMany: %d results at %v; want %d at %v", len(a.results), a.at, len(want), at)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		r := a.results[key]
		err, failed := want[key].(error)
		if failed && (!errors.Is(r.Err, err) || r.Value != 0) || !failed && (r.Err != nil || r.Value != want[key]) {
			s.Errorf("%s: %d, %v; want %v", key, r.Value, r.Err, want[key])
		}
	}
}

// Single and bulk loads alternate: running loads are joined, fresh keys are not
// loaded, and the rest is one call, which starts before any wait and takes one
// permit.
func TestB3JoinsWhatRunsAndLoadsTheRestInOneCall(t *testing.T) {
	tell(t, func(s *story) {
		m, b := &mill{takes: 2 * time.Second}, &bulk{takes: time.Second}
		c := concurrency(s, limit.ConcurrencyOptions{Limit: 2, Queue: -1})
		g := guardFrom(s, weir.Source[string, int]{Load: m.load, LoadMany: b.load}, weir.Options{TTL: time.Minute, Limiter: c})
		if err := g.Set(s.Context(), "fresh", 70); err != nil {
			s.Fatal(err)
		}
		running := s.get(s.Context(), g, "running")
		a := s.many(s.Context(), g, "running", "a", "fresh", "b", "a", "a", "fresh", "running")
		wantInUse(s, c, 2)
		b.want(s, "a b at 0s")
		joiner := s.get(s.Context(), g, "a") // one that joins the bulk load
		second := s.many(s.Context(), g, "b", "running", "fresh")
		s.wantMany(a, 2*time.Second, map[string]any{"running": 1, "a": 1, "b": 1, "fresh": 70})
		s.wantMany(second, 2*time.Second, map[string]any{"running": 1, "b": 1, "fresh": 70})
		if r := s.want(joiner, 1, nil, time.Second); !r.Joined {
			s.Error("Joined = false; want true")
		}
		s.want(running, 1, nil, 2*time.Second)
		for key, joined := range map[string]bool{"running": true, "a": false, "fresh": false} {
			if a.results[key].Joined != joined {
				s.Errorf("%s: Joined = %v; want %v", key, !joined, joined)
			}
		}
		s.wantRuns(m, 1)
		b.want(s, "a b at 0s")
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
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{})
		first := s.many(s.Context(), g, "a", "b", "c")
		s.at(500 * ms)
		second := s.many(s.Context(), g, "b", "c", "d", "e")
		third := s.many(s.Context(), g, "e", "a")
		s.wantMany(first, time.Second, map[string]any{"a": 1, "b": 1, "c": 1})
		s.wantMany(second, 1500*ms, map[string]any{"b": 1, "c": 1, "d": 2, "e": 2})
		s.wantMany(third, 1500*ms, map[string]any{"a": 1, "e": 2})
		b.want(s, "a b c at 0s", "d e at 500ms")
	})
}

func TestB3LoadManyAloneServesEverything(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour})
		s.want(s.get(s.Context(), g, "k"), 1, nil, time.Second)
		s.want(s.ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "k") }), 2, nil, 2*time.Second)
		s.at(4 * time.Second)
		s.want(s.get(s.Context(), g, "k"), 2, nil, 4*time.Second) // stale, and a refresh
		s.at(5 * time.Second)
		s.want(s.get(s.Context(), g, "k"), 3, nil, 5*time.Second)
		b.lacks = []string{"gone"}
		s.want(s.get(s.Context(), g, "gone"), 0, weir.ErrNotFound, 6*time.Second)
		b.want(s, "k at 0s", "k at 1s", "k at 4s", "gone at 5s")
	})
}

// A bulk load is canceled when the joiners of all its keys have left, and not
// before.
func TestB3CanceledWhenAllHaveLeft(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: 10 * time.Second}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{})
		starter := s.many(s.until(time.Second), g, "a", "b", "c")
		one := s.get(s.until(2*time.Second), g, "b")
		other := s.many(s.until(3*time.Second), g, "c", "b")
		gone := map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded, "c": context.DeadlineExceeded}
		s.wantMany(starter, time.Second, gone)
		s.want(one, 0, context.DeadlineExceeded, 2*time.Second)
		delete(gone, "a")
		s.at(2999 * ms)
		wantGauges(s, g, weir.Stats{Flights: 3, Running: 1}) // including the key without a caller
		s.wantMany(other, 3*time.Second, gone)
		s.at(3 * time.Second)
		wantGauges(s, g, weir.Stats{})
		if !slices.Equal(b.causes, []error{weir.ErrAbandoned}) {
			s.Errorf("causes = %v; want ErrAbandoned", b.causes)
		}
		if n := g.Stats().Abandoned; n != 1 {
			s.Errorf("Abandoned = %d; want 1", n)
		}
	})
}

// One live joiner of one key keeps the whole load, and all its values are kept.
func TestB3OneJoinerKeepsTheLoad(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: 2 * time.Second}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Minute})
		starter := s.many(s.until(time.Second), g, "a", "b", "c")
		joiner := s.get(s.Context(), g, "c")
		s.wantMany(starter, time.Second, map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded, "c": context.DeadlineExceeded})
		s.want(joiner, 1, nil, 2*time.Second)
		s.wantMany(s.many(s.Context(), g, "a", "b", "c"), 2*time.Second, map[string]any{"a": 1, "b": 1, "c": 1})
		b.want(s, "a b c at 0s")
	})
}

// The context ends in the middle: ready keys have their values, and the rest
// the cause.
func TestB3ContextEndsInTheMiddle(t *testing.T) {
	tell(t, func(s *story) {
		m, b := &mill{takes: 2 * time.Second}, &bulk{takes: 500 * ms}
		g := guardFrom(s, weir.Source[string, int]{Load: m.load, LoadMany: b.load}, weir.Options{TTL: time.Minute})
		slow := s.get(s.Context(), g, "slow")
		gone := errors.New("gone")
		ctx, hangUp := s.cancelable()
		a := s.many(ctx, g, "slow", "a", "b") // waits for the slow one first
		s.at(time.Second)
		hangUp(gone)
		s.wantMany(a, time.Second, map[string]any{"slow": gone, "a": 1, "b": 1})
		s.want(slow, 1, nil, 2*time.Second)
	})
}

// If the soft timeout was over before the context ended, the stale value is
// returned, whatever the order in which the keys were awaited.
func TestB3SoftTimeoutIsNotLostBehindAnotherKey(t *testing.T) {
	for range 16 { // a select between the two would be right half the time
		tell(t, func(s *story) {
			m := &mill{}
			g := s.guard(m.load, weir.Options{TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 100 * ms})
			g.Get(s.Context(), "stale")
			m.takes = time.Hour
			s.at(2 * time.Second)
			want := map[string]any{"stale": 1, "cold": context.DeadlineExceeded}
			a, b := s.many(s.until(3*time.Second), g, "stale", "cold"), s.many(s.until(3*time.Second), g, "cold", "stale")
			s.wantMany(a, 3*time.Second, want)
			s.wantMany(b, 3*time.Second, want)
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
		"with an error it failed": {errDown, errDown},
		"not found as an error":   {fmt.Errorf("none: %w", weir.ErrNotFound), weir.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				b := &bulk{takes: time.Second, err: row.err, lacks: []string{"b", "c"}}
				g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, FailureMemo: memo})
				want := map[string]any{"a": 1, "b": row.want, "c": row.want, "d": 1}
				s.wantMany(s.many(s.Context(), g, "a", "b", "c", "d"), time.Second, want)
				s.wantMany(s.many(s.Context(), g, "a", "b", "c", "d"), time.Second, want) // from memory
				b.want(s, "a b c d at 0s")
				if _, ok := g.Peek("nobody asked"); ok {
					s.Error("a key that was not asked for is kept")
				}
			})
		})
	}
}

func TestB3WithoutLoadManySingleLoadsAtOnce(t *testing.T) {
	tell(t, func(s *story) {
		m := &mill{takes: time.Second}
		c := concurrency(s, limit.ConcurrencyOptions{Limit: 2})
		g := s.guard(m.load, weir.Options{TTL: time.Hour, Limiter: c})
		a := s.many(s.Context(), g, "a", "b", "c", "d", "a")
		wantInUse(s, c, 2)
		<-a.done
		if a.at != 2*time.Second || len(a.results) != 4 {
			s.Errorf("%d results at %v; want 4 at 2s: two at a time", len(a.results), a.at)
		}
		s.wantRuns(m, 4)
	})
}

func TestB3RefusedOrHungAsAWhole(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		c := concurrency(s, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{
			TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 100 * ms, LoadTimeout: 5 * time.Second, Limiter: c})
		s.wantMany(s.many(s.Context(), g, "a", "b"), 0, map[string]any{"a": 1, "b": 1})
		b.takes = time.Hour
		s.at(2 * time.Second)
		hung := s.many(s.Context(), g, "a", "b", "cold") // the soft timeout for two of them
		refused := s.many(s.Context(), g, "colder", "colder still")
		s.wantMany(refused, 2*time.Second, map[string]any{"colder": limit.ErrLimited, "colder still": limit.ErrLimited})
		if n := g.Stats().Refusals; n != 1 {
			s.Errorf("Refusals = %d; want 1", n)
		}
		s.wantMany(hung, 7*time.Second, map[string]any{"a": 1, "b": 1, "cold": context.DeadlineExceeded})
		for _, key := range []string{"a", "b"} {
			if r := hung.results[key]; r.State != weir.StateStaleOnError || r.Cause == nil {
				s.Errorf("%s: State, Cause = %v, %v; want stale on error", key, r.State, r.Cause)
			}
		}
	})
}

// The stale keys of a GetMany are refreshed by one call in the background,
// which takes one place of MaxRefreshes.
func TestB3StaleKeysAreRefreshedInOneCall(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, MaxRefreshes: 1})
		s.many(s.Context(), g, "a", "b", "c")
		b.takes = time.Second
		s.at(2 * time.Second)
		for range 3 {
			s.wantMany(s.many(s.Context(), g, "a", "b"), 2*time.Second, map[string]any{"a": 1, "b": 1})
		}
		s.want(s.get(s.Context(), g, "c"), 1, nil, 2*time.Second) // skipped
		wantGauges(s, g, weir.Stats{Flights: 2, Running: 1, Refreshing: 1})
		s.at(3 * time.Second)
		s.wantMany(s.many(s.Context(), g, "a", "b"), 3*time.Second, map[string]any{"a": 2, "b": 2})
		b.want(s, "a b c at 0s", "a b at 2s")
		if n := g.Stats().RefreshesSkipped; n != 1 {
			s.Errorf("RefreshesSkipped = %d; want 1", n)
		}
	})
}

// A write takes one key off a running bulk load; the others are kept.
func TestB3WriteDuringABulkLoad(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: time.Hour})
		a := s.many(s.Context(), g, "a", "b", "c")
		s.at(500 * ms)
		g.Set(s.Context(), "a", 70)
		g.Invalidate(s.Context(), "b")
		late := s.many(s.Context(), g, "a", "b", "c")
		s.wantMany(a, time.Second, map[string]any{"a": 1, "b": 1, "c": 1})
		for key, want := range map[string]bool{"a": true, "b": true, "c": false} {
			if got := a.results[key].Superseded; got != want {
				s.Errorf("%s: Superseded = %v; want %v", key, got, want)
			}
		}
		s.wantMany(late, 1500*ms, map[string]any{"a": 70, "b": 2, "c": 1})
		s.wantMany(s.many(s.Context(), g, "a", "b", "c"), 1500*ms, map[string]any{"a": 70, "b": 2, "c": 1})
	})
}

// A GetMany that meets a bulk load whose function has just returned must not
// get its values, which are older; it loads all of them again, in one call.
func TestB3KeysToLoadAgainAreOneCall(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		var weighing atomic.Int64
		weighing.Store(int64(100 * ms))
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load, Weigh: func(string, int) uint32 {
			time.Sleep(time.Duration(weighing.Load()))
			return 1
		}}, weir.Options{MaxWeight: 100})
		first := s.many(s.Context(), g, "a", "b", "c", "d")
		s.at(50 * ms)
		hasty := s.many(s.until(150*ms), g, "a", "b", "c", "d")
		second := s.many(s.Context(), g, "a", "b", "c", "d")
		s.wantMany(hasty, 150*ms, map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded, "c": context.DeadlineExceeded, "d": context.DeadlineExceeded})
		b.mu.Lock()
		b.takes = time.Second
		b.mu.Unlock()
		s.at(250 * ms)
		weighing.Store(0) // of the last key
		s.wantMany(first, 300*ms, map[string]any{"a": 1, "b": 1, "c": 1, "d": 1})
		s.wantMany(second, 1300*ms, map[string]any{"a": 2, "b": 2, "c": 2, "d": 2})
		b.want(s, "a b c d at 0s", "a b c d at 300ms")
	})
}

// Many callers with overlapping sets of keys: each key has one load, and each
// caller gets its keys' values.
func TestB3Crowd(t *testing.T) {
	tell(t, func(s *story) {
		loads := make(map[int]int)
		var mu sync.Mutex
		g := guardFrom(s, weir.Source[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
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
