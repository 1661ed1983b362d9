package entries_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
)

// writes are the writes that overtake a load in flight. Each row's do runs for
// key "k" while a load of it is running.
var writes = []struct {
	name string
	do   func(s *rig.Scene) error
	sets bool // leaves the fresh value 77
}{
	{"Set", func(s *rig.Scene) error { return s.G.Set(s.Context(), "k", 77) }, true},
	{"SetEntry", func(s *rig.Scene) error {
		return s.G.SetEntry(s.Context(), "k", weir.Entry[int]{Value: 77, Tags: []string{"t"}})
	}, true},
	{"SetEntry without store", func(s *rig.Scene) error {
		switch err := s.G.SetEntry(s.Context(), "k", weir.Entry[int]{Value: 77, NoStore: true}); err {
		case nil:
			return errors.New("it was stored; want ErrNotStored")
		case weir.ErrNotStored:
			return nil
		default:
			return err
		}
	}, false},
	{"Invalidate", func(s *rig.Scene) error { return s.G.Invalidate(s.Context(), "j", "k") }, false},
	{"Expire", func(s *rig.Scene) error { return s.G.Expire(s.Context(), "j", "k") }, false},
	{"InvalidateAll", func(s *rig.Scene) error { return s.G.InvalidateAll(s.Context()) }, false},
	{"ExpireAll", func(s *rig.Scene) error { return s.G.ExpireAll(s.Context()) }, false},
}

func TestE6WritesBeatALoadInFlight(t *testing.T) {
	o := weir.Options{TTL: 100 * sec, StaleIfError: 400 * sec}
	for _, w := range writes {
		for _, present := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/present=%v", w.name, present), func(t *testing.T) {
				rig.Play(t, o, func(s *rig.Scene) {
					old := 0
					if present {
						s.Prime("k")
						old = 1
					}
					s.Set(10*sec, nil)
					s.Until(110 * sec)
					before, joiner := s.Ask("k"), s.Ask("k")
					s.Until(115 * sec)
					if err := w.do(s); err != nil {
						s.Fatal(err)
					}
					after := s.Ask("k")
					s.WantAt(before, 120*sec, rig.Superseded(rig.Loaded(old+1)))
					s.WantAt(joiner, 120*sec, rig.Joined(rig.Superseded(rig.Loaded(old+1))))
					if w.sets {
						s.WantAt(after, 115*sec, rig.Fresh(77, 0))
						s.Until(130 * sec)
						s.Want(s.Get("k"), rig.Fresh(77, 15*sec))
						s.WantLoads(old + 1)
						return
					}
					// The overtaken value is not in memory while the new load runs.
					if r, ok := s.G.Peek("k"); ok && r.Value != 1 {
						s.Errorf("Peek = %+v; want nothing of the overtaken load", r)
					}
					s.WantAt(s.Ask("k"), 125*sec, rig.Joined(rig.Loaded(old+2)))
					s.WantAt(after, 125*sec, rig.Loaded(old+2))
					s.Want(s.Get("k"), rig.Fresh(old+2, 0))
					s.WantLoads(old + 2)
					if n := s.G.Stats().Superseded; n != 1 {
						s.Errorf("Stats().Superseded = %d; want 1", n)
					}
				})
			})
		}
	}
}

