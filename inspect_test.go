package weir_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// onePermit returns a limiter for one load at a time.
func (s *story) onePermit() limit.Limiter {
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
	if err != nil {
		s.Fatal(err)
	}
	return l
}

// wantFlights compares the active flights.
func wantFlights[K comparable, V any](t *testing.T, g *weir.Guard[K, V], want ...inspect.Flight) {
	t.Helper()
	synctest.Wait()
	if got := g.ActiveFlights(100); !slices.Equal(got, want) {
		t.Errorf("Flights = %+v; want %+v", got, want)
	}
}

// One load runs, another waits for its permit, and one is given up and does not
// return.
func TestO3_FlightsRunQueueAndGetStuck(t *testing.T) {
	tell(t, func(s *story) {
		m := &mill{takes: 10 * sec, deaf: true}
		g := s.guard(m.load, weir.Options{Limiter: s.onePermit(), LoadTimeout: 6 * sec})
		wantFlights(s.T, g)
		s.get(s.until(time.Minute), g, "a")
		s.at(sec)
		s.get(s.until(3*sec), g, "a")
		s.get(s.until(time.Minute), g, "b")
		s.at(2 * sec)
		a := inspect.Flight{Key: "a", Keys: 1, State: inspect.FlightRunning, Age: 2 * sec, Joiners: 2}
		b := inspect.Flight{Key: "b", Keys: 1, State: inspect.FlightQueued, Age: sec, Joiners: 1}
		wantFlights(s.T, g, a, b)
		s.at(4 * sec) // one has left
		a.Age, a.Joiners, b.Age = 4*sec, 1, 3*sec
		wantFlights(s.T, g, a, b)
		s.at(7 * sec) // a is overdue, and keeps its permit
		a.Age, a.Joiners, a.State, b.Age = 7*sec, 0, inspect.FlightStuck, 6*sec
		wantFlights(s.T, g, a, b)
		if st := g.Stats(); st.Stuck != 1 || st.Running != 2 {
			s.Errorf("Stats have %d stuck of %d; want 1 of 2", st.Stuck, st.Running)
		}
		s.at(11 * sec)
		b.Age, b.State = 10*sec, inspect.FlightRunning
		wantFlights(s.T, g, b)
		s.at(30 * sec)
		wantFlights(s.T, g)
	})
}

// An abandoned load is stuck until it returns; one that follows its context is
// gone at once.
func TestO3_FlightsThatNobodyWaitsFor(t *testing.T) {
	tell(t, func(s *story) {
		m := &mill{takes: 10 * sec, deaf: true}
		g := s.guard(m.load, weir.Options{})
		s.get(s.until(2*sec), g, "deaf")
		m.deaf = false
		s.get(s.until(3*sec), g, "heeds")
		s.at(4 * sec)
		wantFlights(s.T, g, inspect.Flight{Key: "deaf", Keys: 1, State: inspect.FlightStuck, Age: 4 * sec})
	})
}

func TestO3_FlightsOfRefreshesAndBulkLoads(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, weir.Options{TTL: 10 * sec, StaleWhileRevalidate: time.Hour})
		s.get(s.Context(), g, "a")
		b.takes = 5 * sec
		s.at(20 * sec)
		s.get(s.Context(), g, "a")
		s.at(21 * sec)
		go g.GetMany(s.until(time.Hour), []string{"x", "y", "z"})
		synctest.Wait()
		s.get(s.until(time.Hour), g, "y")
		s.at(22 * sec)
		wantFlights(s.T, g,
			inspect.Flight{Key: "a", Keys: 1, State: inspect.FlightRunning, Age: 2 * sec, Background: true},
			inspect.Flight{Key: "x", Keys: 3, State: inspect.FlightRunning, Age: sec, Joiners: 4})
	})
}

