package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// O1: every kind of answer and its count, one call after the other.
func TestO1ResultAndStatsOfEveryKind(t *testing.T) {
	o := fourInstants
	o.NegativeTTL = 10 * sec
	o.FailureMemo.Transient.Initial = 5 * sec
	play(t, o, func(s *scene) {
		s.want(s.get("k"), loaded(1))
		s.until(sec)
		s.want(s.get("k"), fresh(1, sec))
		s.until(110 * sec)
		s.want(s.get("k"), stale(1, 110*sec))
		s.wantLoads(2)
		s.set(sec, errDry)
		s.until(300 * sec)
		a, b := s.ask("k"), s.ask("k")
		s.wantAt(a, 301*sec, staleOnError(2, 191*sec, errDry))
		s.wantAt(b, 301*sec, joined(staleOnError(2, 191*sec, errDry)))
		s.until(302 * sec)
		s.want(s.get("k"), staleOnError(2, 192*sec, errDry))
		s.want(s.get("new"), failure(errDry))
		s.want(s.get("new"), remembered(errDry))
		s.set(0, weir.ErrNotFound)
		s.want(s.get("gone"), negative(weir.FromLoad, 0))
		s.want(s.get("gone"), negative(weir.FromMemory, 0))
		s.set(10*sec, nil)
		c := s.ask("set")
		s.until(308 * sec)
		s.g.Set(s.Context(), "set", 77)
		s.wantAt(c, 313*sec, superseded(loaded(6)))

		got, want := s.g.Stats(), weir.Stats{
			Hits: 1, StaleHits: 1, NegativeHits: 1, MemoHits: 2, Joins: 1, Started: 5, StaleOnError: 3,
			Loads: 6, Refreshes: 1, LoadFailures: 2, NotFound: 1, Superseded: 1,
			Entries: 4,
		}
		if got != want {
			s.Errorf("Stats = %+v; want %+v", got, want)
		}
		if n := got.Avoided(); n != 6 {
			s.Errorf("Avoided() = %d; want 6", n)
		}
	})
}

func TestO1StatesAndOriginsHaveNames(t *testing.T) {
	for state, want := range map[weir.State]string{
		weir.StateNone: "none", weir.StateFresh: "fresh", weir.StateStale: "stale", weir.StateStaleOnError: "stale on error",
		weir.StateNegative: "negative", weir.StateLoaded: "loaded", 99: "unknown",
	} {
		if got := state.String(); got != want {
			t.Errorf("State(%d).String() = %q; want %q", state, got, want)
		}
	}
	for origin, want := range map[weir.Origin]string{
		weir.FromNone: "none", weir.FromMemory: "memory", weir.FromTier: "tier", weir.FromLoad: "load", 99: "unknown",
	} {
		if got := origin.String(); got != want {
			t.Errorf("Origin(%d).String() = %q; want %q", origin, got, want)
		}
	}
}

