package reports_test

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
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// O1: every kind of answer and its count, one call after the other.
func TestO1ResultAndStatsOfEveryKind(t *testing.T) {
	o := rig.FourInstants
	o.NegativeTTL = 10 * sec
	o.FailureMemo.Transient.Initial = 5 * sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Want(s.Get("k"), rig.Loaded(1))
		s.Until(sec)
		s.Want(s.Get("k"), rig.Fresh(1, sec))
		s.Until(110 * sec)
		s.Want(s.Get("k"), rig.Stale(1, 110*sec))
		s.WantLoads(2)
		s.Set(sec, rig.ErrDown)
		s.Until(300 * sec)
		a, b := s.Ask("k"), s.Ask("k")
		s.WantAt(a, 301*sec, rig.StaleOnError(2, 191*sec, rig.ErrDown))
		s.WantAt(b, 301*sec, rig.Joined(rig.StaleOnError(2, 191*sec, rig.ErrDown)))
		s.Until(302 * sec)
		s.Want(s.Get("k"), rig.StaleOnError(2, 192*sec, rig.ErrDown))
		s.Want(s.Get("new"), rig.Failure(rig.ErrDown))
		s.Want(s.Get("new"), rig.Remembered(rig.ErrDown))
		s.Set(0, weir.ErrNotFound)
		s.Want(s.Get("gone"), rig.Negative(weir.FromLoad, 0))
		s.Want(s.Get("gone"), rig.Negative(weir.FromMemory, 0))
		s.Set(10*sec, nil)
		c := s.Ask("set")
		s.Until(308 * sec)
		s.G.Set(s.Context(), "set", 77)
		s.WantAt(c, 313*sec, rig.Superseded(rig.Loaded(6)))

		got, want := s.G.Stats(), weir.Stats{
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
		gate := &rig.Gate{}
		o := weir.Options{
			TTL: 10 * sec, RefreshAhead: 0.3, StaleWhileRevalidate: 5 * sec, StaleIfError: 20 * sec,
			NegativeTTL: 3 * sec, SoftTimeout: sec, LoadTimeout: 4 * sec, Limiter: gate,
		}
		if seed%2 == 0 {
			o.FailureMemo.Transient.Initial = 2 * sec
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		rig.Play(t, o, func(s *rig.Scene) {
			var gets, served atomic.Uint64
			errs := []error{nil, nil, rig.ErrDown, weir.ErrNotFound}
			for range 1500 {
				key := fmt.Sprint(rnd.IntN(5))
				switch rnd.IntN(24) {
				case 0:
					s.G.Set(s.Context(), key, 0)
				case 1:
					s.G.Invalidate(s.Context(), key)
				case 2:
					s.G.Expire(s.Context(), key)
				case 3:
					s.Set(time.Duration(rnd.Int64N(int64(6*sec))), errs[rnd.IntN(4)])
				case 4:
					gate.Shut.Store(rnd.IntN(4) == 0)
				case 5:
					gate.Shut.Store(false)
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
							err = s.G.GetMany(ctx, []string{key, "other", key})[key].Err
						case 1:
							err = s.G.RefreshResult(ctx, key).Err
						case 2:
							cancel()
							_, err = s.G.Get(ctx, key)
						default:
							err = s.G.GetResult(ctx, key).Err
						}
						if err == nil {
							served.Add(1)
						}
					}()
				}
				s.Until(s.Now() + time.Duration(rnd.Int64N(int64(700*ms))))
			}
			s.Until(s.Now() + time.Minute)
			st := s.G.Stats()
			if sum := st.Calls(); sum != gets.Load() {
				s.Errorf("seed %d: %d calls, but what became of them adds up to %d: %+v", seed, gets.Load(), sum, st)
			}
			if st.Running != 0 || st.Flights != 0 || st.Refreshing != 0 || st.Stuck != 0 || gate.Out.Load() != 0 {
				s.Errorf("seed %d: at rest: %+v, %d permits out; want none", seed, st, gate.Out.Load())
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
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		if r, ok := s.G.Peek("k"); ok {
			s.Errorf("Peek = %+v; want nothing", r)
		}
		s.Prime("k")
		before := s.G.Stats()
		for _, row := range []struct {
			at   time.Duration
			want weir.Result[int]
		}{
			{0, rig.Fresh(1, 0)},
			{90 * sec, rig.Fresh(1, 90*sec)},
			{110 * sec, rig.Stale(1, 110*sec)},
			{200 * sec, rig.StaleOnError(1, 200*sec, nil)},
			{500 * sec, weir.Result[int]{}},
		} {
			s.Until(row.at)
			r, ok := s.G.Peek("k")
			s.Want(r, row.want)
			if ok != (row.at < 500*sec) {
				s.Errorf("at %v: Peek found something: %v", row.at, ok)
			}
		}
		s.WantLoads(1)
		if after := s.G.Stats(); after != before {
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
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		refresh := func() weir.Result[int] { return s.G.RefreshResult(s.Context(), "k") }
		s.Want(refresh(), rig.Loaded(1))
		s.Want(refresh(), rig.Loaded(2))
		s.Want(s.Get("k"), rig.Fresh(2, 0))
		s.Set(0, rig.ErrDown)
		s.Until(10 * sec)
		s.Want(refresh(), rig.Failure(rig.ErrDown))
		s.Want(s.Get("k"), rig.Fresh(2, 10*sec))
		s.Set(10*sec, nil)
		s.Until(200 * sec)
		a := s.Ask("k")
		s.Until(205 * sec)
		s.Want(refresh(), rig.Joined(rig.Loaded(4)))
		s.WantAt(a, 210*sec, rig.Loaded(4))
		s.Set(0, weir.ErrNotFound)
		s.Want(refresh(), rig.Negative(weir.FromLoad, 0))
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(rig.ErrDown)
		if r := s.G.RefreshResult(ctx, "k"); !errors.Is(r.Err, rig.ErrDown) {
			s.Errorf("Refresh with a done context = %v; want its cause", r.Err)
		}
		s.WantLoads(5)
	})
}

// A Get with an ended context gets a fresh value, and loads nothing.
func TestO1DoneContextStillHits(t *testing.T) {
	rig.Play(t, weir.Options{TTL: sec}, func(s *rig.Scene) {
		s.Prime("k")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(rig.ErrDown)
		s.Want(s.G.GetResult(ctx, "k"), rig.Fresh(1, 0))
		s.Want(s.G.GetResult(ctx, "other"), rig.Failure(rig.ErrDown))
		s.WantLoads(1)
	})
}