// An instance that waits for another is in the state asking.
func TestO3_FlightsInAFleet(t *testing.T) {
	inFleet(t, func(s *site) {
		all := s.instances(2, nil)
		for _, g := range all {
			go g.Get(s.Context(), "k")
			synctest.Wait()
		}
		time.Sleep(50 * ms)
		wantFlights(s.T, all[0], inspect.Flight{Key: "k", Keys: 1, State: inspect.FlightRunning, Age: 50 * ms, Joiners: 1})
		wantFlights(s.T, all[1], inspect.Flight{Key: "k", Keys: 1, State: inspect.FlightAsking, Age: 50 * ms, Joiners: 1})
		time.Sleep(time.Second)
		wantFlights(s.T, all[1])
	})
}

// Keys that leave a bulk load for their own loads are listed separately.
func TestO3_FlightsThatAreMoved(t *testing.T) {
	inFleet(t, func(s *site) {
		o := weir.Options{Name: "rows", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.tier, Lease: 600 * ms}}}
		many := func(ctx context.Context, keys []string) (map[string]row, error) {
			_, err := s.load(ctx, "")
			return map[string]row{}, err
		}
		g := weir.Must(weir.NewFrom(weir.Source[string, row]{Load: s.load, LoadMany: many}, o))
		defer g.Close(context.Background())
		go s.instance(nil).Get(s.Context(), "b")
		synctest.Wait()
		go g.GetMany(s.Context(), []string{"a", "b", "c"})
		synctest.Wait()
		go g.Get(s.Context(), "later")
		time.Sleep(10 * ms)
		synctest.Wait()
		got := g.ActiveFlights(2)
		want := []inspect.Flight{
			{Key: "a", Keys: 2, State: inspect.FlightRunning, Age: 10 * ms, Joiners: 2},
			{Key: "b", Keys: 1, State: inspect.FlightAsking, Age: 10 * ms, Joiners: 1},
		}
		if !slices.Equal(got, want) {
			s.Errorf("Flights(2) = %+v; want %+v", got, want)
		}
	})
}

// The oldest flights are listed in order, however many there are.
func TestO3_FlightsAreBounded(t *testing.T) {
	tell(t, func(s *story) {
		m := &mill{takes: time.Minute}
		g := s.guard(m.load, weir.Options{})
		for i := range 50 {
			s.get(s.until(30*sec), g, fmt.Sprint(i))
			s.at(s.now() + 100*ms)
		}
		for most, want := range map[int]int{-1: 0, 0: 0, 1: 1, 7: 7, 1 << 30: 50} {
			flights := g.ActiveFlights(most)
			if len(flights) != want {
				s.Errorf("Flights(%d) has %d; want %d", most, len(flights), want)
			}
			for i, f := range flights {
				if f.Key != fmt.Sprint(i) || f.Age != s.now()-time.Duration(i)*100*ms {
					s.Errorf("flight %d is %+v; want that which began %dth", i, f, i)
				}
			}
		}
	})
}

// Each entry is counted by how a Get would use it.
func TestO3_EntriesByTheirInstants(t *testing.T) {
	o := fourInstants
	o.NegativeTTL, o.FailureMemo.Transient.Initial = 50*sec, 20*sec
	play(t, o, func(s *scene) {
		want := func(at time.Duration, want inspect.Entries) {
			s.Helper()
			s.until(at)
			if got := s.g.CountEntries(); got != want {
				s.Errorf("at %v: Entries = %+v; want %+v", at, got, want)
			}
		}
		want(0, inspect.Entries{})
		s.prime("a")
		s.prime("b")
		s.set(0, weir.ErrNotFound)
		s.get("negative")
		s.set(0, errDry)
		s.get("failing")
		want(sec, inspect.Entries{Fresh: 2, Negative: 1, Failing: 1})
		want(30*sec, inspect.Entries{Fresh: 2, Negative: 1, Dead: 1})
		want(81*sec, inspect.Entries{RefreshDue: 2, Dead: 2})
		s.set(5*sec, nil)
		s.get("a") // and the refresh is in flight
		want(82*sec, inspect.Entries{Fresh: 1, RefreshDue: 1, Dead: 2})
		want(110*sec, inspect.Entries{Fresh: 1, Stale: 1, Dead: 2})
		want(151*sec, inspect.Entries{Fresh: 1, OnError: 1, Dead: 2})
		s.set(0, errDry)
		s.get("b")
		want(152*sec, inspect.Entries{Fresh: 1, Failing: 1, Dead: 2})
		want(172*sec, inspect.Entries{RefreshDue: 1, OnError: 1, Dead: 2})
		want(500*sec, inspect.Entries{OnError: 1, Dead: 3})
		want(600*sec, inspect.Entries{Dead: 4})
	})
}

