package flights_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

type ctxKey struct{}

func TestF1LoadHasTheFirstCallersValuesNotItsDeadline(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		type seen struct {
			value    any
			deadline time.Duration
			err      error
		}
		loads := make(chan seen, 1)
		g := s.Guard(func(ctx context.Context, _ string) (int, error) {
			time.Sleep(time.Second)
			d, _ := ctx.Deadline()
			loads <- seen{ctx.Value(ctxKey{}), d.Sub(s.Start), ctx.Err()}
			return 1, nil
		}, weir.Options{})
		first := s.Get(context.WithValue(s.Until(100*ms), ctxKey{}, "first"), g, "k")
		second := s.Get(context.WithValue(s.Context(), ctxKey{}, "second"), g, "k")
		s.Want(first, 0, context.DeadlineExceeded, 100*ms)
		s.Want(second, 1, nil, time.Second)
		if got, want := <-loads, (seen{"first", weir.DefaultLoadTimeout, nil}); got != want {
			s.Errorf("the load saw %v; want %v", got, want)
		}
	})
}

func TestF1LeaderCancelsFollowersLive(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		g := s.Guard(m.Load, weir.Options{})
		ctx, hangUp := s.Cancelable()
		leader := s.Get(ctx, g, "k")
		var followers []*rig.Answer
		for range 10 {
			followers = append(followers, s.Get(s.Context(), g, "k"))
		}
		s.At(100 * ms)
		gone := errors.New("gone")
		hangUp(gone)
		s.Want(leader, 0, gone, 100*ms)
		for _, a := range followers {
			if r := s.Want(a, 1, nil, time.Second); !r.Joined || r.State != weir.StateLoaded {
				s.Errorf("Joined, State = %v, %v; want true, loaded", r.Joined, r.State)
			}
		}
		s.WantRuns(m, 1)
		if n := g.Stats().Joins; n != 10 {
			s.Errorf("Joins = %d; want 10", n)
		}
	})
}

func TestF2EndedContextStartsAndJoinsNothing(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute})
		gone := errors.New("gone")
		ended, cancel := s.Cancelable()
		cancel(gone)
		s.Want(s.Get(ended, g, "k"), 0, gone, 0)
		s.Want(s.Ask(func() weir.Result[int] { return g.RefreshResult(ended, "k") }), 0, gone, 0)
		s.Want(s.Ask(func() weir.Result[int] { return g.GetMany(ended, []string{"k"})["k"] }), 0, gone, 0)
		s.WantRuns(m, 0)
		running := s.Get(s.Context(), g, "k")
		s.Want(s.Get(ended, g, "k"), 0, gone, 0)
		s.Want(running, 1, nil, time.Second)
		if v, err := g.Get(ended, "k"); v != 1 || err != nil {
			s.Errorf("Get of a fresh value with an ended context = %d, %v; want 1, nil", v, err)
		}
		if n := g.Stats().Joins; n != 0 {
			s.Errorf("Joins = %d; want 0", n)
		}
	})
}

func TestF3LastOfAThousandLeavesCancels(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		causes := make(chan error, 1)
		g := s.Guard(func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return 0, ctx.Err()
		}, weir.Options{TTL: time.Minute, FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: time.Minute}}})
		var wg sync.WaitGroup
		for i := range 1000 {
			ctx := s.Until(time.Duration(1+i) * ms)
			wg.Go(func() { g.Get(ctx, "k") })
		}
		s.At(999 * ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1})
		s.At(1000 * ms)
		rig.WantGauges(s, g, weir.Stats{})
		wg.Wait()
		if err := <-causes; err != weir.ErrAbandoned {
			s.Errorf("the load's cause = %v; want ErrAbandoned", err)
		}
		if st := g.Stats(); st.Loads != 1 || st.Abandoned != 1 || st.LoadFailures != 0 {
			s.Errorf("Loads, Abandoned, LoadFailures = %d, %d, %d; want 1, 1, 0", st.Loads, st.Abandoned, st.LoadFailures)
		}
		if _, ok := g.Peek("k"); ok {
			s.Error("an abandoned load left something in memory")
		}
	})
}

