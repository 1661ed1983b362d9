package entries_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
)

// slack is how far a burst may briefly exceed the bound.
const slack = 1024

// E8: a burst of writes without a read, from several goroutines. A writer
// checks the size every few writes; when the writers are done the bound holds.
func TestE8BoundByCountHoldsInABurst(t *testing.T) {
	total := histories.Count(60_000, 1_000_000)
	for _, bound := range []int{1, 100, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			g := weir.Must(weir.New(func(_ context.Context, k int) (int, error) { return k, nil }, weir.Options{TTL: time.Hour, MaxEntries: bound}))
			const writers = 4
			var wg sync.WaitGroup
			most := make([]int, writers)
			for w := range writers {
				wg.Go(func() {
					for i := range total / 3 / writers {
						g.Set(t.Context(), i*writers+w, i)
						if i%8 == 0 {
							most[w] = max(most[w], g.Stats().Entries)
						}
					}
				})
			}
			wg.Wait()
			for _, n := range most {
				if n > bound+slack {
					t.Errorf("bound %d: %d entries in the burst; want %d at most", bound, n, bound+slack)
				}
			}
			synctest.Wait()
			if n := g.Stats().Entries; n > bound || n == 0 {
				t.Errorf("bound %d: %d entries at rest; want no more than the bound", bound, n)
			}
		})
	}
}

// The bound also holds for loaded values and remembered failures.
func TestE8BoundHoldsForLoads(t *testing.T) {
	const bound = 500
	for name, err := range map[string]error{"values": nil, "failures": rig.ErrDown, "negative answers": weir.ErrNotFound} {
		synctest.Test(t, func(t *testing.T) {
			o := weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, MaxEntries: bound}
			o.FailureMemo.Transient.Initial = time.Hour
			g := weir.Must(weir.New(func(_ context.Context, k int) (int, error) { return k, err }, o))
			most := 0
			for i := range 20_000 {
				g.Get(t.Context(), i)
				most = max(most, g.Stats().Entries)
			}
			synctest.Wait()
			if n := g.Stats().Entries; n > bound || most > bound+slack {
				t.Errorf("%s: %d entries at most and %d at rest; want %d and %d", name, most, n, bound+slack, bound)
			}
		})
	}
}

// The bound holds for a single bulk load, which is a burst too.
func TestE8BoundHoldsInABulkLoad(t *testing.T) {
	const bound, n = 100, 20_000
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{nil, rig.ErrDown} {
			o := weir.Options{TTL: time.Hour, MaxEntries: bound}
			o.FailureMemo.Transient.Initial = time.Hour
			g := weir.Must(weir.NewFrom(weir.Source[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
				m := map[int]int{}
				for _, k := range keys {
					m[k] = k
				}
				if err != nil {
					return nil, err
				}
				return m, nil
			}}, o))
			keys := make([]int, n)
			for i := range keys {
				keys[i] = i
			}
			for key, r := range g.GetMany(t.Context(), keys) {
				if r.Err != err || r.Err == nil && r.Value != key {
					t.Fatalf("GetMany: %d = %+v", key, r)
				}
			}
			if n := g.Stats().Entries; n > bound+slack {
				t.Errorf("%v: %d entries after the load; want %d at most", err, n, bound+slack)
			}
			synctest.Wait()
			if n := g.Stats().Entries; n > bound {
				t.Errorf("%v: %d entries at rest; want %d at most", err, n, bound)
			}
		}
	})
}

func TestE8BoundByWeight(t *testing.T) {
	total := histories.Count(10_000, 100_000)
	const bound = 10_000
	synctest.Test(t, func(t *testing.T) {
		weigh := func(k int, _ int) uint32 { return uint32(k % 20) } // 0 counts as 1
		g := weir.Must(weir.NewFrom(weir.Source[int, int]{
			Load:  func(_ context.Context, k int) (int, error) { return k, nil },
			Weigh: weigh,
		}, weir.Options{TTL: time.Hour, MaxWeight: bound}))
		for i := range total {
			if i%2 == 0 {
				g.Set(t.Context(), i, i)
			} else {
				g.Get(t.Context(), i)
			}
		}
		synctest.Wait()
		sum, n := uint64(0), 0
		for i := range total {
			if _, ok := g.Peek(i); ok {
				sum += uint64(max(weigh(i, i), 1))
				n++
			}
		}
		if sum > bound || sum < bound/2 {
			t.Errorf("%d entries weigh %d at rest; want %d at most, and not much less", n, sum, bound)
		}
	})
}

