package entries_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// The load's durations replace the Guard's; zero means the Guard's, negative
// means none.
func TestE5LoadDecidesDurations(t *testing.T) {
	o := weir.Options{TTL: 100 * sec, StaleWhileRevalidate: 50 * sec, StaleIfError: 400 * sec}
	for _, row := range []struct {
		name           string
		entry          weir.Entry[int]
		ttl, swr, sife time.Duration // instants
	}{
		{"zero is the guard's", weir.Entry[int]{}, 100 * sec, 150 * sec, 500 * sec},
		{"TTL", weir.Entry[int]{TTL: 10 * sec}, 10 * sec, 60 * sec, 410 * sec},
		{"longer TTL", weir.Entry[int]{TTL: 1000 * sec}, 1000 * sec, 1050 * sec, 1400 * sec},
		{"windows", weir.Entry[int]{StaleWhileRevalidate: sec, StaleIfError: 2 * sec}, 100 * sec, 101 * sec, 102 * sec},
		{"no stale-while-revalidate", weir.Entry[int]{StaleWhileRevalidate: -1}, 100 * sec, 100 * sec, 500 * sec},
		{"no stale-if-error", weir.Entry[int]{StaleIfError: -1}, 100 * sec, 150 * sec, 150 * sec},
		{"no windows", weir.Entry[int]{StaleWhileRevalidate: -1, StaleIfError: -1}, 100 * sec, 100 * sec, 100 * sec},
	} {
		t.Run(row.name, func(t *testing.T) {
			rig.Play(t, o, func(s *rig.Scene) {
				s.Says(row.entry, nil)
				s.Want(s.Get("k"), rig.Loaded(1))
				s.Says(weir.Entry[int]{}, rig.ErrDown)
				s.Until(row.ttl - 1)
				s.Want(s.Get("k"), rig.Fresh(1, row.ttl-1))
				s.WantLoads(1)
				if row.swr > row.ttl {
					s.Until(row.ttl)
					s.Want(s.Get("k"), rig.Stale(1, row.ttl))
					s.Until(row.swr - 1)
					s.Want(s.Get("k"), rig.Stale(1, row.swr-1))
				}
				if row.sife > row.swr {
					s.Until(row.swr)
					s.Want(s.Get("k"), rig.StaleOnError(1, row.swr, rig.ErrDown))
					s.Until(row.sife - 1)
					s.Want(s.Get("k"), rig.StaleOnError(1, row.sife-1, rig.ErrDown))
				}
				s.Until(row.sife)
				s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
			})
		})
	}
}

// A load's own TTL keeps a value if the Guard has no TTL. A negative one does
// not keep it, and removes the entry in memory.
func TestE5LoadDecidesWhetherToKeep(t *testing.T) {
	rig.Play(t, weir.Options{}, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{TTL: sec}, nil)
		s.Prime("k")
		s.Want(s.Get("k"), rig.Fresh(1, 0))
	})
	for _, e := range []weir.Entry[int]{{TTL: -1}, {NoStore: true}} {
		o := rig.FourInstants
		rig.Play(t, o, func(s *rig.Scene) {
			s.Prime("k")
			s.Says(e, nil)
			s.Until(200 * sec)
			s.Want(s.Get("k"), rig.Loaded(2))
			s.Says(weir.Entry[int]{}, rig.ErrDown)
			s.Want(s.Get("k"), rig.Failure(rig.ErrDown)) // nothing stale is left
			if n := s.G.Stats().Entries; n != 0 {
				s.Errorf("Stats().Entries = %d; want 0", n)
			}
		})
	}
}

