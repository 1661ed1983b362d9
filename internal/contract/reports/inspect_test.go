package reports_test

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
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
)

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
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 10 * sec, Deaf: true}
		g := s.Guard(m.Load, weir.Options{Limiter: s.OnePermit(), LoadTimeout: 6 * sec})
		wantFlights(s.T, g)
		s.Get(s.Until(time.Minute), g, "a")
		s.At(sec)
		s.Get(s.Until(3*sec), g, "a")
		s.Get(s.Until(time.Minute), g, "b")
		s.At(2 * sec)
		a := inspect.Flight{Key: "a", Keys: 1, State: inspect.FlightRunning, Age: 2 * sec, Joiners: 2}
		b := inspect.Flight{Key: "b", Keys: 1, State: inspect.FlightQueued, Age: sec, Joiners: 1}
		wantFlights(s.T, g, a, b)
		s.At(4 * sec) // one has left
		a.Age, a.Joiners, b.Age = 4*sec, 1, 3*sec
		wantFlights(s.T, g, a, b)
		s.At(7 * sec) // a is overdue, and keeps its permit
		a.Age, a.Joiners, a.State, b.Age = 7*sec, 0, inspect.FlightStuck, 6*sec
		wantFlights(s.T, g, a, b)
		if st := g.Stats(); st.Stuck != 1 || st.Running != 2 {
			s.Errorf("Stats have %d stuck of %d; want 1 of 2", st.Stuck, st.Running)
		}
		s.At(11 * sec)
		b.Age, b.State = 10*sec, inspect.FlightRunning
		wantFlights(s.T, g, b)
		s.At(30 * sec)
		wantFlights(s.T, g)
	})
}

// An abandoned load is stuck until it returns; one that follows its context is
// gone at once.
func TestO3_FlightsThatNobodyWaitsFor(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 10 * sec, Deaf: true}
		g := s.Guard(m.Load, weir.Options{})
		s.Get(s.Until(2*sec), g, "deaf")
		m.Deaf = false
		s.Get(s.Until(3*sec), g, "heeds")
		s.At(4 * sec)
		wantFlights(s.T, g, inspect.Flight{Key: "deaf", Keys: 1, State: inspect.FlightStuck, Age: 4 * sec})
	})
}

func TestO3_FlightsOfRefreshesAndBulkLoads(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, weir.Options{TTL: 10 * sec, StaleWhileRevalidate: time.Hour})
		s.Get(s.Context(), g, "a")
		b.Takes = 5 * sec
		s.At(20 * sec)
		s.Get(s.Context(), g, "a")
		s.At(21 * sec)
		go g.GetMany(s.Until(time.Hour), []string{"x", "y", "z"})
		synctest.Wait()
		s.Get(s.Until(time.Hour), g, "y")
		s.At(22 * sec)
		wantFlights(s.T, g,
			inspect.Flight{Key: "a", Keys: 1, State: inspect.FlightRunning, Age: 2 * sec, Background: true},
			inspect.Flight{Key: "x", Keys: 3, State: inspect.FlightRunning, Age: sec, Joiners: 4})
	})
}

// An instance that waits for another is in the state asking.
func TestO3_FlightsInAFleet(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		all := s.Instances(2, nil)
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
	rig.InFleet(t, func(s *rig.Site) {
		o := weir.Options{Name: "rows", TTL: time.Minute, Fleet: weir.Fleet{Config: fleet.Config{Tier: s.Tier, Lease: 600 * ms}}}
		many := func(ctx context.Context, keys []string) (map[string]rig.Row, error) {
			_, err := s.Load(ctx, "")
			return map[string]rig.Row{}, err
		}
		g := weir.Must(weir.NewFrom(weir.Source[string, rig.Row]{Load: s.Load, LoadMany: many}, o))
		defer g.Close(context.Background())
		go s.Instance(nil).Get(s.Context(), "b")
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
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Minute}
		g := s.Guard(m.Load, weir.Options{})
		for i := range 50 {
			s.Get(s.Until(30*sec), g, fmt.Sprint(i))
			s.At(s.Now() + 100*ms)
		}
		for most, want := range map[int]int{-1: 0, 0: 0, 1: 1, 7: 7, 1 << 30: 50} {
			flights := g.ActiveFlights(most)
			if len(flights) != want {
				s.Errorf("Flights(%d) has %d; want %d", most, len(flights), want)
			}
			for i, f := range flights {
				if f.Key != fmt.Sprint(i) || f.Age != s.Now()-time.Duration(i)*100*ms {
					s.Errorf("flight %d is %+v; want that which began %dth", i, f, i)
				}
			}
		}
	})
}

// Each entry is counted by how a Get would use it.
func TestO3_EntriesByTheirInstants(t *testing.T) {
	o := rig.FourInstants
	o.NegativeTTL, o.FailureMemo.Transient.Initial = 50*sec, 20*sec
	rig.Play(t, o, func(s *rig.Scene) {
		want := func(at time.Duration, want inspect.Entries) {
			s.Helper()
			s.Until(at)
			if got := s.G.CountEntries(); got != want {
				s.Errorf("at %v: Entries = %+v; want %+v", at, got, want)
			}
		}
		want(0, inspect.Entries{})
		s.Prime("a")
		s.Prime("b")
		s.Set(0, weir.ErrNotFound)
		s.Get("negative")
		s.Set(0, rig.ErrDown)
		s.Get("failing")
		want(sec, inspect.Entries{Fresh: 2, Negative: 1, Failing: 1})
		want(30*sec, inspect.Entries{Fresh: 2, Negative: 1, Dead: 1})
		want(81*sec, inspect.Entries{RefreshDue: 2, Dead: 2})
		s.Set(5*sec, nil)
		s.Get("a") // and the refresh is in flight
		want(82*sec, inspect.Entries{Fresh: 1, RefreshDue: 1, Dead: 2})
		want(110*sec, inspect.Entries{Fresh: 1, Stale: 1, Dead: 2})
		want(151*sec, inspect.Entries{Fresh: 1, OnError: 1, Dead: 2})
		s.Set(0, rig.ErrDown)
		s.Get("b")
		want(152*sec, inspect.Entries{Fresh: 1, Failing: 1, Dead: 2})
		want(172*sec, inspect.Entries{RefreshDue: 1, OnError: 1, Dead: 2})
		want(500*sec, inspect.Entries{OnError: 1, Dead: 3})
		want(600*sec, inspect.Entries{Dead: 4})
	})
}