func TestF3Grace(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute, AbandonGrace: 300 * ms})
		s.Want(s.Get(s.Until(100*ms), g, "lost"), 0, context.DeadlineExceeded, 100*ms)
		s.At(399 * ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1})
		s.At(400 * ms)
		rig.WantGauges(s, g, weir.Stats{})

		s.Want(s.Get(s.Until(500*ms), g, "kept"), 0, context.DeadlineExceeded, 500*ms) // its load began at 400 ms
		s.At(799 * ms)
		rejoined := s.Get(s.Context(), g, "kept") // at the last moment
		s.Want(rejoined, 2, nil, 1400*ms)
		if !rejoined.Joined {
			s.Error("Joined = false; want true")
		}

		s.Want(s.Get(s.Until(2300*ms), g, "late"), 0, context.DeadlineExceeded, 2300*ms) // ends within the grace
		s.At(2400 * ms)
		if v, err := g.Get(s.Context(), "late"); v != 3 || err != nil {
			s.Errorf("Get = %d, %v; want the value of the load that ended in its grace", v, err)
		}
		s.WantRuns(m, 3)
	})
}

func TestF3NeverRunsToItsEndAndKeepsTheValue(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute, AbandonGrace: weir.Never})
		s.Want(s.Get(s.Until(100*ms), g, "k"), 0, context.DeadlineExceeded, 100*ms)
		s.At(time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, time.Second)
		s.WantRuns(m, 1)
	})
}

// A background flight counts the Guard as a joiner: a caller that joins it and
// leaves changes nothing.
func TestF3BackgroundFlightGoesOnWithoutJoiners(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Second})
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 0)
		m.Takes = 2 * time.Second
		s.At(1500 * ms)
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 1500*ms) // stale; starts the refresh
		s.At(2500 * ms)                                     // beyond the window
		s.Want(s.Get(s.Until(3*time.Second), g, "k"), 0, context.DeadlineExceeded, 3*time.Second)
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1, Refreshing: 1})
		r := s.Want(s.Get(s.Context(), g, "k"), 2, nil, 3500*ms)
		if !r.Joined {
			s.Error("Joined = false; want true: a miss joins the background flight")
		}
		s.WantRuns(m, 2)
	})
}

func TestF3FlightLeftAtTheSoftTimeoutGoesOn(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: time.Minute, SoftTimeout: 100 * ms})
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 0)
		m.Takes = time.Second
		s.At(2 * time.Second)
		left := s.Get(s.Context(), g, "k")
		quitter := s.Get(s.Until(2050*ms), g, "k")
		s.Want(quitter, 1, nil, 2047500*time.Microsecond) // its own time is shorter
		var soft *weir.TimeoutError
		if r := s.Want(left, 1, nil, 2100*ms); r.State != weir.StateStaleOnError || !errors.As(r.Cause, &soft) || !soft.Soft {
			s.Errorf("State, Cause = %v, %v; want stale on error, the soft timeout", r.State, r.Cause)
		}
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 2100*ms) // the soft timeout counts from the load's start
		// A caller that leaves earlier still, now the only one on the flight.
		s.Want(s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Until(2500*ms), "k") }), 0, context.DeadlineExceeded, 2500*ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1})
		s.At(3 * time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 3*time.Second)
		s.WantRuns(m, 2)
	})
}

// Only the hard timeout and Close end a flight that the Guard itself is on.
func TestF3HardTimeoutAndCloseEndThePinned(t *testing.T) {
	for name, end := range map[string]struct {
		cause error
		at    time.Duration
	}{
		"hard timeout": {context.DeadlineExceeded, 5 * time.Second},
		"close":        {weir.ErrClosed, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				causes := make(chan error, 2)
				hang := false
				g := s.Guard(func(ctx context.Context, _ string) (int, error) {
					if hang {
						<-ctx.Done()
						if s.Now() != end.at {
							s.Errorf("ended at %v; want %v", s.Now(), end.at)
						}
						causes <- context.Cause(ctx)
					}
					return 1, nil
				}, weir.Options{TTL: time.Second, StaleWhileRevalidate: 2 * time.Second, StaleIfError: time.Minute, SoftTimeout: 100 * ms, LoadTimeout: 3 * time.Second})
				g.Get(s.Context(), "background")
				hang = true
				s.At(2 * time.Second)
				g.Get(s.Context(), "background")
				rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1, Refreshing: 1})
				if end.cause == weir.ErrClosed {
					s.At(end.at)
					g.Close(s.Context())
				} else {
					s.At(3500 * ms)
					s.Want(s.Get(s.Context(), g, "background"), 1, nil, 3500*ms) // past its soft timeout
				}
				if err := <-causes; !errors.Is(err, end.cause) {
					s.Errorf("cause = %v; want %v", err, end.cause)
				}
			})
		})
	}
}

