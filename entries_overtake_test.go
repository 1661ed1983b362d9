package weir_test

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
	"github.com/weir-go/weir/internal/histories"
)

// writes are the writes that overtake a load in flight. Each row's do runs for
// key "k" while a load of it is running.
var writes = []struct {
	name string
	do   func(s *scene) error
	sets bool // leaves the fresh value 77
}{
	{"Set", func(s *scene) error { return s.g.Set(s.Context(), "k", 77) }, true},
	{"SetEntry", func(s *scene) error {
		return s.g.SetEntry(s.Context(), "k", weir.Entry[int]{Value: 77, Tags: []string{"t"}})
	}, true},
	{"SetEntry without store", func(s *scene) error {
		switch err := s.g.SetEntry(s.Context(), "k", weir.Entry[int]{Value: 77, NoStore: true}); err {
		case nil:
			return errors.New("it was stored; want ErrNotStored")
		case weir.ErrNotStored:
			return nil
		default:
			return err
		}
	}, false},
	{"Invalidate", func(s *scene) error { return s.g.Invalidate(s.Context(), "j", "k") }, false},
	{"Expire", func(s *scene) error { return s.g.Expire(s.Context(), "j", "k") }, false},
	{"InvalidateAll", func(s *scene) error { return s.g.InvalidateAll(s.Context()) }, false},
	{"ExpireAll", func(s *scene) error { return s.g.ExpireAll(s.Context()) }, false},
}