// The same for a background refresh: the old load, ending last, changes
// nothing either.
func TestE6WritesBeatABackgroundRefresh(t *testing.T) {
	for _, w := range writes {
		for _, outcome := range []error{nil, rig.ErrDown, weir.ErrNotFound} {
			t.Run(fmt.Sprintf("%s/%v", w.name, outcome), func(t *testing.T) {
				o := rig.FourInstants
				o.NegativeTTL = time.Hour
				o.FailureMemo.Transient = weir.Backoff{Initial: time.Hour}
				rig.Play(t, o, func(s *rig.Scene) {
					s.Prime("k")
					s.Set(10*sec, outcome)
					s.Until(110 * sec)
					s.Want(s.Get("k"), rig.Stale(1, 110*sec)) // starts the refresh
					s.WantLoads(2)
					s.Until(115 * sec)
					if err := w.do(s); err != nil {
						s.Fatal(err)
					}
					s.Set(2*sec, nil)
					switch {
					case w.sets:
						s.Until(130 * sec)
						s.Want(s.Get("k"), rig.Fresh(77, 15*sec))
						s.WantLoads(2)
					case strings.HasPrefix(w.name, "Expire"): // which keeps the stale window, and allows a new refresh
						s.Want(s.Get("k"), rig.Stale(1, 115*sec))
						s.WantLoads(3)
						s.Until(121 * sec)
						s.Want(s.Get("k"), rig.Fresh(3, 4*sec))
					default:
						s.WantAt(s.Ask("k"), 117*sec, rig.Loaded(3))
						s.Until(121 * sec)
						s.Want(s.Get("k"), rig.Fresh(3, 4*sec))
					}
				})
			})
		}
	}
}

// Expire while a background refresh runs, and the new refresh fails too: the
// pause after the old failure does not apply to the new entry.
func TestE6ExpireLetsTheNextRefreshStart(t *testing.T) {
	o := rig.FourInstants
	o.RefreshRetry = time.Hour
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(90 * sec)
		s.Get("k") // refresh fails: none for an hour
		s.WantLoads(2)
		s.G.Expire(s.Context(), "k")
		s.Set(0, nil)
		s.Want(s.Get("k"), rig.Stale(1, 90*sec))
		s.WantLoads(3)
		s.Want(s.Get("k"), rig.Fresh(3, 0))
	})
}

func TestE6InvalidateLeavesNothingStale(t *testing.T) {
	for _, w := range writes {
		if w.sets || strings.HasPrefix(w.name, "Expire") {
			continue
		}
		rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
			s.Prime("k")
			s.Set(0, rig.ErrDown)
			s.Until(10 * sec)
			if err := w.do(s); err != nil {
				s.Fatal(err)
			}
			s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
			if r, ok := s.G.Peek("k"); ok {
				s.Errorf("after %s: Peek = %+v; want nothing", w.name, r)
			}
		})
	}
}

// An Invalidate while callers wait for a load that will fail: the value that
// was in memory when they came is not served.
func TestE6InvalidateDuringAFailingLoad(t *testing.T) {
	for _, soft := range []time.Duration{0, 7 * sec} {
		o := rig.FourInstants
		o.SoftTimeout = soft
		rig.Play(t, o, func(s *rig.Scene) {
			s.Prime("k")
			s.Set(10*sec, rig.ErrDown)
			s.Until(200 * sec)
			a := s.Ask("k")
			s.Until(205 * sec)
			s.G.Invalidate(s.Context(), "k")
			s.WantAt(a, 210*sec, rig.Failure(rig.ErrDown))
		})
	}
}