// A caller comes after the last waiter has left a load that is slow to stop.
func TestF4CallerAfterAbandonmentLoadsAnew(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 2 * time.Second, Deaf: true}
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute})
		s.Want(s.Get(s.Until(100*ms), g, "k"), 0, context.DeadlineExceeded, 100*ms)
		rig.WantGauges(s, g, weir.Stats{Running: 1})
		m.Takes = time.Second
		live := s.Get(s.Context(), g, "k")
		s.Want(live, 2, nil, 1100*ms)
		if live.Joined {
			s.Error("Joined = true; want false")
		}
		s.At(3 * time.Second) // the first load has returned; its value is older
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 3*time.Second)
		s.WantRuns(m, 2)
	})
}

// The function has returned and a hook of the Guard still runs: the result is
// older than a caller that comes now.
func TestF4EndingFlightIsNotJoined(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"without a TTL": 0, "with a TTL": time.Minute} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				m := &rig.Mill{}
				var weighing atomic.Int64
				weighing.Store(int64(time.Second))
				g := rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, Weigh: func(string, int) uint32 {
					time.Sleep(time.Duration(weighing.Load()))
					return 1
				}}, weir.Options{TTL: ttl, MaxWeight: 1 << 20})
				first := s.Get(s.Context(), g, "k")
				s.At(100 * ms)
				hasty := s.Get(s.Until(200*ms), g, "k")
				late := s.Get(s.Context(), g, "k")
				many := s.Ask(func() weir.Result[int] { return g.GetMany(s.Context(), []string{"k"})["k"] })
				refresh := s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "k") })
				weighing.Store(0)
				s.Want(hasty, 0, context.DeadlineExceeded, 200*ms)
				s.Want(first, 1, nil, time.Second)
				for _, a := range []*rig.Answer{late, many, refresh} {
					<-a.Done
					if needsNew := ttl == 0 || a == refresh; a.At != time.Second || needsNew && a.Value < 2 {
						s.Errorf("late caller: %d at %v; want a newer value than 1 at 1s", a.Value, a.At)
					}
				}
				if n := m.Runs.Load(); ttl > 0 && n != 2 {
					s.Errorf("%d loads; want 2, the second by Refresh", n)
				}
			})
		})
	}
}

// F5: no second load starts between the commit and the removal of the flight
// from the table, nor between a caller's look at memory and the table's lock.
func TestF5OneLoadForAllWhoEverAsk(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		var loads [50]atomic.Int32
		g := rig.GuardFrom(s, weir.Source[int, int]{Load: func(_ context.Context, key int) (int, error) {
			loads[key].Add(1)
			return key, nil // returns at once, so that callers are at every step
		}}, weir.Options{TTL: time.Hour})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for key := range loads {
					if v, err := g.Get(s.Context(), key); v != key || err != nil {
						s.Errorf("Get(%d) = %d, %v; want the key, nil", key, v, err)
					}
				}
			})
		}
		wg.Wait()
		for key := range loads {
			if n := loads[key].Load(); n != 1 {
				s.Errorf("%d loads of key %d; want 1", n, key)
			}
		}
	})
}

// A slyCtx runs a function when its Err is first called, which a call does
// between its look at memory and the table's lock.
type slyCtx struct {
	context.Context
	first *sync.Once
	do    func()
}

func (c slyCtx) Err() error {
	c.first.Do(c.do)
	return c.Context.Err()
}

func TestF5LoadEndsBetweenTheLookAndTheLock(t *testing.T) {
	for way, call := range rig.Ways {
		if way == "Refresh" {
			continue // does not look
		}
		t.Run(way, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				m := &rig.Mill{}
				g := s.Guard(m.Load, weir.Options{TTL: time.Hour})
				g.Get(s.Context(), "other")
				ctx := slyCtx{s.Context(), new(sync.Once), func() { g.Get(s.Context(), "k") }}
				if r := call(g, ctx); r.Value != 2 || r.Err != nil {
					s.Errorf("%s = %d, %v; want 2, nil", way, r.Value, r.Err)
				}
				s.WantRuns(m, 2)
			})
		})
	}
}