func TestE5NotModifiedKeepsValueVersionAndTags(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{Value: 7, Version: "v1", Tags: []string{"t"}}, nil)
		s.Prime("k")
		s.Says(weir.Entry[int]{Value: 99, NotModified: true}, nil)
		s.Until(1000 * sec) // beyond all instants it is still the previous value
		s.Want(s.Get("k"), rig.Loaded(7))
		s.Until(1010 * sec)
		s.Want(s.Get("k"), rig.Fresh(7, 10*sec))
		s.Says(weir.Entry[int]{NotModified: true, Version: "v2", TTL: 2 * sec}, nil)
		s.Until(2000 * sec)
		s.Want(s.Get("k"), rig.Loaded(7))
		s.Until(2002 * sec)
		s.Want(s.Get("k"), rig.Stale(7, 2*sec))
		s.Until(3000 * sec)
		s.Get("k")

		var got []weir.Previous[int]
		for _, c := range s.Loads() {
			got = append(got, c.Prev)
		}
		want := []weir.Previous[int]{
			{},
			{OK: true, Value: 7, Version: "v1", Age: 1000 * sec},
			{OK: true, Value: 7, Version: "v1", Age: 1000 * sec},
			{OK: true, Value: 7, Version: "v2", Age: 2 * sec},
			{OK: true, Value: 7, Version: "v2", Age: 998 * sec},
		}
		if !slices.Equal(got, want) {
			s.Errorf("previous values %+v; want %+v", got, want)
		}
		if n := s.G.Stats().NotModified; n != 4 {
			s.Errorf("Stats().NotModified = %d; want 4", n)
		}
		if err := s.G.InvalidateTags(s.Context(), "t"); err != nil {
			s.Error(err)
		}
		if r, ok := s.G.Peek("k"); ok {
			s.Errorf("Peek = %+v, true; want the tag to have stayed with the entry", r)
		}
	})
}

func TestE5NotModifiedWithoutPrevious(t *testing.T) {
	o := rig.FourInstants
	o.NegativeTTL = sec
	rig.Play(t, o, func(s *rig.Scene) {
		notModified := weir.Entry[int]{NotModified: true}
		s.Says(notModified, nil)
		s.Want(s.Get("k"), rig.Failure(weir.ErrNotModified))
		s.Says(weir.Entry[int]{}, weir.ErrNotFound) // a not-found is no value either
		s.Get("k")
		s.Says(notModified, nil)
		s.Until(10 * sec)
		s.Want(s.Get("k"), rig.Failure(weir.ErrNotModified))
		s.Says(weir.Entry[int]{}, nil)
		s.Prime("k")
		s.G.Invalidate(s.Context(), "k") // nor is one that was invalidated
		s.Says(notModified, nil)
		s.Want(s.Get("k"), rig.Failure(weir.ErrNotModified))
		if err := s.G.SetEntry(s.Context(), "k", notModified); err != weir.ErrNotModified {
			s.Errorf("SetEntry = %v; want %v", err, weir.ErrNotModified)
		}
		for _, c := range s.Loads() {
			if c.Prev.OK {
				s.Errorf("load at %v received %+v; want nothing", c.At, c.Prev)
			}
		}
	})
}

// A value whose tag was invalidated is not a previous value.
func TestE5PreviousIsNotOneThatTagsHaveRemoved(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{Tags: []string{"t"}}, nil)
		s.Prime("k")
		s.G.InvalidateTags(s.Context(), "t")
		s.Prime("k")
		if prev := s.Loads()[1].Prev; prev.OK {
			s.Errorf("the load received %+v; want nothing", prev)
		}
	})
}

func TestE5LoadDecidesTheNegativeTTL(t *testing.T) {
	for _, row := range []struct {
		name  string
		entry weir.Entry[int]
		until time.Duration
	}{
		{"the guard's", weir.Entry[int]{}, 5 * sec},
		{"longer", weir.Entry[int]{TTL: 60 * sec}, 60 * sec},
		{"shorter", weir.Entry[int]{TTL: sec}, sec},
		{"none", weir.Entry[int]{TTL: -1}, 0},
		{"do not store", weir.Entry[int]{NoStore: true}, 0},
	} {
		rig.Play(t, weir.Options{TTL: 100 * sec, NegativeTTL: 5 * sec}, func(s *rig.Scene) {
			s.Says(row.entry, weir.ErrNotFound)
			s.Want(s.Get("k"), rig.Negative(weir.FromLoad, 0))
			if row.until > 0 {
				s.Until(row.until - 1)
				s.Want(s.Get("k"), rig.Negative(weir.FromMemory, row.until-1))
				s.Until(row.until)
			}
			s.Want(s.Get("k"), rig.Negative(weir.FromLoad, 0))
			s.WantLoads(2)
		})
	}
}

func TestE5NegativeAnswerHasTags(t *testing.T) {
	rig.Play(t, weir.Options{NegativeTTL: time.Hour}, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{Tags: []string{"t"}}, weir.ErrNotFound)
		s.Get("k")
		s.G.InvalidateTags(s.Context(), "t")
		s.Says(weir.Entry[int]{}, nil)
		s.Want(s.Get("k"), rig.Loaded(2))
	})
}