// Every call is exactly one of a hit, a stale hit, a negative hit, a memo hit, a
// join, the start of a load, turned away or rejected, whatever happens meanwhile.
func TestO1CountersAddUp(t *testing.T) {
	for seed := range histories.Seeds(t, 4, 40) {
		gate := &gate{}
		o := weir.Options{
			TTL: 10 * sec, RefreshAhead: 0.3, StaleWhileRevalidate: 5 * sec, StaleIfError: 20 * sec,
			NegativeTTL: 3 * sec, SoftTimeout: sec, LoadTimeout: 4 * sec, Limiter: gate,
		}
		if seed%2 == 0 {
			o.FailureMemo.Transient.Initial = 2 * sec
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		play(t, o, func(s *scene) {
			var gets, served atomic.Uint64
			errs := []error{nil, nil, errDry, weir.ErrNotFound}
			for range 1500 {
				key := fmt.Sprint(rnd.IntN(5))
				switch rnd.IntN(24) {
				case 0:
					s.g.Set(s.Context(), key, 0)
				case 1:
					s.g.Invalidate(s.Context(), key)
				case 2:
					s.g.Expire(s.Context(), key)
				case 3:
					s.set(time.Duration(rnd.Int64N(int64(6*sec))), errs[rnd.IntN(4)])
				case 4:
					gate.shut.Store(rnd.IntN(4) == 0)
				case 5:
					gate.shut.Store(false)
				default:
					ctx, cancel := context.WithTimeout(s.Context(), 1+time.Duration(rnd.Int64N(int64(5*sec))))
					kind := rnd.IntN(8)
					if kind == 0 {
						gets.Add(2)
					} else {
						gets.Add(1)
					}
					go func() {
						defer cancel()
						var err error
						switch kind {
						case 0: // each key is a call, once
							err = s.g.GetMany(ctx, []string{key, "other", key})[key].Err
						case 1:
							err = s.g.RefreshResult(ctx, key).Err
						case 2:
							cancel()
							_, err = s.g.Get(ctx, key)
						default:
							err = s.g.GetResult(ctx, key).Err
						}
						if err == nil {
							served.Add(1)
						}
					}()
				}
				s.until(s.now() + time.Duration(rnd.Int64N(int64(700*ms))))
			}
			s.until(s.now() + time.Minute)
			st := s.g.Stats()
			if sum := st.Calls(); sum != gets.Load() {
				s.Errorf("seed %d: %d calls, but what became of them adds up to %d: %+v", seed, gets.Load(), sum, st)
			}
			if st.Running != 0 || st.Flights != 0 || st.Refreshing != 0 || st.Stuck != 0 || gate.out.Load() != 0 {
				s.Errorf("seed %d: at rest: %+v, %d permits out; want none", seed, st, gate.out.Load())
			}
			if served.Load() < gets.Load()/4 || st.Joins == 0 || st.Hits == 0 || st.StaleHits == 0 || st.StaleOnError == 0 || st.Superseded == 0 || st.NegativeHits == 0 {
				s.Errorf("seed %d: something never happened: %+v", seed, st)
			}
		})
	}
}

// A call whose answer was overtaken before the call began starts over, and still
// counts once.
func TestO1ACallThatLooksAgainIsOne(t *testing.T) {
	for name, again := range map[string]func(context.Context, *weir.Guard[string, int]){
		"Get":     func(ctx context.Context, g *weir.Guard[string, int]) { g.Get(ctx, "k") },
		"GetMany": func(ctx context.Context, g *weir.Guard[string, int]) { g.GetMany(ctx, []string{"k"}) },
		"Refresh": func(ctx context.Context, g *weir.Guard[string, int]) { g.Refresh(ctx, "k") },
	} {
		synctest.Test(t, func(t *testing.T) {
			g := weir.Must(weir.NewFrom(weir.Source[string, int]{
				LoadEntry: func(context.Context, string, weir.Previous[int]) (weir.Entry[int], error) {
					time.Sleep(2 * sec)
					return weir.Entry[int]{Value: 1, Tags: []string{"all"}}, nil
				},
			}, weir.Options{TTL: time.Hour}))
			defer g.Close(t.Context())
			go g.Get(t.Context(), "k")
			time.Sleep(sec)
			if err := g.InvalidateTags(t.Context(), "all"); err != nil {
				t.Fatal(err)
			}
			again(t.Context(), g)
			synctest.Wait()
			got := g.Stats()
			if got.Calls() != 2 || got.Started != 1 || got.Joins != 1 || got.Loads != 2 {
				t.Errorf("%s: %d calls, %d started, %d joined, %d loads; want 2, 1, 1, 2: %+v", name, got.Calls(), got.Started, got.Joins, got.Loads, got)
			}
		})
	}
}

// Calls that never reach a load count too: refused because the queue is too long or
// by MaxStuck, with an ended context, or after Close.
func TestO1CallsThatAreSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: 5})
		if err != nil {
			t.Fatal(err)
		}
		hang := make(chan struct{})
		g := weir.Must(weir.New(func(_ context.Context, k string) (int, error) { <-hang; return 1, nil },
			weir.Options{TTL: time.Hour, Limiter: l, LoadTimeout: 10 * sec, MaxStuck: 1}))
		go g.Get(t.Context(), "running")
		synctest.Wait()
		go g.Get(t.Context(), "queued")
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		g.Get(ended, "a")
		g.GetMany(ended, []string{"a", "b"})
		g.Refresh(ended, "a")
		time.Sleep(11 * sec) // now it is stuck
		g.Get(t.Context(), "a")
		g.GetMany(t.Context(), []string{"a", "b"})
		g.Refresh(t.Context(), "a")
		close(hang)
		synctest.Wait()
		g.Close(t.Context())
		g.Get(t.Context(), "a")
		g.GetMany(t.Context(), []string{"a", "b"})
		g.Refresh(t.Context(), "a")
		if got := g.Stats(); got.Calls() != 14 || got.Started != 2 || got.TurnedAway != 4 || got.Rejected != 8 || got.StuckRefusals != 4 {
			t.Errorf("%d calls, %d started, %d turned away, %d rejected, %d stuck; want 14, 2, 4, 8, 4: %+v",
				got.Calls(), got.Started, got.TurnedAway, got.Rejected, got.StuckRefusals, got)
		}
	})
}