func TestF5OneThousandCallersOneLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: ms}
		g := s.Guard(m.Load, weir.Options{TTL: time.Hour})
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
					s.Errorf("Get = %d, %v; want 1, nil", v, err)
				}
			})
		}
		wg.Wait()
		s.WantRuns(m, 1)
		if st := g.Stats(); st.Joins+st.Hits != 999 {
			s.Errorf("Joins + Hits = %d + %d; want 999", st.Joins, st.Hits)
		}
	})
}

// wantLoads requests all keys concurrently, and compares the number of loads.
func wantLoads[K comparable](t *testing.T, name string, want int, keys ...K) {
	t.Run(name, func(t *testing.T) {
		rig.Tell(t, func(s *rig.Story) {
			var n atomic.Int32
			// A value is the place of its key. Other types of values would double the number of
			// types that Guard is compiled for.
			g := rig.GuardFrom(s, weir.Source[K, int]{Load: func(_ context.Context, key K) (int, error) {
				n.Add(1)
				time.Sleep(ms)
				return slices.Index(keys, key), nil
			}}, weir.Options{TTL: time.Minute})
			for range 2 { // by a load, then from memory
				var wg sync.WaitGroup
				for _, key := range keys {
					wg.Go(func() {
						if got, err := g.Get(s.Context(), key); err != nil || keys[got] != key {
							s.Errorf("Get(%#v) = %d, %v; want the place of the key, nil", key, got, err)
						}
					})
				}
				wg.Wait()
			}
			if many := g.GetMany(s.Context(), keys); len(many) != want {
				s.Errorf("GetMany has %d results; want %d", len(many), want)
			}
			if n.Load() != int32(want) {
				s.Errorf("%d loads; want %d", n.Load(), want)
			}
		})
	})
}

func TestF7KeysAreComparedNotPrinted(t *testing.T) {
	type pair struct{ tenant, user string }
	type named string
	a, b := pair{"a b", "c"}, pair{"a", "b c"}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Fatalf("%v and %v print differently: the test proves nothing", a, b)
	}
	one, other := 1, 1
	wantLoads(t, "structs that print alike", 2, a, b, pair{"a b", "c"})
	wantLoads(t, "arrays", 2, [2]string{"a", ""}, [2]string{"", "a"}, [2]string{"a", ""})
	wantLoads[any](t, "interfaces", 6, 1, int64(1), "1", named("1"), a, a, 1, nil, nil)
	wantLoads(t, "pointers", 2, &one, &other, &one)
	wantLoads(t, "floats", 2, 0.0, math.Copysign(0, -1), math.Inf(1))
}

func TestF7KeyUnequalToItself(t *testing.T) {
	type key struct {
		tenant string
		score  float64
	}
	rig.Tell(t, func(s *rig.Story) {
		g := rig.GuardFrom(s, weir.Source[any, int]{Load: func(context.Context, any) (int, error) {
			s.Error("a load for a key that nobody can find again")
			return 0, nil
		}}, weir.Options{TTL: time.Minute})
		for _, nan := range []any{math.NaN(), key{"a", math.NaN()}, [1]float64{math.NaN()}} {
			calls := map[string]func() error{
				"Get":        func() error { _, err := g.Get(s.Context(), nan); return err },
				"GetResult":  func() error { return g.GetResult(s.Context(), nan).Err },
				"Refresh":    func() error { return g.RefreshResult(s.Context(), nan).Err },
				"Set":        func() error { return g.Set(s.Context(), nan, 1) },
				"Invalidate": func() error { return g.Invalidate(s.Context(), nan) },
				"Expire":     func() error { return g.Expire(s.Context(), nan) },
				"GetMany": func() error {
					for _, r := range g.GetMany(s.Context(), []any{nan}) {
						return r.Err
					}
					return nil
				},
			}
			for name, call := range calls {
				if err := call(); err != weir.ErrKey {
					s.Errorf("%s(%v) = %v; want ErrKey", name, nan, err)
				}
			}
			if _, ok := g.Peek(nan); ok {
				s.Errorf("Peek(%v) found something", nan)
			}
		}
		if n := g.Stats().Entries; n != 0 {
			s.Errorf("Entries = %d; want 0", n)
		}
	})
}