func TestE6ExpireKeepsTheWindowsAndNeverProlongs(t *testing.T) {
	o := weir.Options{TTL: 100 * sec, StaleWhileRevalidate: 50 * sec, StaleIfError: 400 * sec}
	for _, row := range []struct {
		expired            time.Duration
		again              time.Duration // another Expire, if not 0
		staleUntil, errEnd time.Duration
	}{
		{10 * sec, 0, 60 * sec, 410 * sec},
		{10 * sec, 40 * sec, 60 * sec, 410 * sec},
		{100*sec - 1, 0, 150*sec - 1, 500*sec - 1},
		{120 * sec, 0, 150 * sec, 500 * sec},
		{300 * sec, 0, 0, 500 * sec},
	} {
		for _, expire := range []func(*rig.Scene) error{
			func(s *rig.Scene) error { return s.G.Expire(s.Context(), "k") },
			func(s *rig.Scene) error { return s.G.ExpireAll(s.Context()) },
		} {
			rig.Play(t, o, func(s *rig.Scene) {
				s.Prime("k")
				s.Set(0, rig.ErrDown)
				for _, at := range []time.Duration{row.expired, row.again} {
					if at > 0 {
						s.Until(at)
						if err := expire(s); err != nil {
							s.Error(err)
						}
					}
				}
				if row.staleUntil > 0 {
					s.Want(s.Get("k"), rig.Stale(1, s.Now()))
					s.Until(row.staleUntil - 1)
					s.Want(s.Get("k"), rig.Stale(1, row.staleUntil-1))
					s.Until(row.staleUntil)
				}
				s.Want(s.Get("k"), rig.StaleOnError(1, s.Now(), rig.ErrDown))
				s.Until(row.errEnd - 1)
				s.Want(s.Get("k"), rig.StaleOnError(1, row.errEnd-1, rig.ErrDown))
				s.Until(row.errEnd)
				s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
			})
		}
	}
}

// A negative answer has no stale window to keep.
func TestE6ExpireRemovesANegativeAnswer(t *testing.T) {
	rig.Play(t, weir.Options{TTL: sec, NegativeTTL: time.Hour}, func(s *rig.Scene) {
		s.Set(0, weir.ErrNotFound)
		s.Get("k")
		s.G.Expire(s.Context(), "k")
		s.Set(0, nil)
		s.Want(s.Get("k"), rig.Loaded(2))
	})
}

// Callers after the write start a new load even if a failure is remembered.
func TestE6WritesForgetFailures(t *testing.T) {
	for _, w := range writes {
		if w.sets {
			continue
		}
		for _, present := range []bool{true, false} {
			o := weir.Options{TTL: 10 * sec, StaleIfError: 100 * sec}
			o.FailureMemo.Transient = weir.Backoff{Initial: time.Hour}
			rig.Play(t, o, func(s *rig.Scene) {
				n := 1
				if present {
					s.Prime("k")
					n = 2
				}
				s.Set(0, rig.ErrDown)
				s.Until(20 * sec)
				s.Get("k")
				s.Get("k")
				s.WantLoads(n)
				if err := w.do(s); err != nil {
					s.Fatal(err)
				}
				s.Set(0, nil)
				if r := s.Get("k"); r.Value != n+1 || r.State != weir.StateLoaded {
					s.Errorf("%s, present=%v: Get = %+v; want a load", w.name, present, r)
				}
			})
		}
	}
}

// Set without a TTL keeps nothing, but overtakes the load.
func TestE6SetWithoutTTLBeatsTheLoad(t *testing.T) {
	rig.Play(t, weir.Options{}, func(s *rig.Scene) {
		s.Set(10*sec, nil)
		before := s.Ask("k")
		s.Until(5 * sec)
		s.G.Set(s.Context(), "k", 77)
		after := s.Ask("k")
		s.WantAt(before, 10*sec, rig.Superseded(rig.Loaded(1)))
		s.WantAt(after, 15*sec, rig.Loaded(2))
	})
}

// A write after the soft timeout, when the caller has a stale value, overtakes
// that load as well.
func TestE6SetBeatsALoadBeyondTheSoftTimeout(t *testing.T) {
	o := rig.FourInstants
	o.SoftTimeout = sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(10*sec, nil)
		s.Until(200 * sec)
		s.WantAt(s.Ask("k"), 201*sec, rig.StaleOnError(1, 201*sec, context.DeadlineExceeded))
		s.G.Set(s.Context(), "k", 77)
		s.Until(220 * sec)
		s.Want(s.Get("k"), rig.Fresh(77, 19*sec))
	})
}

// A caller whose load fails gets what was set meanwhile.
func TestE6SetDuringAFailingLoad(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour}, func(s *rig.Scene) {
		s.Set(10*sec, rig.ErrDown)
		a := s.Ask("k")
		s.Until(5 * sec)
		s.G.Set(s.Context(), "k", 77)
		s.WantAt(a, 10*sec, rig.Fresh(77, 5*sec))
	})
}