func TestE8WeightZeroCountsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := weir.Must(weir.NewFrom(weir.Source[int, int]{
			Load:  func(_ context.Context, k int) (int, error) { return k, nil },
			Weigh: func(int, int) uint32 { return 0 },
		}, weir.Options{TTL: time.Hour, MaxWeight: 100}))
		for i := range 5000 {
			g.Set(t.Context(), i, i)
		}
		synctest.Wait()
		if n := g.Stats().Entries; n != 100 {
			t.Errorf("%d entries; want 100", n)
		}
	})
}

// An entry heavier than the bound is not kept, the previous entry is removed,
// and it is counted; one exactly as heavy as the bound is kept.
func TestE8TooHeavyIsNotKept(t *testing.T) {
	for _, path := range []string{"load", "SetEntry", "Set", "refresh"} {
		rec := &rig.Recorder{}
		rig.PlayFrom(t, weir.Options{TTL: 10 * sec, StaleWhileRevalidate: 100 * sec, MaxWeight: 50, Observer: rec}, func(src *weir.Source[string, int]) {
			src.Weigh = func(_ string, v int) uint32 { return uint32(v) }
		}, func(s *rig.Scene) {
			value := func(v int) {
				switch path {
				case "load":
					s.Says(weir.Entry[int]{Value: 1, Weight: uint32(v)}, nil) // instead of Weigh's
					s.G.Refresh(s.Context(), "k")
				case "SetEntry":
					s.G.SetEntry(s.Context(), "k", weir.Entry[int]{Value: 1, Weight: uint32(v)})
				case "Set":
					s.G.Set(s.Context(), "k", v)
				case "refresh":
					s.Says(weir.Entry[int]{Value: v}, nil)
					if s.Now() == 0 {
						s.Prime("k")
						return
					}
					s.Get("k")
					synctest.Wait()
				}
			}
			value(50)
			synctest.Wait()
			if r, ok := s.G.Peek("k"); !ok {
				s.Errorf("%s: Peek = %+v, %v; want an entry as heavy as the bound", path, r, ok)
			}
			s.Until(20 * sec)
			value(51)
			synctest.Wait()
			if r, ok := s.G.Peek("k"); ok {
				s.Errorf("%s: Peek = %+v, true; want nothing", path, r)
			}
			if n := s.G.Stats().TooHeavy; n != 1 {
				s.Errorf("%s: Stats().TooHeavy = %d; want 1", path, n)
			}
			if n := rec.Count(weir.EventTooHeavy); n != 1 {
				s.Errorf("%s: %d events; want 1", path, n)
			}
		})
	}
}

// A caller gets the value that is too heavy to keep.
func TestE8TooHeavyIsStillServed(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour, MaxWeight: 50}, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{Weight: 51}, nil)
		s.Want(s.Get("k"), rig.Loaded(1))
		s.Want(s.Get("k"), rig.Loaded(2))
	})
}

// A NotModified entry keeps its weight.
func TestE8NotModifiedKeepsTheWeight(t *testing.T) {
	rig.Play(t, weir.Options{TTL: time.Hour, MaxWeight: 50}, func(s *rig.Scene) {
		s.Says(weir.Entry[int]{Value: 1, Weight: 50}, nil)
		s.Prime("k")
		s.Says(weir.Entry[int]{NotModified: true}, nil)
		s.G.Refresh(s.Context(), "k")
		for i := range 1000 {
			s.G.SetEntry(s.Context(), fmt.Sprint(i), weir.Entry[int]{Weight: 1})
		}
		synctest.Wait()
		sum := 0
		if _, ok := s.G.Peek("k"); ok {
			sum += 50
		}
		for i := range 1000 {
			if _, ok := s.G.Peek(fmt.Sprint(i)); ok {
				sum++
			}
		}
		if sum > 50 {
			s.Errorf("entries weigh %d; want 50 at most", sum)
		}
	})
}

// Durations are exact from one nanosecond to the largest.
func TestE1ExtremeTTLs(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, ttl := range []time.Duration{ms, ms + 1, 2*ms - 1, 333 * ms, century} {
		for _, o := range []weir.Options{
			{TTL: ttl},
			{TTL: ttl, RefreshAhead: 0.5},
			{TTL: ttl, StaleIfError: ttl},
			{TTL: ttl, StaleIfError: math.MaxInt64},
		} {
			rig.Play(t, o, func(s *rig.Scene) {
				s.Until(12345)
				s.Prime("k")
				s.Set(0, rig.ErrDown)
				s.Until(12345 + ttl - 1)
				s.Want(s.Get("k"), rig.Fresh(1, ttl-1))
				s.Until(12345 + ttl)
				if o.StaleIfError > 0 {
					s.Want(s.Get("k"), rig.StaleOnError(1, ttl, rig.ErrDown))
				} else {
					s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
				}
				if o.StaleIfError == ttl {
					s.Until(12345 + 2*ttl)
					s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
				}
			})
		}
	}
}