func TestO3_EntriesOfAnInvalidatedTagAreDead(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.spring.say = func(key string, n int) (weir.Entry[int], error) {
			return weir.Entry[int]{Value: n, Tags: []string{key}}, nil
		}
		s.prime("a")
		s.prime("b")
		s.g.InvalidateTags(s.Context(), "a")
		if got, want := s.g.CountEntries(), (inspect.Entries{Fresh: 1, Dead: 1}); got != want {
			s.Errorf("Entries = %+v; want %+v", got, want)
		}
	})
}

// LoadTimes and WaitTimes equal the durations that an Observer receives, in
// number and length.
func TestO3_DurationsAreWhatAnObserverIsTold(t *testing.T) {
	for seed := range histories.Seeds(t, 2, 8) {
		rec := &recorder{}
		o := weir.Options{TTL: 5 * sec, RefreshAhead: 0.3, StaleWhileRevalidate: 5 * sec, StaleIfError: 20 * sec, SoftTimeout: sec, LoadTimeout: 4 * sec, Observer: rec}
		b := &bulk{takes: 700 * ms}
		rnd := rand.New(rand.NewPCG(seed, 9))
		if seed%2 == 0 {
			o.Limiter = &gate{}
		}
		playFrom(t, o, func(src *weir.Source[string, int]) { src.LoadEntries = entriesOf(b.load) }, func(s *scene) {
			keys := springKeys(6)
			for range 300 {
				ctx, cancel := context.WithTimeout(s.Context(), 1+time.Duration(rnd.Int64N(int64(5*sec))))
				key := keys[rnd.IntN(6)]
				switch rnd.IntN(8) {
				case 0:
					s.set(time.Duration(rnd.Int64N(int64(6*sec))), []error{nil, errDry}[rnd.IntN(2)])
				case 1:
					go s.g.GetMany(ctx, keys[:3])
				case 2:
					go s.g.Refresh(ctx, key)
				case 3:
					s.g.Invalidate(ctx, key)
				default:
					go s.g.Get(ctx, key)
				}
				s.until(s.now() + time.Duration(rnd.Int64N(int64(700*ms))))
				defer cancel()
			}
			s.until(s.now() + time.Minute)
			var loads, waits inspect.Histogram
			for _, end := range rec.ends {
				loads.Record(end.Duration)
			}
			for _, w := range rec.waits {
				waits.Record(w.Duration)
			}
			wantDurations(s.T, "Loads", s.g.LoadTimes(), loads.Durations())
			wantDurations(s.T, "Waits", s.g.WaitTimes(), waits.Durations())
			if st := s.g.Stats(); s.g.LoadTimes().Count != st.Loads || st.Loads < 20 || len(rec.waits) < 50 {
				s.Errorf("seed %d: %d loads timed, %d waits; want all of %d, and many", seed, s.g.LoadTimes().Count, len(rec.waits), st.Loads)
			}
		})
	}
}

func wantDurations(t *testing.T, what string, got, want inspect.Durations) {
	t.Helper()
	if got.Count != want.Count || got.Sum != want.Sum || got.Quantile(0.5) != want.Quantile(0.5) || got.Quantile(0.99) != want.Quantile(0.99) {
		t.Errorf("%s: %d in %v, median %v; want %d in %v, median %v", what, got.Count, got.Sum, got.Quantile(0.5), want.Count, want.Sum, want.Quantile(0.5))
	}
}