func TestO3_EntriesOfAnInvalidatedTagAreDead(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Spring.Say = func(key string, n int) (weir.Entry[int], error) {
			return weir.Entry[int]{Value: n, Tags: []string{key}}, nil
		}
		s.Prime("a")
		s.Prime("b")
		s.G.InvalidateTags(s.Context(), "a")
		if got, want := s.G.CountEntries(), (inspect.Entries{Fresh: 1, Dead: 1}); got != want {
			s.Errorf("Entries = %+v; want %+v", got, want)
		}
	})
}

// LoadTimes and WaitTimes equal the durations that an Observer receives, in
// number and length.
func TestO3_DurationsAreWhatAnObserverIsTold(t *testing.T) {
	for seed := range histories.Seeds(t, 2, 8) {
		rec := &rig.Recorder{}
		o := weir.Options{TTL: 5 * sec, RefreshAhead: 0.3, StaleWhileRevalidate: 5 * sec, StaleIfError: 20 * sec, SoftTimeout: sec, LoadTimeout: 4 * sec, Observer: rec}
		b := &rig.Bulk{Takes: 700 * ms}
		rnd := rand.New(rand.NewPCG(seed, 9))
		if seed%2 == 0 {
			o.Limiter = &rig.Gate{}
		}
		rig.PlayFrom(t, o, func(src *weir.Source[string, int]) { src.LoadEntries = rig.EntriesOf(b.Load) }, func(s *rig.Scene) {
			keys := rig.SpringKeys(6)
			for range 300 {
				ctx, cancel := context.WithTimeout(s.Context(), 1+time.Duration(rnd.Int64N(int64(5*sec))))
				key := keys[rnd.IntN(6)]
				switch rnd.IntN(8) {
				case 0:
					s.Set(time.Duration(rnd.Int64N(int64(6*sec))), []error{nil, rig.ErrDown}[rnd.IntN(2)])
				case 1:
					go s.G.GetMany(ctx, keys[:3])
				case 2:
					go s.G.Refresh(ctx, key)
				case 3:
					s.G.Invalidate(ctx, key)
				default:
					go s.G.Get(ctx, key)
				}
				s.Until(s.Now() + time.Duration(rnd.Int64N(int64(700*ms))))
				defer cancel()
			}
			s.Until(s.Now() + time.Minute)
			var loads, waits inspect.Histogram
			for _, end := range rec.Ends {
				loads.Record(end.Duration)
			}
			for _, w := range rec.Waits {
				waits.Record(w.Duration)
			}
			wantDurations(s.T, "Loads", s.G.LoadTimes(), loads.Durations())
			wantDurations(s.T, "Waits", s.G.WaitTimes(), waits.Durations())
			if st := s.G.Stats(); s.G.LoadTimes().Count != st.Loads || st.Loads < 20 || len(rec.Waits) < 50 {
				s.Errorf("seed %d: %d loads timed, %d waits; want all of %d, and many", seed, s.G.LoadTimes().Count, len(rec.Waits), st.Loads)
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
	b := &rig.Bulk{Takes: 3 * sec}
	rig.PlayFrom(t, weir.Options{TTL: time.Hour}, func(src *weir.Source[string, int]) { src.LoadEntries = rig.EntriesOf(b.Load) }, func(s *rig.Scene) {
		keys := rig.SpringKeys(4)
		s.G.GetMany(s.Context(), keys)
		s.G.GetMany(s.Context(), keys)
		s.Get(keys[0])
		if d := s.G.WaitTimes(); d.Count != 4 || d.Sum != 12*sec {
			s.Errorf("Waits = %d in %v; want 4 in 12s", d.Count, d.Sum)
		}
		if d := s.G.LoadTimes(); d.Count != 1 || d.Sum != 3*sec {
			s.Errorf("Loads = %d in %v; want 1 in 3s", d.Count, d.Sum)
		}
	})
}

// A load that panics or exits counts as run; a refused one does not.
func TestO3_LoadsThatDoNotReturn(t *testing.T) {
	g := &rig.Gate{}
	rig.Play(t, weir.Options{Limiter: g}, func(s *rig.Scene) {
		s.Spring.Takes = sec
		s.Spring.Say = func(string, int) (weir.Entry[int], error) { panic("boom") }
		s.Get("k")
		g.Shut.Store(true)
		s.Get("k")
		if d := s.G.LoadTimes(); d.Count != 1 || d.Sum != sec {
			s.Errorf("Loads = %d in %v; want 1 in 1s", d.Count, d.Sum)
		}
	})
}

func TestO3_InspectorSaysWhoItIs(t *testing.T) {
	l := &rig.Gate{}
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
	ctx, keys := t.Context(), rig.SpringKeys(20)
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