func TestE1EndlessDurations(t *testing.T) {
	const century, endless = 100 * 365 * 24 * time.Hour, math.MaxInt64
	o := weir.Options{
		TTL: endless, RefreshAhead: 1e-3, StaleWhileRevalidate: endless, StaleIfError: endless,
		NegativeTTL: endless, RefreshRetry: endless, LoadTimeout: endless, SoftTimeout: endless, AbandonGrace: endless,
		FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: endless, Max: endless}},
		MaxEntries:  math.MaxInt, MaxRefreshes: math.MaxInt, MaxStuck: math.MaxInt,
	}
	weight := o
	weight.MaxEntries, weight.MaxWeight = 0, math.MaxUint64
	for _, o := range []weir.Options{o, weight} {
		rig.Play(t, o, func(s *rig.Scene) {
			s.Set(time.Hour, nil)
			s.Until(12345)
			s.Prime("k")
			s.Set(0, weir.ErrNotFound)
			s.Get("gone")
			s.Set(0, rig.ErrDown)
			s.Get("failing")
			s.G.Refresh(s.Context(), "k") // fails
			at := s.Now()
			s.Until(century)
			s.Want(s.Get("k"), rig.Fresh(1, century-at))
			s.Want(s.Get("gone"), rig.Negative(weir.FromMemory, century-at))
			s.Want(s.Get("failing"), rig.Remembered(rig.ErrDown))
			s.WantLoads(4)
		})
	}
}

// Without RefreshAhead, hits start no refresh after a failed Refresh: endless
// freshness does not mean that a refresh is in flight.
func TestE1EndlessTTLIsNotRefreshed(t *testing.T) {
	rig.Play(t, weir.Options{TTL: math.MaxInt64}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.G.Refresh(s.Context(), "k")
		s.Until(time.Hour)
		s.Want(s.Get("k"), rig.Fresh(1, time.Hour))
		s.WantLoads(2)
	})
}

func TestE6ExpireOfAnEndlessEntry(t *testing.T) {
	rig.Play(t, weir.Options{TTL: math.MaxInt64, StaleWhileRevalidate: 10 * sec, StaleIfError: time.Hour}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(time.Minute)
		s.G.Expire(s.Context(), "k")
		s.Until(70*sec - 1)
		s.Want(s.Get("k"), rig.Stale(1, 70*sec-1))
		s.Until(time.Minute + time.Hour - 1)
		s.Want(s.Get("k"), rig.StaleOnError(1, time.Minute+time.Hour-1, rig.ErrDown))
		s.Until(time.Minute + time.Hour)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
	})
}

func TestE1TinyTimeouts(t *testing.T) {
	rig.Play(t, weir.Options{TTL: ms, StaleIfError: time.Hour, LoadTimeout: 2 * ms, SoftTimeout: ms}, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(time.Hour, nil)
		s.Until(sec)
		s.WantAt(s.Ask("k"), sec+ms, rig.StaleOnError(1, sec+ms, context.DeadlineExceeded))
		s.WantAt(s.Ask("other"), sec+3*ms, rig.Failure(context.DeadlineExceeded))
	})
}

// E8: an ErrNotFound has the weight that the load states.
func TestE8_NotFoundHasAWeight(t *testing.T) {
	g := weir.Must(weir.NewFrom(weir.Source[int, string]{
		LoadEntry: func(_ context.Context, key int, _ weir.Previous[string]) (weir.Entry[string], error) {
			if key < 0 {
				return weir.Entry[string]{Weight: 1001}, weir.ErrNotFound
			}
			return weir.Entry[string]{Weight: 100}, weir.ErrNotFound
		},
	}, weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, MaxWeight: 1000}))
	defer g.Close(context.Background())
	for range 2 {
		if _, err := g.Get(t.Context(), -1); !errors.Is(err, weir.ErrNotFound) {
			t.Errorf("Get(-1) = %v; want ErrNotFound", err)
		}
	}
	if s := g.Stats(); s.Loads != 2 || s.TooHeavy != 2 || s.NotFound != 2 {
		t.Errorf("%d loads, %d too heavy, %d not-found; want 2 each", s.Loads, s.TooHeavy, s.NotFound)
	}
	for key := range 100 {
		_, _ = g.Get(t.Context(), key)
	}
	for end := time.Now().Add(10 * time.Second); g.Stats().Entries > 10; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d entries of weight 100; want at most 10", g.Stats().Entries)
		}
	}
}