// A key without == panics in the caller, as in a map, while no lock is held.
func TestF7IncomparableKeyPanicsInTheCaller(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		g := rig.GuardFrom(s, weir.Source[any, int]{Load: func(context.Context, any) (int, error) { return 1, nil }}, weir.Options{TTL: time.Minute})
		bad := any([]int{1})
		for name, call := range map[string]func(){
			"Get":        func() { g.Get(s.Context(), bad) },
			"GetMany":    func() { g.GetMany(s.Context(), []any{bad}) },
			"Refresh":    func() { g.Refresh(s.Context(), bad) },
			"Peek":       func() { g.Peek(bad) },
			"Set":        func() { g.Set(s.Context(), bad, 1) },
			"Invalidate": func() { g.Invalidate(s.Context(), bad) },
			"Expire":     func() { g.Expire(s.Context(), bad) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						s.Errorf("%s did not panic", name)
					}
				}()
				call()
			}()
			if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
				s.Errorf("Get after %s = %d, %v; want 1, nil", name, v, err)
			}
		}
	})
}

// Ten callers of a load that fails after 300 ms get the error after 300 ms,
// from one load.
func TestF8OneFailureForAll(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 300 * ms, Err: rig.ErrDown}
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute})
		var all []*rig.Answer
		for range 10 {
			all = append(all, s.Get(s.Context(), g, "k"))
		}
		for _, a := range all {
			if r := s.Want(a, 0, rig.ErrDown, 300*ms); r.Err != rig.ErrDown || r.State != weir.StateNone {
				s.Errorf("Err, State = %v, %v; want the error itself, none", r.Err, r.State)
			}
		}
		s.WantRuns(m, 1)
		if n := g.Stats().LoadFailures; n != 1 {
			s.Errorf("LoadFailures = %d; want 1", n)
		}
	})
}

// TestF9NestedLoads requests keys from within loads, with every method.
func TestF9NestedLoads(t *testing.T) {
	type guard = weir.Guard[string, int]
	get := func(g *guard, ctx context.Context, key string) error { _, err := g.Get(ctx, key); return err }
	for name, row := range map[string]struct {
		nested func(g *guard, ctx context.Context, key string) error
		want   error
	}{
		"direct": {get, weir.ErrRecursive},
		"derived context": {func(g *guard, ctx context.Context, key string) error {
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, ctxKey{}, 1), time.Hour)
			defer cancel()
			return get(g, context.WithoutCancel(ctx), key)
		}, weir.ErrRecursive},
		"GetResult": {func(g *guard, ctx context.Context, key string) error { return g.GetResult(ctx, key).Err }, weir.ErrRecursive},
		"Refresh":   {func(g *guard, ctx context.Context, key string) error { return g.RefreshResult(ctx, key).Err }, weir.ErrRecursive},
		"GetMany": {func(g *guard, ctx context.Context, key string) error {
			r := g.GetMany(ctx, []string{"leaf", key})
			if r["leaf"].Err != nil || r["leaf"].Value != 4 {
				return errors.New("the other key was not loaded")
			}
			return r[key].Err
		}, weir.ErrRecursive},
		"on another goroutine": {func(g *guard, ctx context.Context, key string) error {
			err := make(chan error)
			go func() { err <- get(g, ctx, key) }()
			return <-err
		}, weir.ErrRecursive},
		"through another key": {func(g *guard, ctx context.Context, key string) error { return get(g, ctx, "by way of "+key) }, weir.ErrRecursive},
		"another key":         {func(g *guard, ctx context.Context, _ string) error { return get(g, ctx, "leaf") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				var g *guard
				g = s.Guard(func(ctx context.Context, key string) (int, error) {
					if key == "leaf" {
						return 4, nil
					}
					if via, ok := strings.CutPrefix(key, "by way of "); ok {
						return 0, get(g, ctx, via)
					}
					return 1, row.nested(g, ctx, key)
				}, weir.Options{})
				if _, err := g.Get(s.Context(), "k"); err != row.want || s.Now() != 0 {
					s.Errorf("error within the load = %v at %v; want %v at once", err, s.Now(), row.want)
				}
			})
		})
	}
}