// The keys of a GetMany wait concurrently, in whatever order they are awaited,
// and a hit does not wait.
func TestO3_WaitsOfAGetMany(t *testing.T) {
	b := &bulk{takes: 3 * sec}
	playFrom(t, weir.Options{TTL: time.Hour}, func(src *weir.Source[string, int]) { src.LoadEntries = entriesOf(b.load) }, func(s *scene) {
		keys := springKeys(4)
		s.g.GetMany(s.Context(), keys)
		s.g.GetMany(s.Context(), keys)
		s.get(keys[0])
		if d := s.g.WaitTimes(); d.Count != 4 || d.Sum != 12*sec {
			s.Errorf("Waits = %d in %v; want 4 in 12s", d.Count, d.Sum)
		}
		if d := s.g.LoadTimes(); d.Count != 1 || d.Sum != 3*sec {
			s.Errorf("Loads = %d in %v; want 1 in 3s", d.Count, d.Sum)
		}
	})
}

// A load that panics or exits counts as run; a refused one does not.
func TestO3_LoadsThatDoNotReturn(t *testing.T) {
	g := &gate{}
	play(t, weir.Options{Limiter: g}, func(s *scene) {
		s.spring.takes = sec
		s.spring.say = func(string, int) (weir.Entry[int], error) { panic("boom") }
		s.get("k")
		g.shut.Store(true)
		s.get("k")
		if d := s.g.LoadTimes(); d.Count != 1 || d.Sum != sec {
			s.Errorf("Loads = %d in %v; want 1 in 1s", d.Count, d.Sum)
		}
	})
}

func TestO3_InspectorSaysWhoItIs(t *testing.T) {
	l := &gate{}
	var in weir.Inspector = weir.Must(weir.New(func(context.Context, int) (int, error) { return 0, nil }, weir.Options{Name: "books", Limiter: l}))
	if in.Name() != "books" || in.Limiter() != l {
		t.Errorf("%q, %v; want the Options' name and limiter", in.Name(), in.Limiter())
	}
}

// All inspections run under traffic.
func TestO3_LookingUnderTraffic(t *testing.T) {
	g := weir.Must(weir.NewFrom(weir.Source[string, int]{
		Load: func(context.Context, string) (int, error) { return 1, nil },
		LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			return map[string]int{keys[0]: 1}, nil
		},
	}, weir.Options{TTL: ms, StaleWhileRevalidate: ms, RefreshAhead: 0.5, HotKeys: 3, NegativeTTL: ms, Batch: weir.Batching{MaxSize: 4}}))
	ctx, keys := t.Context(), springKeys(20)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for i := range 2000 {
				switch key := keys[i%len(keys)]; i % 7 {
				case 0:
					g.GetMany(ctx, keys[:5])
				case 1:
					g.Invalidate(ctx, key)
				case 2:
					g.Refresh(ctx, key)
				default:
					g.Get(ctx, key)
				}
			}
		})
	}
	all.Go(func() {
		for range 100 {
			flights := g.ActiveFlights(5)
			for i, f := range flights {
				if f.Key == nil || f.Keys < 1 || f.Age < 0 || f.Joiners < 0 || i > 0 && f.Age > flights[i-1].Age || len(flights) > 5 {
					t.Errorf("Flights(5) = %+v", flights)
				}
			}
			if n := g.CountEntries(); n.Stale < 0 {
				t.Errorf("Entries = %+v", n)
			}
			if h := g.HotKeys(3); len(h.ByTraffic) > 3 || len(h.ByLoadTime) > 3 {
				t.Errorf("HotKeys(3) = %+v", h)
			}
		}
	})
	all.Wait()
	if err := g.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if st := g.Stats(); g.LoadTimes().Count != st.Loads || len(g.ActiveFlights(5)) != 0 {
		t.Errorf("%d loads timed, %d in flight; want %d and none", g.LoadTimes().Count, len(g.ActiveFlights(5)), st.Loads)
	}
}