// Keys of one bulk load are overtaken individually.
func TestE6InvalidateOneKeyOfABulkLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := 0
		g := weir.Must(weir.NewFrom(weir.Source[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
			mu.Lock()
			calls++
			n := calls
			mu.Unlock()
			time.Sleep(10 * sec)
			m := map[int]int{}
			for _, key := range keys {
				m[key] = 100*n + key
			}
			return m, nil
		}}, weir.Options{TTL: time.Hour}))
		done := make(chan map[int]weir.Result[int])
		go func() { done <- g.GetMany(t.Context(), []int{1, 2, 3}) }()
		time.Sleep(5 * sec)
		g.Invalidate(t.Context(), 2)
		for key, r := range <-done {
			if r.Value != 100+key || r.Superseded != (key == 2) {
				t.Errorf("GetMany: %d = %+v; want %d, superseded: %v", key, r, 100+key, key == 2)
			}
		}
		for key, want := range map[int]int{1: 101, 2: 202, 3: 103} {
			if v, err := g.Get(t.Context(), key); v != want || err != nil {
				t.Errorf("Get(%d) = %d, %v; want %d", key, v, err, want)
			}
		}
	})
}

func TestE6TagsBeatALoadInFlight(t *testing.T) {
	for _, present := range []bool{true, false} {
		rig.Play(t, weir.Options{TTL: 100 * sec, StaleIfError: 400 * sec}, func(s *rig.Scene) {
			s.Tagged("a", "b")
			old := 0
			if present {
				s.Prime("k")
				old = 1
			}
			s.Set(10*sec, nil)
			s.Until(110 * sec)
			before := s.Ask("k")
			s.Until(115 * sec)
			s.G.InvalidateTags(s.Context(), "x", "b")
			if r, ok := s.G.Peek("k"); ok {
				s.Errorf("Peek = %+v; want nothing", r)
			}
			var after []*rig.Reply
			for range 3 {
				after = append(after, s.Ask("k")) // they cannot know yet, and join
			}
			s.WantLoads(old + 1)
			s.WantAt(before, 120*sec, rig.Superseded(rig.Loaded(old+1)))
			synctest.Wait()
			starters := 0
			for _, a := range after {
				<-a.Done
				if a.At != 130*sec || a.Value != old+2 || a.Superseded {
					s.Errorf("after: %+v at %v; want %d at 130s", a.Result, a.At, old+2)
				}
				if !a.Joined {
					starters++
				}
			}
			if starters != 1 {
				s.Errorf("%d callers started the load; want 1", starters)
			}
			s.Want(s.Get("k"), rig.Fresh(old+2, 0))
			s.WantLoads(old + 2) // again exactly once
		})
	}
}

// An invalidation of other tags does not touch the load.
func TestE6OtherTagsDoNoHarm(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 100 * sec}, func(s *rig.Scene) {
		s.Tagged("a")
		s.Set(10*sec, nil)
		before := s.Ask("k")
		s.Until(5 * sec)
		s.G.InvalidateTags(s.Context(), "x", "y")
		after := s.Ask("k")
		s.WantAt(before, 10*sec, rig.Loaded(1))
		s.WantAt(after, 10*sec, rig.Joined(rig.Loaded(1)))
		s.Want(s.Get("k"), rig.Fresh(1, 0))
		s.WantLoads(1)
	})
}