// A load may request its own key if it does not wait for itself: from memory,
// from another Guard, or after it was given up.
func TestF9NoFalseAlarm(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		other := s.Guard((&rig.Mill{}).Load, weir.Options{})
		var g *weir.Guard[string, int]
		slow := false
		g = s.Guard(func(ctx context.Context, key string) (int, error) {
			if slow {
				time.Sleep(2 * time.Second) // its caller has left meanwhile
				slow = false
				return g.Get(context.WithoutCancel(ctx), key)
			}
			if _, err := other.Get(ctx, key); err != nil {
				s.Errorf("Get of the same key of another Guard: %v", err)
			}
			if err := g.Set(ctx, key, 7); err != nil {
				s.Errorf("Set in a load: %v", err)
			}
			return g.Get(ctx, key)
		}, weir.Options{TTL: time.Minute})
		r := s.Want(s.Get(s.Context(), g, "set"), 7, nil, 0)
		if !r.Superseded {
			s.Error("Superseded = false; want true: the load has set its own key")
		}
		slow = true
		s.Want(s.Get(s.Until(time.Second), g, "k"), 0, context.DeadlineExceeded, time.Second)
		s.At(2 * time.Second)
		if v, ok := g.Peek("k"); !ok || v.Value != 7 {
			s.Errorf("Peek = %v, %v; want what the load of an abandoned load has set", v.Value, ok)
		}
	})
}

// A cycle over two callers' loads is not detected; it ends by timeout.
func TestF9CycleOverTwoCallersEndsByTimeout(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		var g *weir.Guard[string, int]
		g = s.Guard(func(ctx context.Context, key string) (int, error) {
			time.Sleep(ms)
			return g.Get(ctx, map[string]string{"a": "b", "b": "a"}[key])
		}, weir.Options{LoadTimeout: time.Second})
		a, b := s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")
		s.Want(a, 0, context.DeadlineExceeded, time.Second)
		s.Want(b, 0, context.DeadlineExceeded, time.Second)
	})
}

// While a load hangs nothing else waits: hits, misses and writes of other keys,
// writes of the same key, or Stats.
func TestNoLockIsHeldDuringALoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Hour})
		for i := range 100 {
			g.Get(s.Context(), fmt.Sprint(i))
		}
		m.Takes, m.Deaf = time.Minute, true
		hung := s.Get(s.Context(), g, "hung")
		m.Takes = 0
		for i := range 100 {
			if v, err := g.Get(s.Context(), fmt.Sprint(i)); v != i+1 || err != nil {
				s.Errorf("hit of %d = %d, %v; want %d, nil", i, v, err, i+1)
			}
		}
		g.Get(s.Context(), "miss")
		g.GetMany(s.Context(), []string{"a", "b", "1"})
		g.Refresh(s.Context(), "1")
		for name, err := range map[string]error{
			"Set":            g.Set(s.Context(), "2", 2),
			"Set, same key":  g.Set(s.Context(), "hung", -1),
			"Invalidate":     g.Invalidate(s.Context(), "3", "hung"),
			"Expire":         g.Expire(s.Context(), "4", "hung"),
			"InvalidateTags": g.InvalidateTags(s.Context(), "tag"),
			"InvalidateAll":  g.InvalidateAll(s.Context()),
		} {
			if err != nil {
				s.Errorf("%s = %v; want nil", name, err)
			}
		}
		rig.WantGauges(s, g, weir.Stats{Running: 1})
		synctest.Wait()
		if s.Now() != 0 {
			s.Errorf("all this took %v; want no time", s.Now())
		}
		s.Want(hung, 0, context.DeadlineExceeded, 30*time.Second)
		s.At(time.Minute)
	})
}

// Instants count from the load's end, so a load that takes longer than the TTL
// still makes a fresh value.
func TestLoadLongerThanTheTTL(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 10 * time.Second}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second})
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 10*time.Second)
		s.At(10999 * ms)
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 10999*ms)
		s.At(11 * time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 21*time.Second)
		s.WantRuns(m, 2)
	})
}