// mutable is a pooled value that its holder could alter.
type mutable struct{ n int }

// E7: with Clone no two callers, nor a caller and memory, share a value, on any
// path.
func TestE7CloneOnEveryPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		var clones atomic.Int64
		takes := time.Duration(0)
		src := weir.Source[string, *mutable]{
			LoadMany: func(ctx context.Context, keys []string) (map[string]*mutable, error) {
				err := fail
				time.Sleep(takes)
				if err != nil {
					return nil, err
				}
				m := map[string]*mutable{}
				for _, key := range keys {
					m[key] = &mutable{n: 1}
				}
				return m, nil
			},
			Clone: func(v *mutable) *mutable { clones.Add(1); c := *v; return &c },
		}
		o := rig.FourInstants
		o.SoftTimeout = sec
		g := weir.Must(weir.NewFrom(src, o))
		ctx := t.Context()
		seen := map[*mutable]string{}
		own := func(path string, v *mutable) {
			t.Helper()
			switch {
			case v == nil:
				t.Fatalf("%s: no value", path)
			case v.n != 1:
				t.Errorf("%s: value %d; want 1, as loaded", path, v.n)
			case seen[v] != "":
				t.Errorf("%s: the value that %s returned", path, seen[v])
			}
			seen[v] = path
			v.n = 99
		}
		get := func(path string, state weir.State) {
			t.Helper()
			r := g.GetResult(ctx, "k")
			if r.State != state {
				t.Errorf("%s: state %v, %v; want %v", path, r.State, r.Err, state)
			}
			own(path, r.Value)
		}
		start := time.Now()
		until := func(d time.Duration) {
			time.Sleep(d - time.Since(start))
			synctest.Wait()
		}

		get("load", weir.StateLoaded)
		v, _ := g.Get(ctx, "k")
		own("Get hit", v)
		get("hit", weir.StateFresh)
		r, _ := g.Peek("k")
		own("Peek", r.Value)
		for key, r := range g.GetMany(ctx, []string{"k", "other"}) {
			own("GetMany "+key, r.Value)
		}
		own("Refresh", g.RefreshResult(ctx, "k").Value)
		until(85 * sec)
		fail = rig.ErrDown
		get("refresh ahead", weir.StateFresh)
		synctest.Wait()
		until(120 * sec)
		get("stale", weir.StateStale)
		synctest.Wait()
		until(200 * sec)
		get("stale on error", weir.StateStaleOnError)
		r, _ = g.Peek("k")
		own("Peek stale", r.Value)
		takes = 5 * sec
		get("soft timeout", weir.StateStaleOnError)
		until(300 * sec)
		fail = nil
		done := make(chan *mutable)
		for range 3 {
			go func() { done <- g.RefreshResult(ctx, "k").Value }()
		}
		for range 3 {
			own("joiner", <-done)
		}
		if n := clones.Load(); int(n) != len(seen) {
			t.Errorf("%d clones for %d answers; want one each", n, len(seen))
		}
		g.Close(context.Background())
	})
}

// E7: the previous value that the load receives, and the value that the caller
// of Set keeps, are copies too.
func TestE7CloneShieldsMemoryFromLoadsAndSet(t *testing.T) {
	type V = *mutable
	load := func(_ context.Context, _ string, prev weir.Previous[V]) (weir.Entry[V], error) {
		if prev.OK {
			prev.Value.n = 99 // as a load that builds on it would
			return weir.Entry[V]{}, rig.ErrDown
		}
		return weir.Entry[V]{Value: &mutable{1}}, nil
	}
	g := weir.Must(weir.NewFrom(weir.Source[string, V]{
		LoadEntry: load,
		Clone:     func(v V) V { c := *v; return &c },
	}, weir.Options{TTL: time.Hour}))
	ctx := t.Context()
	g.Get(ctx, "k")
	g.Refresh(ctx, "k")
	if v, err := g.Get(ctx, "k"); err != nil || v.n != 1 {
		t.Errorf("Get = %d, %v after a load altered its previous value; want 1", v.n, err)
	}
	mine := &mutable{2}
	g.Set(ctx, "k", mine)
	mine.n = 99
	if v, err := g.Get(ctx, "k"); err != nil || v.n != 2 {
		t.Errorf("Get = %d, %v after the caller of Set altered its value; want 2", v.n, err)
	}
}