// Of two invalidations during one load the first still counts: callers that
// came between them must not get the load's value.
func TestE6TagsInvalidatedTwiceDuringALoad(t *testing.T) {
	for _, second := range []string{"a", "b"} {
		rig.Play(t, weir.Options{TTL: 100 * sec}, func(s *rig.Scene) {
			s.Tagged("a", "b")
			s.Set(10*sec, nil)
			before := s.Ask("k")
			s.Until(2 * sec)
			s.G.InvalidateTags(s.Context(), "a")
			between := s.Ask("k")
			s.Until(4 * sec)
			s.G.InvalidateTags(s.Context(), second)
			after := s.Ask("k")
			s.WantAt(before, 10*sec, rig.Superseded(rig.Loaded(1)))
			<-between.Done
			<-after.Done
			for _, a := range []*rig.Reply{between, after} {
				if a.Value != 2 || a.At != 20*sec || a.Superseded {
					s.Errorf("%+v at %v; want 2 at 20s", a.Result, a.At)
				}
			}
			s.WantLoads(2)
		})
	}
}

// A write to the key after the tag's invalidation does not make the load's
// value valid for callers that came between the two.
func TestE6TagsThenAWriteDuringALoad(t *testing.T) {
	for _, w := range writes {
		t.Run(w.name, func(t *testing.T) {
			rig.Play(t, weir.Options{TTL: 100 * sec}, func(s *rig.Scene) {
				s.Tagged("a")
				s.Set(10*sec, nil)
				before := s.Ask("k")
				s.Until(2 * sec)
				s.G.InvalidateTags(s.Context(), "a")
				between := s.Ask("k")
				refresh := make(chan weir.Result[int], 1)
				go func() { refresh <- s.G.RefreshResult(s.Context(), "k") }()
				s.Until(4 * sec)
				if err := w.do(s); err != nil {
					s.Fatal(err)
				}
				s.WantAt(before, 10*sec, rig.Superseded(rig.Loaded(1)))
				<-between.Done
				if between.Value < 2 {
					s.Errorf("between the two: %+v; want nothing of the overtaken load", between.Result)
				}
				if r := <-refresh; r.Value < 2 {
					s.Errorf("Refresh between the two: %+v; want nothing of the overtaken load", r)
				}
			})
		})
	}
}

// A failing load serves no stale value that a tag has removed.
func TestE6TagsLeaveNothingStale(t *testing.T) {
	o := rig.FourInstants
	o.SoftTimeout = 7 * sec
	o.FailureMemo.Transient = weir.Backoff{Initial: 3 * sec}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Tagged("a")
		s.Prime("k")
		s.Says(weir.Entry[int]{}, rig.ErrDown)
		s.Set(10*sec, rig.ErrDown)
		s.Until(200 * sec)
		a := s.Ask("k")
		s.Until(205 * sec)
		s.G.InvalidateTags(s.Context(), "a")
		s.WantAt(a, 210*sec, rig.Failure(rig.ErrDown))
		s.Want(s.Get("k"), rig.Remembered(rig.ErrDown))
		s.Until(213 * sec)
		s.WantAt(s.Ask("k"), 223*sec, rig.Failure(rig.ErrDown))
	})
}

// A background refresh that is overtaken by a tag that only its new value has:
// the old value stays, and may be refreshed again.
func TestE6TagsBeatABackgroundRefresh(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		s.Tagged("new")
		s.Set(10*sec, nil)
		s.Until(110 * sec)
		s.Want(s.Get("k"), rig.Stale(1, 110*sec))
		s.Until(115 * sec)
		s.G.InvalidateTags(s.Context(), "new")
		s.Until(121 * sec)
		s.Want(s.Get("k"), rig.Stale(1, 121*sec))
		s.Until(132 * sec)
		s.Want(s.Get("k"), rig.Fresh(3, sec))
	})
}