func TestE6WritesBeatALoadInFlight(t *testing.T) {
	o := weir.Options{TTL: 100 * sec, StaleIfError: 400 * sec}
	for _, w := range writes {
		for _, present := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/present=%v", w.name, present), func(t *testing.T) {
				play(t, o, func(s *scene) {
					old := 0
					if present {
						s.prime("k")
						old = 1
					}
					s.set(10*sec, nil)
					s.until(110 * sec)
					before, joiner := s.ask("k"), s.ask("k")
					s.until(115 * sec)
					if err := w.do(s); err != nil {
						s.Fatal(err)
					}
					after := s.ask("k")
					s.wantAt(before, 120*sec, superseded(loaded(old+1)))
					s.wantAt(joiner, 120*sec, joined(superseded(loaded(old+1))))
					if w.sets {
						s.wantAt(after, 115*sec, fresh(77, 0))
						s.until(130 * sec)
						s.want(s.get("k"), fresh(77, 15*sec))
						s.wantLoads(old + 1)
						return
					}
					// The overtaken value is not in memory while the new load runs.
					if r, ok := s.g.Peek("k"); ok && r.Value != 1 {
						s.Errorf("Peek = %+v; want nothing of the overtaken load", r)
					}
					s.wantAt(s.ask("k"), 125*sec, joined(loaded(old+2)))
					s.wantAt(after, 125*sec, loaded(old+2))
					s.want(s.get("k"), fresh(old+2, 0))
					s.wantLoads(old + 2)
					if n := s.g.Stats().Superseded; n != 1 {
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
		for _, outcome := range []error{nil, errDry, weir.ErrNotFound} {
			t.Run(fmt.Sprintf("%s/%v", w.name, outcome), func(t *testing.T) {
				o := fourInstants
				o.NegativeTTL = time.Hour
				o.FailureMemo.Transient = weir.Backoff{Initial: time.Hour}
				play(t, o, func(s *scene) {
					s.prime("k")
					s.set(10*sec, outcome)
					s.until(110 * sec)
					s.want(s.get("k"), stale(1, 110*sec)) // starts the refresh
					s.wantLoads(2)
					s.until(115 * sec)
					if err := w.do(s); err != nil {
						s.Fatal(err)
					}
					s.set(2*sec, nil)
					switch {
					case w.sets:
						s.until(130 * sec)
						s.want(s.get("k"), fresh(77, 15*sec))
						s.wantLoads(2)
					case strings.HasPrefix(w.name, "Expire"): // which keeps the stale window, and allows a new refresh
						s.want(s.get("k"), stale(1, 115*sec))
						s.wantLoads(3)
						s.until(121 * sec)
						s.want(s.get("k"), fresh(3, 4*sec))
					default:
						s.wantAt(s.ask("k"), 117*sec, loaded(3))
						s.until(121 * sec)
						s.want(s.get("k"), fresh(3, 4*sec))
					}
				})
			})
		}
	}
}

// Expire while a background refresh runs, and the new refresh fails too: the
// pause after the old failure does not apply to the new entry.
func TestE6ExpireLetsTheNextRefreshStart(t *testing.T) {
	o := fourInstants
	o.RefreshRetry = time.Hour
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(90 * sec)
		s.get("k") // refresh fails: none for an hour
		s.wantLoads(2)
		s.g.Expire(s.Context(), "k")
		s.set(0, nil)
		s.want(s.get("k"), stale(1, 90*sec))
		s.wantLoads(3)
		s.want(s.get("k"), fresh(3, 0))
	})
}

func TestE6InvalidateLeavesNothingStale(t *testing.T) {
	for _, w := range writes {
		if w.sets || strings.HasPrefix(w.name, "Expire") {
			continue
		}
		play(t, fourInstants, func(s *scene) {
			s.prime("k")
			s.set(0, errDry)
			s.until(10 * sec)
			if err := w.do(s); err != nil {
				s.Fatal(err)
			}
			s.want(s.get("k"), failure(errDry))
			if r, ok := s.g.Peek("k"); ok {
				s.Errorf("after %s: Peek = %+v; want nothing", w.name, r)
			}
		})
	}
}

// An Invalidate while callers wait for a load that will fail: the value that
// was in memory when they came is not served.
func TestE6InvalidateDuringAFailingLoad(t *testing.T) {
	for _, soft := range []time.Duration{0, 7 * sec} {
		o := fourInstants
		o.SoftTimeout = soft
		play(t, o, func(s *scene) {
			s.prime("k")
			s.set(10*sec, errDry)
			s.until(200 * sec)
			a := s.ask("k")
			s.until(205 * sec)
			s.g.Invalidate(s.Context(), "k")
			s.wantAt(a, 210*sec, failure(errDry))
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
		for _, expire := range []func(*scene) error{
			func(s *scene) error { return s.g.Expire(s.Context(), "k") },
			func(s *scene) error { return s.g.ExpireAll(s.Context()) },
		} {
			play(t, o, func(s *scene) {
				s.prime("k")
				s.set(0, errDry)
				for _, at := range []time.Duration{row.expired, row.again} {
					if at > 0 {
						s.until(at)
						if err := expire(s); err != nil {
							s.Error(err)
						}
					}
				}
				if row.staleUntil > 0 {
					s.want(s.get("k"), stale(1, s.now()))
					s.until(row.staleUntil - 1)
					s.want(s.get("k"), stale(1, row.staleUntil-1))
					s.until(row.staleUntil)
				}
				s.want(s.get("k"), staleOnError(1, s.now(), errDry))
				s.until(row.errEnd - 1)
				s.want(s.get("k"), staleOnError(1, row.errEnd-1, errDry))
				s.until(row.errEnd)
				s.want(s.get("k"), failure(errDry))
			})
		}
	}
}

// A negative answer has no stale window to keep.
func TestE6ExpireRemovesANegativeAnswer(t *testing.T) {
	play(t, weir.Options{TTL: sec, NegativeTTL: time.Hour}, func(s *scene) {
		s.set(0, weir.ErrNotFound)
		s.get("k")
		s.g.Expire(s.Context(), "k")
		s.set(0, nil)
		s.want(s.get("k"), loaded(2))
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
			play(t, o, func(s *scene) {
				n := 1
				if present {
					s.prime("k")
					n = 2
				}
				s.set(0, errDry)
				s.until(20 * sec)
				s.get("k")
				s.get("k")
				s.wantLoads(n)
				if err := w.do(s); err != nil {
					s.Fatal(err)
				}
				s.set(0, nil)
				if r := s.get("k"); r.Value != n+1 || r.State != weir.StateLoaded {
					s.Errorf("%s, present=%v: Get = %+v; want a load", w.name, present, r)
				}
			})
		}
	}
}

// Set without a TTL keeps nothing, but overtakes the load.
func TestE6SetWithoutTTLBeatsTheLoad(t *testing.T) {
	play(t, weir.Options{}, func(s *scene) {
		s.set(10*sec, nil)
		before := s.ask("k")
		s.until(5 * sec)
		s.g.Set(s.Context(), "k", 77)
		after := s.ask("k")
		s.wantAt(before, 10*sec, superseded(loaded(1)))
		s.wantAt(after, 15*sec, loaded(2))
	})
}

// A write after the soft timeout, when the caller has a stale value, overtakes
// that load as well.
func TestE6SetBeatsALoadBeyondTheSoftTimeout(t *testing.T) {
	o := fourInstants
	o.SoftTimeout = sec
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(10*sec, nil)
		s.until(200 * sec)
		s.wantAt(s.ask("k"), 201*sec, staleOnError(1, 201*sec, context.DeadlineExceeded))
		s.g.Set(s.Context(), "k", 77)
		s.until(220 * sec)
		s.want(s.get("k"), fresh(77, 19*sec))
	})
}

// A caller whose load fails gets what was set meanwhile.
func TestE6SetDuringAFailingLoad(t *testing.T) {
	play(t, weir.Options{TTL: time.Hour}, func(s *scene) {
		s.set(10*sec, errDry)
		a := s.ask("k")
		s.until(5 * sec)
		s.g.Set(s.Context(), "k", 77)
		s.wantAt(a, 10*sec, fresh(77, 5*sec))
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

// tagged makes every load of the scene carry the tag.
func (s *scene) tagged(tags ...string) { s.says(weir.Entry[int]{Tags: tags}, nil) }

func TestE6TagsBeatALoadInFlight(t *testing.T) {
	for _, present := range []bool{true, false} {
		play(t, weir.Options{TTL: 100 * sec, StaleIfError: 400 * sec}, func(s *scene) {
			s.tagged("a", "b")
			old := 0
			if present {
				s.prime("k")
				old = 1
			}
			s.set(10*sec, nil)
			s.until(110 * sec)
			before := s.ask("k")
			s.until(115 * sec)
			s.g.InvalidateTags(s.Context(), "x", "b")
			if r, ok := s.g.Peek("k"); ok {
				s.Errorf("Peek = %+v; want nothing", r)
			}
			var after []*reply
			for range 3 {
				after = append(after, s.ask("k")) // they cannot know yet, and join
			}
			s.wantLoads(old + 1)
			s.wantAt(before, 120*sec, superseded(loaded(old+1)))
			synctest.Wait()
			starters := 0
			for _, a := range after {
				<-a.done
				if a.at != 130*sec || a.Value != old+2 || a.Superseded {
					s.Errorf("after: %+v at %v; want %d at 130s", a.Result, a.at, old+2)
				}
				if !a.Joined {
					starters++
				}
			}
			if starters != 1 {
				s.Errorf("%d callers started the load; want 1", starters)
			}
			s.want(s.get("k"), fresh(old+2, 0))
			s.wantLoads(old + 2) // again exactly once
		})
	}
}

// An invalidation of other tags does not touch the load.
func TestE6OtherTagsDoNoHarm(t *testing.T) {
	play(t, weir.Options{TTL: 100 * sec}, func(s *scene) {
		s.tagged("a")
		s.set(10*sec, nil)
		before := s.ask("k")
		s.until(5 * sec)
		s.g.InvalidateTags(s.Context(), "x", "y")
		after := s.ask("k")
		s.wantAt(before, 10*sec, loaded(1))
		s.wantAt(after, 10*sec, joined(loaded(1)))
		s.want(s.get("k"), fresh(1, 0))
		s.wantLoads(1)
	})
}

// Of two invalidations during one load the first still counts: callers that
// came between them must not get the load's value.
func TestE6TagsInvalidatedTwiceDuringALoad(t *testing.T) {
	for _, second := range []string{"a", "b"} {
		play(t, weir.Options{TTL: 100 * sec}, func(s *scene) {
			s.tagged("a", "b")
			s.set(10*sec, nil)
			before := s.ask("k")
			s.until(2 * sec)
			s.g.InvalidateTags(s.Context(), "a")
			between := s.ask("k")
			s.until(4 * sec)
			s.g.InvalidateTags(s.Context(), second)
			after := s.ask("k")
			s.wantAt(before, 10*sec, superseded(loaded(1)))
			<-between.done
			<-after.done
			for _, a := range []*reply{between, after} {
				if a.Value != 2 || a.at != 20*sec || a.Superseded {
					s.Errorf("%+v at %v; want 2 at 20s", a.Result, a.at)
				}
			}
			s.wantLoads(2)
		})
	}
}

// A write to the key after the tag's invalidation does not make the load's
// value valid for callers that came between the two.
func TestE6TagsThenAWriteDuringALoad(t *testing.T) {
	for _, w := range writes {
		t.Run(w.name, func(t *testing.T) {
			play(t, weir.Options{TTL: 100 * sec}, func(s *scene) {
				s.tagged("a")
				s.set(10*sec, nil)
				before := s.ask("k")
				s.until(2 * sec)
				s.g.InvalidateTags(s.Context(), "a")
				between := s.ask("k")
				refresh := make(chan weir.Result[int], 1)
				go func() { refresh <- s.g.RefreshResult(s.Context(), "k") }()
				s.until(4 * sec)
				if err := w.do(s); err != nil {
					s.Fatal(err)
				}
				s.wantAt(before, 10*sec, superseded(loaded(1)))
				<-between.done
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
	o := fourInstants
	o.SoftTimeout = 7 * sec
	o.FailureMemo.Transient = weir.Backoff{Initial: 3 * sec}
	play(t, o, func(s *scene) {
		s.tagged("a")
		s.prime("k")
		s.says(weir.Entry[int]{}, errDry)
		s.set(10*sec, errDry)
		s.until(200 * sec)
		a := s.ask("k")
		s.until(205 * sec)
		s.g.InvalidateTags(s.Context(), "a")
		s.wantAt(a, 210*sec, failure(errDry))
		s.want(s.get("k"), remembered(errDry))
		s.until(213 * sec)
		s.wantAt(s.ask("k"), 223*sec, failure(errDry))
	})
}

// A background refresh that is overtaken by a tag that only its new value has:
// the old value stays, and may be refreshed again.
func TestE6TagsBeatABackgroundRefresh(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.prime("k")
		s.tagged("new")
		s.set(10*sec, nil)
		s.until(110 * sec)
		s.want(s.get("k"), stale(1, 110*sec))
		s.until(115 * sec)
		s.g.InvalidateTags(s.Context(), "new")
		s.until(121 * sec)
		s.want(s.get("k"), stale(1, 121*sec))
		s.until(132 * sec)
		s.want(s.get("k"), fresh(3, sec))
	})
}

// Unused tags are dropped without losing an invalidation: 50,000 of them come
// and go while loads with their tags are in flight.
func TestE6TagSweepLosesNoInvalidation(t *testing.T) {
	play(t, weir.Options{TTL: time.Hour}, func(s *scene) {
		s.spring.say = func(key string, n int) (weir.Entry[int], error) {
			return weir.Entry[int]{Value: n, Tags: []string{"of " + key, "all"}}, nil
		}
		s.set(10*sec, nil)
		before := s.ask("k")
		s.until(sec)
		s.g.InvalidateTags(s.Context(), "of k")
		between := s.ask("k")
		for i := range 50_000 {
			if i%5000 == 0 {
				synctest.Wait()
			}
			s.g.InvalidateTags(s.Context(), fmt.Sprint("t", i))
		}
		after := s.ask("k")
		s.wantAt(before, 10*sec, superseded(loaded(1)))
		for _, a := range []*reply{between, after} {
			if <-a.done; a.Value != 2 || a.Superseded {
				s.Errorf("%+v; want 2, the second load", a.Result)
			}
		}
		s.want(s.get("k"), fresh(2, 0))
		s.g.InvalidateTags(s.Context(), "all")
		s.wantAt(s.ask("k"), 30*sec, loaded(3))
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
			play(t, weir.Options{TTL: time.Hour}, func(s *scene) {
				s.spring.say = func(key string, n int) (weir.Entry[int], error) {
					return weir.Entry[int]{Value: n, Tags: []string{"of " + key}}, nil
				}
				s.set(10*sec, nil)
				load := s.ask("k")
				s.until(sec)
				if row.own != "" {
					change(s.g, s.Context(), row.own)
				}
				for i := range row.others {
					s.g.InvalidateTags(s.Context(), fmt.Sprint("t", i))
				}
				if <-load.done; load.Value != 1 || load.Superseded != row.want {
					s.Errorf("after %q and %d others: %+v; want superseded %v", row.own, row.others, load.Result, row.want)
				}
			})
		}
	}
}

// Entries in memory keep their tags through every sweep.
func TestE6TagSweepKeepsTagsInUse(t *testing.T) {
	play(t, weir.Options{TTL: time.Hour, MaxEntries: 2000}, func(s *scene) {
		ctx := s.Context()
		keys := springKeys(1000)
		for i, key := range keys {
			s.g.SetEntry(ctx, key, weir.Entry[int]{Value: i, Tags: []string{"of " + key}})
		}
		for i := range 20_000 { // each replaces an entry with another tag, so that the old tags are unused
			s.g.SetEntry(ctx, "churn", weir.Entry[int]{Value: i, Tags: []string{fmt.Sprint("churn ", i)}})
		}
		s.g.InvalidateTags(ctx, "churn 19999")
		if r, ok := s.g.Peek("churn"); ok {
			s.Errorf("Peek(churn) = %+v; want nothing", r)
		}
		for i, key := range keys {
			if i%2 == 0 {
				s.g.InvalidateTags(ctx, "of "+key)
			}
		}
		for i, key := range keys {
			if _, ok := s.g.Peek(key); ok != (i%2 == 1) {
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
	before := heap()
	set(5000, n)
	if grown := heap() - before; grown > 2<<20 {
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
	g := weir.Must(weir.New(func(context.Context, int) (int, error) { return 0, errDry }, o))
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
	play(t, weir.Options{TTL: time.Hour}, func(s *scene) {
		s.prime("k")
		s.g.Close(s.Context())
		for _, w := range writes {
			if err := w.do(s); !errors.Is(err, weir.ErrClosed) {
				s.Errorf("%s = %v; want %v", w.name, err, weir.ErrClosed)
			}
		}
		if err := s.g.InvalidateTags(s.Context(), "t"); !errors.Is(err, weir.ErrClosed) {
			s.Errorf("InvalidateTags = %v; want %v", err, weir.ErrClosed)
		}
		s.want(s.get("k"), fresh(1, 0))
	})
}

func TestE6WritesOfNothing(t *testing.T) {
	play(t, weir.Options{TTL: time.Hour}, func(s *scene) {
		s.prime("k")
		errs := []error{s.g.Invalidate(s.Context()), s.g.Expire(s.Context()), s.g.InvalidateTags(s.Context())}
		if !slices.Equal(errs, []error{nil, nil, nil}) {
			s.Errorf("Invalidate, Expire, InvalidateTags of nothing = %v; want nil", errs)
		}
		s.want(s.get("k"), fresh(1, 0))
	})
}