// Peek changes nothing: not the flights, not the counts, and not the entry's
// chance of eviction.
func TestO1PeekHasNoSideEffects(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		if r, ok := s.g.Peek("k"); ok {
			s.Errorf("Peek = %+v; want nothing", r)
		}
		s.prime("k")
		before := s.g.Stats()
		for _, row := range []struct {
			at   time.Duration
			want weir.Result[int]
		}{
			{0, fresh(1, 0)},
			{90 * sec, fresh(1, 90*sec)},
			{110 * sec, stale(1, 110*sec)},
			{200 * sec, staleOnError(1, 200*sec, nil)},
			{500 * sec, weir.Result[int]{}},
		} {
			s.until(row.at)
			r, ok := s.g.Peek("k")
			s.want(r, row.want)
			if ok != (row.at < 500*sec) {
				s.Errorf("at %v: Peek found something: %v", row.at, ok)
			}
		}
		s.wantLoads(1)
		if after := s.g.Stats(); after != before {
			s.Errorf("Stats = %+v after Peeks; want %+v", after, before)
		}
	})
}

func TestO1PeekDoesNotSpareAnEntry(t *testing.T) {
	peeked := func(use func(g *weir.Guard[int, int], k int)) (kept int) {
		synctest.Test(t, func(t *testing.T) {
			const bound = 1000
			g := weir.Must(weir.New(func(_ context.Context, k int) (int, error) { return k, nil }, weir.Options{TTL: time.Hour, MaxEntries: bound}))
			for k := range bound {
				g.Set(t.Context(), k, k)
			}
			synctest.Wait()
			for i := range 20 * bound {
				use(g, i%100)
				if i%4 == 0 {
					g.Get(t.Context(), bound+i%3000)
					synctest.Wait()
				}
			}
			for k := range 100 {
				if _, ok := g.Peek(k); ok {
					kept++
				}
			}
		})
		return kept
	}
	byGet := peeked(func(g *weir.Guard[int, int], k int) { g.Get(context.Background(), k) })
	byPeek := peeked(func(g *weir.Guard[int, int], k int) { g.Peek(k) })
	if byGet < 90 || byPeek > byGet/2 {
		t.Errorf("of 100 keys %d stay by Get and %d by Peek; want nearly all and few", byGet, byPeek)
	}
}

// Refresh loads even if memory has a value, and leaves that value if the load
// fails.
func TestO1Refresh(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		refresh := func() weir.Result[int] { return s.g.RefreshResult(s.Context(), "k") }
		s.want(refresh(), loaded(1))
		s.want(refresh(), loaded(2))
		s.want(s.get("k"), fresh(2, 0))
		s.set(0, errDry)
		s.until(10 * sec)
		s.want(refresh(), failure(errDry))
		s.want(s.get("k"), fresh(2, 10*sec))
		s.set(10*sec, nil)
		s.until(200 * sec)
		a := s.ask("k")
		s.until(205 * sec)
		s.want(refresh(), joined(loaded(4)))
		s.wantAt(a, 210*sec, loaded(4))
		s.set(0, weir.ErrNotFound)
		s.want(refresh(), negative(weir.FromLoad, 0))
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(errDry)
		if r := s.g.RefreshResult(ctx, "k"); !errors.Is(r.Err, errDry) {
			s.Errorf("Refresh with a done context = %v; want its cause", r.Err)
		}
		s.wantLoads(5)
	})
}

// A Get with an ended context gets a fresh value, and loads nothing.
func TestO1DoneContextStillHits(t *testing.T) {
	play(t, weir.Options{TTL: sec}, func(s *scene) {
		s.prime("k")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(errDry)
		s.want(s.g.GetResult(ctx, "k"), fresh(1, 0))
		s.want(s.g.GetResult(ctx, "other"), failure(errDry))
		s.wantLoads(1)
	})
}