// Unused tags are dropped without losing an invalidation: 50,000 of them come
// and go while loads with their tags are in flight.
func TestE6TagSweepLosesNoInvalidation(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour}, func(s *rig.Scene) {
		s.Spring.Say = func(key string, n int) (weir.Entry[int], error) {
			return weir.Entry[int]{Value: n, Tags: []string{"of " + key, "all"}}, nil
		}
		s.Set(10*sec, nil)
		before := s.Ask("k")
		s.Until(sec)
		s.G.InvalidateTags(s.Context(), "of k")
		between := s.Ask("k")
		for i := range 50_000 {
			if i%5000 == 0 {
				synctest.Wait()
			}
			s.G.InvalidateTags(s.Context(), fmt.Sprint("t", i))
		}
		after := s.Ask("k")
		s.WantAt(before, 10*sec, rig.Superseded(rig.Loaded(1)))
		for _, a := range []*rig.Reply{between, after} {
			if <-a.Done; a.Value != 2 || a.Superseded {
				s.Errorf("%+v; want 2, the second load", a.Result)
			}
		}
		s.Want(s.Get("k"), rig.Fresh(2, 0))
		s.G.InvalidateTags(s.Context(), "all")
		s.WantAt(s.Ask("k"), 30*sec, rig.Loaded(3))
	})
}

// E6: a running load is overtaken by its own tags, not by sweeps after invalidations of
// others. Only beyond 65,536 unused tags is it unknown which they were, and stays so.
func TestE6TagSweepSparesRunningLoads(t *testing.T) {
	for _, row := range []struct {
		own    string // what is invalidated first
		others int
		want   bool
	}{
		{"", 5_000, false},
		{"of k", 5_000, true},
		{"", 140_000, true},
		{"of k", 140_000, true}, // several sweeps after the one that dropped the tag
	} {
		for _, change := range []func(*weir.Guard[string, int], context.Context, ...string) error{(*weir.Guard[string, int]).InvalidateTags, (*weir.Guard[string, int]).ExpireTags} {
			rig.Play(t, weir.Options{TTL: time.Hour}, func(s *rig.Scene) {
				s.Spring.Say = func(key string, n int) (weir.Entry[int], error) {
					return weir.Entry[int]{Value: n, Tags: []string{"of " + key}}, nil
				}
				s.Set(10*sec, nil)
				load := s.Ask("k")
				s.Until(sec)
				if row.own != "" {
					change(s.G, s.Context(), row.own)
				}
				for i := range row.others {
					s.G.InvalidateTags(s.Context(), fmt.Sprint("t", i))
				}
				if <-load.Done; load.Value != 1 || load.Superseded != row.want {
					s.Errorf("after %q and %d others: %+v; want superseded %v", row.own, row.others, load.Result, row.want)
				}
			})
		}
	}
}

// Entries in memory keep their tags through every sweep.
func TestE6TagSweepKeepsTagsInUse(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour, MaxEntries: 2000}, func(s *rig.Scene) {
		ctx := s.Context()
		keys := rig.SpringKeys(1000)
		for i, key := range keys {
			s.G.SetEntry(ctx, key, weir.Entry[int]{Value: i, Tags: []string{"of " + key}})
		}
		for i := range 20_000 { // each replaces an entry with another tag, so that the old tags are unused
			s.G.SetEntry(ctx, "churn", weir.Entry[int]{Value: i, Tags: []string{fmt.Sprint("churn ", i)}})
		}
		s.G.InvalidateTags(ctx, "churn 19999")
		if r, ok := s.G.Peek("churn"); ok {
			s.Errorf("Peek(churn) = %+v; want nothing", r)
		}
		for i, key := range keys {
			if i%2 == 0 {
				s.G.InvalidateTags(ctx, "of "+key)
			}
		}
		for i, key := range keys {
			if _, ok := s.G.Peek(key); ok != (i%2 == 1) {
				s.Errorf("Peek(%q) finds it: %v; want %v", key, ok, i%2 == 1)
			}
		}
	})
}

// The tags of a million removed entries take no memory.
func TestE6TagsAreBounded(t *testing.T) {
	n := histories.Count(50_000, 300_000)
	ctx := t.Context()
	g := weir.Must(weir.New(func(_ context.Context, k int) (int, error) { return k, nil }, weir.Options{TTL: time.Hour, MaxEntries: 1000}))
	set := func(from, to int) {
		for i := from; i < to; i++ {
			g.SetEntry(ctx, i, weir.Entry[int]{Value: i, Tags: []string{fmt.Sprint("tag of a certain length ", i)}})
		}
	}
	set(0, 5000)
	before := rig.Heap()
	set(5000, n)
	if grown := rig.Heap() - before; grown > 2<<20 {
		t.Errorf("the heap has grown by %d bytes in %d tags; want 2 MiB at most", grown, n)
	}
	g.Get(ctx, -1)
}

// After InvalidateAll no earlier value is served, even if loads fail and entries
// expire at the same time.
func TestE6ClearBeatsWhatCopiesEntries(t *testing.T) {
	const n = 2000
	ctx := t.Context()
	o := weir.Options{TTL: time.Hour, StaleIfError: time.Hour, FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: ms}}}
	g := weir.Must(weir.New(func(context.Context, int) (int, error) { return 0, rig.ErrDown }, o))
	for round := range 20 {
		for k := range n {
			g.Set(ctx, k, round+1)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for k := w * n / 4; ; k = (k + 1) % n {
					select {
					case <-stop:
						return
					default:
					}
					if w%2 == 0 {
						g.Refresh(ctx, k)
					} else {
						g.Expire(ctx, k)
					}
				}
			})
		}
		g.InvalidateAll(ctx)
		for k := range n {
			if r, ok := g.Peek(k); ok {
				t.Errorf("round %d: Peek(%d) = %+v after InvalidateAll; want nothing", round, k, r)
			}
		}
		close(stop)
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}

func TestE6KeysThatAreNoKeys(t *testing.T) {
	g := weir.Must(weir.New(func(context.Context, any) (int, error) { return 1, nil }, weir.Options{TTL: time.Hour}))
	ctx := t.Context()
	nan := math.NaN()
	for name, err := range map[string]error{
		"Set":        g.Set(ctx, nan, 1),
		"Invalidate": g.Invalidate(ctx, 1, nan),
		"Expire":     g.Expire(ctx, 1, nan),
		"Refresh":    g.RefreshResult(ctx, nan).Err,
		"GetResult":  g.GetResult(ctx, nan).Err,
	} {
		if err != weir.ErrKey {
			t.Errorf("%s(NaN) = %v; want %v", name, err, weir.ErrKey)
		}
	}
	if r, ok := g.Peek(nan); ok {
		t.Errorf("Peek(NaN) = %+v; want nothing", r)
	}
	if n := g.Stats().Entries; n != 0 {
		t.Errorf("Stats().Entries = %d; want 0", n)
	}
}

func TestE6WritesAfterClose(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour}, func(s *rig.Scene) {
		s.Prime("k")
		s.G.Close(s.Context())
		for _, w := range writes {
			if err := w.do(s); !errors.Is(err, weir.ErrClosed) {
				s.Errorf("%s = %v; want %v", w.name, err, weir.ErrClosed)
			}
		}
		if err := s.G.InvalidateTags(s.Context(), "t"); !errors.Is(err, weir.ErrClosed) {
			s.Errorf("InvalidateTags = %v; want %v", err, weir.ErrClosed)
		}
		s.Want(s.Get("k"), rig.Fresh(1, 0))
	})
}

func TestE6WritesOfNothing(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour}, func(s *rig.Scene) {
		s.Prime("k")
		errs := []error{s.G.Invalidate(s.Context()), s.G.Expire(s.Context()), s.G.InvalidateTags(s.Context())}
		if !slices.Equal(errs, []error{nil, nil, nil}) {
			s.Errorf("Invalidate, Expire, InvalidateTags of nothing = %v; want nil", errs)
		}
		s.Want(s.Get("k"), rig.Fresh(1, 0))
	})
}
