package bulk_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// batched makes a Guard around b that gathers misses.
func batched(s *rig.Story, b *rig.Bulk, batch weir.Batching, o weir.Options) *weir.Guard[string, int] {
	s.Helper()
	o.Batch = batch
	return rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load}, o)
}

func TestM4BatchFaultsAndAdvice(t *testing.T) {
	_, err := weir.NewFrom(weir.Source[string, int]{LoadEntry: func(context.Context, string, weir.Previous[int]) (weir.Entry[int], error) {
		return weir.Entry[int]{}, nil
	}}, weir.Options{Batch: weir.Batching{MaxSize: 1, Linger: -1, MaxParallel: -1}})
	var fields []string
	var walk func(err error)
	walk = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range many.Unwrap() {
				walk(err)
			}
			return
		}
		fields = append(fields, err.(*weir.OptionError).Field)
	}
	walk(err)
	want := []string{"Source.LoadEntries", "Options.Batch.MaxSize", "Options.Batch.Linger", "Options.Batch.MaxParallel"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults of %v; want %v", fields, want)
	}
	// A program that sets scopes expects them to be kept apart.
	_, err = weir.NewFrom(weir.Source[string, int]{
		LoadMany:   func(context.Context, []string) (map[string]int, error) { return nil, nil },
		BatchScope: func(context.Context, string) any { return nil },
	}, weir.Options{})
	var fault *weir.OptionError
	if !errors.As(err, &fault) || fault.Field != "Source.BatchScope" {
		t.Errorf("a scope without Options.Batch: %v; want a fault of Source.BatchScope", err)
	}
	for _, o := range []weir.Options{
		{Batch: weir.Batching{Linger: time.Second}},
		{TTL: time.Hour, StaleIfError: time.Hour, SoftTimeout: time.Second, Batch: weir.Batching{MaxSize: 2, Linger: time.Second}},
	} {
		if a := o.Advice(); len(a) != 1 || !strings.Contains(a[0], "Batch") {
			t.Errorf("Advice = %q; want one about Batch", a)
		}
	}
}

// B3: single misses are one bulk load, which departs exactly when its linger is
// over, under one permit.
func TestB3SingleMissesAreOneBulkLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: 100 * ms}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 5})
		g := batched(s, b, weir.Batching{MaxSize: 10, Linger: 10 * ms}, weir.Options{TTL: time.Hour, Limiter: c})
		one := s.Get(s.Context(), g, "a")
		rig.WantInUse(s, c, 0)
		s.At(10*ms - 1)
		two := s.Get(s.Context(), g, "b")
		three := s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "c") })
		again := s.Get(s.Context(), g, "a")
		s.At(10 * ms)
		late := s.Get(s.Context(), g, "d")
		rig.WantInUse(s, c, 1)
		rig.WantGauges(s, g, weir.Stats{Flights: 4, Running: 2})
		for _, a := range []*rig.Answer{one, two, three, again} {
			s.Want(a, 1, nil, 110*ms)
		}
		s.Want(late, 2, nil, 120*ms)
		if one.Joined || two.Joined || !again.Joined {
			s.Errorf("Joined = %v, %v, %v; want false for the first of each key", one.Joined, two.Joined, again.Joined)
		}
		b.Want(s, "a b c at 0s", "d at 10ms")
		if st := g.Stats(); st.Loads != 2 || st.Joins != 1 || c.Stats().Admitted != 2 {
			s.Errorf("Loads, Joins, permits = %d, %d, %d; want 2, 1, 2", st.Loads, st.Joins, c.Stats().Admitted)
		}
	})
}

// B3: a bulk load with MaxSize keys departs at once, and at most MaxParallel run
// at a time; misses that come meanwhile are gathered.
func TestB3SizeAndParallel(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		g := batched(s, b, weir.Batching{MaxSize: 2, Linger: time.Minute, MaxParallel: 1}, weir.Options{})
		for _, key := range strings.Split("abcdefg", "") {
			s.Get(s.Context(), g, key)
		}
		b.Want(s, "a b at 0s")
		s.At(3 * time.Second)
		s.Many(s.Context(), g, "m", "n", "o") // counted, and split
		s.At(2 * time.Minute)
		b.Want(s, "a b at 0s", "c d at 1s", "e f at 2s", "m n at 3s", "o at 4s", "g at 1m0s")
	})
	rig.Tell(t, func(s *rig.Story) { // without a linger
		b := &rig.Bulk{Takes: time.Second}
		g := batched(s, b, weir.Batching{MaxSize: 3, MaxParallel: 1}, weir.Options{})
		for _, key := range strings.Split("abcdef", "") {
			s.Get(s.Context(), g, key)
		}
		s.At(time.Minute)
		b.Want(s, "a at 0s", "b c d at 1s", "e f at 2s")
	})
}

// B3: keys of two scopes are never in one call, not even of GetMany; a key whose
// scope cannot be compared is loaded alone.
func TestB3BatchScope(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: b.Load, BatchScope: func(_ context.Context, key string) any {
			switch key[0] {
			case 'x':
				return []string{key}
			case 'y':
				return math.NaN()
			}
			return key[:1]
		}}, weir.Options{Batch: weir.Batching{MaxSize: 2, Linger: time.Second, MaxParallel: 100}})
		for _, key := range []string{"a1", "b1", "x1", "x2", "y1", "y2", "a2", "a3"} {
			s.Get(s.Context(), g, key)
		}
		s.At(2 * time.Second)
		slices.Sort(b.Calls[1:])
		b.Want(s, "a1 a2 at 0s", "a3 at 1s", "b1 at 1s", "x1 at 1s", "x2 at 1s", "y1 at 1s", "y2 at 1s")
		b.Calls = nil
		a := s.Many(s.Context(), g, "a1", "b1", "a2", "b2", "a3", "x1", "x2")
		if <-a.Done; a.At != 2*time.Second || len(a.Results) != 7 {
			s.Errorf("%d results at %v; want 7 at 2s", len(a.Results), a.At)
		}
		slices.Sort(b.Calls)
		b.Want(s, "a1 a2 at 2s", "a3 at 2s", "b1 b2 at 2s", "x1 at 2s", "x2 at 2s")
	})
}

// B3: a scope in the callers' contexts keeps their keys apart: the load of a batch has the
// context values of one of its callers, and they are right for all its keys. The same holds
// for GetMany, Refresh and a refresh in the background.
func TestB3_ABatchScopeFromTheContext(t *testing.T) {
	type tenant struct{}
	of := func(ctx context.Context) string { name, _ := ctx.Value(tenant{}).(string); return name }
	rig.Tell(t, func(s *rig.Story) {
		calls := map[string]int{}
		var mu sync.Mutex
		g := rig.GuardFrom(s, weir.Source[string, int]{
			LoadMany: func(ctx context.Context, keys []string) (map[string]int, error) {
				mu.Lock()
				defer mu.Unlock()
				found := map[string]int{}
				for _, key := range keys {
					if !strings.HasPrefix(key, of(ctx)) {
						s.Errorf("key %q is loaded with the context of tenant %q", key, of(ctx))
					}
					found[key] = 1
				}
				calls[of(ctx)]++
				return found, nil
			},
			BatchScope: func(ctx context.Context, key string) any {
				if of(ctx) == "" {
					s.Errorf("BatchScope(%q) without the caller's context", key)
				}
				return of(ctx)
			},
		}, weir.Options{TTL: 10 * time.Second, StaleWhileRevalidate: time.Minute, Batch: weir.Batching{MaxSize: 4, Linger: time.Second, MaxParallel: 9}})
		a, b := context.WithValue(s.Context(), tenant{}, "a"), context.WithValue(s.Context(), tenant{}, "b")
		want := func(n int) {
			s.Helper()
			mu.Lock()
			defer mu.Unlock()
			if calls["a"] != n || calls["b"] != n || len(calls) != 2 {
				s.Errorf("loads by tenant: %v; want %d of a and of b", calls, n)
			}
		}
		for _, i := range []string{"1", "2", "3"} {
			s.Get(a, g, "a"+i)
			s.Get(b, g, "b"+i)
		}
		s.At(2 * time.Second)
		want(1)
		s.Many(a, g, "a4", "a5")
		s.Many(b, g, "b4", "b5")
		s.At(4 * time.Second)
		want(2)
		s.At(15 * time.Second) // stale: each call starts a refresh
		for _, i := range []string{"1", "2"} {
			s.Get(a, g, "a"+i)
			s.Get(b, g, "b"+i)
		}
		s.At(17 * time.Second)
		want(3)
	})
}

// B3: GetMany joins keys that are being gathered, and its own load starts at
// once.
func TestB3GetManyAndGatheredKeys(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 10, Linger: time.Second}, weir.Options{})
		one := s.Get(s.Context(), g, "a")
		a := s.Many(s.Context(), g, "a", "b", "c")
		b.Want(s, "b c at 0s")
		s.WantMany(a, time.Second, map[string]any{"a": 2, "b": 1, "c": 1})
		s.Want(one, 2, nil, time.Second)
		b.Want(s, "b c at 0s", "a at 1s")
	})
}

// B3: a single remaining key is passed to Load, if that is set.
func TestB3OneKeyGoesToLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b, m := &rig.Bulk{}, &rig.Mill{}
		g := rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, LoadMany: b.Load}, weir.Options{Batch: weir.Batching{MaxSize: 3, Linger: time.Second}})
		s.Get(s.Until(500*ms), g, "gone")
		s.Want(s.Get(s.Context(), g, "a"), 1, nil, time.Second)
		b.Want(s)
		s.WantRuns(m, 1)
	})
}

// F2: each caller leaves at its own deadline. A key without a waiting caller is
// taken out before the load departs, which makes room for another.
func TestF2BatchedCallersKeepTheirOwnDeadlines(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Takes: time.Second}
		g := batched(s, b, weir.Batching{MaxSize: 3, Linger: time.Minute}, weir.Options{TTL: time.Hour})
		a := s.Get(s.Context(), g, "a")
		gone, twice := s.Get(s.Until(100*ms), g, "b"), s.Get(s.Until(100*ms), g, "a")
		s.Want(gone, 0, context.DeadlineExceeded, 100*ms)
		s.Want(twice, 0, context.DeadlineExceeded, 100*ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1})
		c := s.Get(s.Until(500*ms), g, "c")
		back := s.Get(s.Context(), g, "b") // full
		s.Want(c, 0, context.DeadlineExceeded, 500*ms)
		s.Want(a, 1, nil, 1100*ms)
		s.Want(back, 1, nil, 1100*ms)
		s.Want(s.Get(s.Context(), g, "c"), 1, nil, 1100*ms) // kept, though its caller had left
		b.Want(s, "a b c at 0s")
	})
}

// F3: a bulk load is canceled when the callers of all its keys have left,
// whether it is gathering, waiting for a place or a permit, or running; it
// leaves nothing behind.
func TestF3BatchedLoadIsAbandonedWhenTheCallersOfAllKeysHaveLeft(t *testing.T) {
	rig.NotInFleet(t)
	for name, row := range map[string]struct {
		batch weir.Batching
		hold  bool // the permit
		busy  bool // the place
		calls int  // that the source receives, apart from those that occupy the place
	}{
		"gathering":  {batch: weir.Batching{MaxSize: 9, Linger: time.Hour}},
		"in line":    {batch: weir.Batching{MaxSize: 9, MaxParallel: 1}, busy: true},
		"for permit": {batch: weir.Batching{MaxSize: 9}, hold: true},
		"running":    {batch: weir.Batching{MaxSize: 9, Linger: ms}, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				b := &rig.Bulk{Takes: 20 * time.Second}
				c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
				g := batched(s, b, row.batch, weir.Options{Limiter: c})
				before := 0
				if row.busy {
					s.Get(s.Context(), g, "busy")
					before = 1
				}
				var held limit.Permit
				if row.hold {
					held, _ = c.Acquire(s.Context())
				}
				one, two := s.Get(s.Until(time.Second), g, "a"), s.Get(s.Until(2*time.Second), g, "b")
				s.Want(one, 0, context.DeadlineExceeded, time.Second)
				s.At(2*time.Second - 1)
				if n := g.Stats().Running; n != before+1 {
					s.Errorf("Running = %d; want %d: one still waits", n, before+1)
				}
				s.Want(two, 0, context.DeadlineExceeded, 2*time.Second)
				s.At(2 * time.Second)
				rig.WantGauges(s, g, weir.Stats{Flights: before, Running: before})
				held.Release(limit.Unused)
				b.Takes = 0
				s.At(25 * time.Second)
				s.Want(s.Get(s.Until(30*time.Hour), g, "a"), row.calls+before+1, nil, 25*time.Second+row.batch.Linger)
				if st := g.Stats(); st.Abandoned != 1 || int(st.Loads) != row.calls+before+1 {
					s.Errorf("Abandoned, Loads = %d, %d; want 1, %d", st.Abandoned, st.Loads, row.calls+before+1)
				}
				rig.WantInUse(s, c, 0)
			})
		})
	}
}

// F3: with AbandonGrace the load runs to its end for a key without a waiting
// caller.
func TestF3BatchedKeyStaysWithAGrace(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Second}, weir.Options{TTL: time.Hour, AbandonGrace: weir.Never})
		s.Get(s.Until(100*ms), g, "a")
		s.Get(s.Until(200*ms), g, "b")
		s.At(time.Second)
		b.Want(s, "a b at 0s")
		s.Want(s.Get(s.Context(), g, "a"), 1, nil, time.Second)
	})
}

// F3: the load requests its permit with the latest deadline of all its callers,
// and again when a caller with a later one comes; a caller with less time
// leaves alone.
func TestF3BatchedLoadAsksForTheLatestDeadline(t *testing.T) {
	rig.NotInFleet(t)
	rig.Tell(t, func(s *rig.Story) {
		var asked []time.Duration
		limiter := rig.LimiterFunc(func(ctx context.Context) (limit.Permit, error) {
			until, _ := ctx.Deadline()
			asked = append(asked, until.Sub(s.Start))
			time.Sleep(500 * ms)
			if until.Sub(s.Start) < 10*time.Second {
				return limit.Permit{}, &limit.Error{Reason: limit.WaitTooLong}
			}
			return limit.Permit{}, nil
		})
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9}, weir.Options{Limiter: limiter})
		one, two := s.Get(s.Until(5*time.Second), g, "a"), s.Get(s.Until(600*ms), g, "b")
		s.At(100 * ms)
		three := s.Get(s.Until(20*time.Second), g, "c")
		s.Want(two, 0, context.DeadlineExceeded, 600*ms)
		s.Want(one, 1, nil, time.Second)
		s.Want(three, 1, nil, time.Second)
		if want := []time.Duration{5 * time.Second, 20 * time.Second}; !slices.Equal(asked, want) {
			s.Errorf("asked with the deadlines %v; want %v", asked, want)
		}
		b.Want(s, "a c at 0s")
	})
}

// F6, F8: all callers share the outcome of the call, and no place is lost.
func TestF6BatchedLoadThatFailsAsAWhole(t *testing.T) {
	for name, does := range ends {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				calls := 0
				g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: func(context.Context, []string) (map[string]int, error) {
					calls++
					return nil, does()
				}}, weir.Options{Batch: weir.Batching{MaxSize: 2, Linger: time.Hour, MaxParallel: 1}})
				for range 3 {
					for _, a := range []*rig.Answer{s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")} {
						<-a.Done
						if p := (*weir.PanicError)(nil); a.Err == nil || name == "panic" && !errors.As(a.Err, &p) || name == "goexit" && a.Err != weir.ErrGoexit || name == "error" && a.Err != rig.ErrDown {
							s.Errorf("Get = %v after a %s", a.Err, name)
						}
					}
				}
				rig.WantGauges(s, g, weir.Stats{})
				if calls != 3 {
					s.Errorf("%d calls; want 3", calls)
				}
			})
		})
	}
}

// F9: a bulk load that asks for one of its own keys gets an error.
func TestF9BatchedLoadAsksForItsOwnKey(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		var g *weir.Guard[string, int]
		g = rig.GuardFrom(s, weir.Source[string, int]{LoadMany: func(ctx context.Context, keys []string) (map[string]int, error) {
			if slices.Contains(keys, "other") {
				return map[string]int{"other": 7}, nil
			}
			v, err := g.Get(ctx, "other") // in a separate bulk load
			if err != nil {
				return nil, err
			}
			_, err = g.Get(ctx, "b")
			return map[string]int{"a": v}, err
		}}, weir.Options{Batch: weir.Batching{MaxSize: 2, Linger: time.Second}})
		one, two := s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")
		s.Want(one, 7, nil, time.Second)
		s.Want(two, 0, weir.ErrRecursive, time.Second)
	})
}

// E6: a write while a key is gathered overtakes its flight: earlier callers get
// a value marked superseded, later callers the value that is kept. The key is
// loaded once, since the call has not begun.
func TestE6InvalidateWhileGathering(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, g *weir.Guard[string, int]) error{
		"Invalidate":    func(ctx context.Context, g *weir.Guard[string, int]) error { return g.Invalidate(ctx, "a") },
		"Expire":        func(ctx context.Context, g *weir.Guard[string, int]) error { return g.Expire(ctx, "a") },
		"InvalidateAll": func(ctx context.Context, g *weir.Guard[string, int]) error { return g.InvalidateAll(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				b := &rig.Bulk{Takes: time.Second}
				g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Second}, weir.Options{TTL: time.Hour})
				before, other := s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")
				for range 2 {
					if err := write(s.Context(), g); err != nil {
						s.Fatal(err)
					}
				}
				after := s.Get(s.Context(), g, "a")
				gone := s.Get(s.Until(500*ms), g, "c")
				s.Want(gone, 0, context.DeadlineExceeded, 500*ms)
				for _, a := range []*rig.Answer{before, after, other} {
					s.Want(a, 1, nil, 2*time.Second)
				}
				if !before.Superseded || after.Superseded || other.Superseded != (name == "InvalidateAll") {
					s.Errorf("Superseded = %v, %v, %v; want true for who came before alone", before.Superseded, after.Superseded, other.Superseded)
				}
				s.Want(s.Get(s.Context(), g, "a"), 1, nil, 2*time.Second)
				b.Want(s, "a b at 0s")
			})
		})
	}
}

func TestE6SetWhileGathering(t *testing.T) {
	rig.NotInFleet(t)
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Second}, weir.Options{TTL: time.Hour})
		before := s.Get(s.Context(), g, "a")
		g.Set(s.Context(), "a", 70)
		s.Want(s.Get(s.Context(), g, "a"), 70, nil, 0)
		s.Want(before, 1, nil, time.Second)
		s.Want(s.Get(s.Context(), g, "a"), 70, nil, time.Second)
	})
}

// One bad key fails alone, with its own error and class; a missing key is not
// found, and both are remembered as if they had been loaded alone.
func TestF8OneBadKeyFailsAlone(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		rig.Tell(t, func(s *rig.Story) {
			bad, none := errors.New("bad row"), errors.New("no rows")
			own := weir.KeyErrors[string]{"bad": bad, "none": none, "both": bad, "nil": nil}
			var err error = own
			if wrap {
				err = wrapped{own}
			}
			b := &rig.Bulk{Err: err, Lacks: []string{"bad", "none", "missing"}}
			g := batched(s, b, weir.Batching{MaxSize: 6, Linger: time.Second}, weir.Options{
				TTL: time.Hour, NegativeTTL: time.Hour,
				FailureMemo: weir.FailureMemo{Permanent: weir.Backoff{Initial: time.Hour}},
				Classify: func(err error) weir.Class {
					switch err {
					case bad:
						return weir.ClassPermanent
					case none:
						return weir.ClassNotFound
					}
					return weir.ClassTransient
				}})
			want := map[string]error{"a": nil, "bad": bad, "none": weir.ErrNotFound, "missing": weir.ErrNotFound, "both": bad, "nil": nil}
			for range 2 { // loaded, then remembered
				answers := make(map[string]*rig.Answer)
				for key := range want {
					answers[key] = s.Get(s.Context(), g, key)
				}
				for key, a := range answers {
					value := 1
					if want[key] != nil {
						value = 0
					}
					s.Want(a, value, want[key], 0)
				}
			}
			if st := g.Stats(); st.Loads != 1 || st.LoadFailures != 2 || st.NotFound != 2 {
				s.Errorf("Loads, LoadFailures, NotFound = %d, %d, %d; want 1, 2, 2", st.Loads, st.LoadFailures, st.NotFound)
			}
		})
	}
}

type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }

// KeyErrors joined with another error: a key that failed is not treated as one
// that does not exist.
func TestF8KeyErrorsJoinedWithAnother(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{Lacks: []string{"a", "b"}, Err: errors.Join(weir.KeyErrors[string]{"a": weir.ErrNotFound}, rig.ErrDown)}
		g := batched(s, b, weir.Batching{MaxSize: 2, Linger: time.Second}, weir.Options{})
		one, two := s.Get(s.Context(), g, "b"), s.Get(s.Context(), g, "c")
		s.Want(one, 0, rig.ErrDown, 0)
		s.Want(two, 1, nil, 0)
	})
	e := weir.KeyErrors[string]{"a": rig.ErrDown}
	if !errors.Is(e, rig.ErrDown) || !strings.Contains(e.Error(), "key a failed") {
		t.Errorf("Error() = %q", e)
	}
}

// An adaptive limiter gets the outcome overload if any key of a bulk load, in
// any position, has that class.
func TestB4OutcomeOfABulkLoad(t *testing.T) {
	full, bad := errors.New("full"), errors.New("bad")
	for name, row := range map[string]struct {
		errs weir.KeyErrors[string]
		want limit.Outcome
	}{
		"all well":         {nil, limit.Success},
		"one in overload":  {weir.KeyErrors[string]{"b": full}, limit.Dropped},
		"beside another":   {weir.KeyErrors[string]{"a": rig.ErrDown, "b": bad, "c": full}, limit.Dropped},
		"one transient":    {weir.KeyErrors[string]{"c": rig.ErrDown}, limit.Ignored},
		"behind permanent": {weir.KeyErrors[string]{"a": bad, "c": rig.ErrDown}, limit.Ignored},
		"one permanent":    {weir.KeyErrors[string]{"b": bad}, limit.Success},
		"one not found":    {weir.KeyErrors[string]{"b": weir.ErrNotFound}, limit.Success},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				var got []limit.Outcome
				b := &rig.Bulk{}
				if row.errs != nil {
					b.Err = row.errs
				}
				g := batched(s, b, weir.Batching{MaxSize: 3, Linger: time.Hour}, weir.Options{
					Limiter: rig.LimiterFunc(func(context.Context) (limit.Permit, error) {
						return limit.NewPermit(func(o limit.Outcome) { got = append(got, o) }), nil
					}),
					Classify: func(err error) weir.Class {
						return map[error]weir.Class{full: weir.ClassOverload, bad: weir.ClassPermanent}[err]
					}})
				for _, key := range []string{"a", "b", "c"} {
					s.Get(s.Context(), g, key)
				}
				if !slices.Equal(got, []limit.Outcome{row.want}) {
					s.Errorf("outcomes = %v; want %v", got, row.want)
				}
			})
		})
	}
}

// B1: with all places taken by loads that hang, no caller waits forever:
// queued, lingering and new callers get the error, or a stale value.
func TestB1AllPlacesHang(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		takes := time.Duration(0)
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			time.Sleep(takes)
			values := make(map[string]int)
			for _, key := range keys {
				values[key] = 1
			}
			return values, nil
		}}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, LoadTimeout: 5 * time.Second,
			Batch: weir.Batching{MaxSize: 2, Linger: 3 * time.Second, MaxParallel: 1}})
		s.Many(s.Context(), g, "stale", "old")
		takes = time.Minute
		s.At(2 * time.Second)
		hung := s.Many(s.Context(), g, "a", "b")
		inLine := s.Many(s.Context(), g, "c")
		s.At(6 * time.Second)
		lingers, stale := s.Get(s.Context(), g, "d"), s.Get(s.Context(), g, "stale")
		lingers2 := s.Get(s.Context(), g, "e")
		s.WantMany(hung, 7*time.Second, map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded})
		s.WantMany(inLine, 7*time.Second, map[string]any{"c": weir.ErrStuck})
		s.Want(lingers, 0, weir.ErrStuck, 7*time.Second)
		s.Want(lingers2, 0, weir.ErrStuck, 7*time.Second)
		s.Want(stale, 1, nil, 7*time.Second)
		s.Want(s.Get(s.Context(), g, "f"), 0, weir.ErrStuck, 7*time.Second)
		s.Want(s.Get(s.Context(), g, "old"), 1, nil, 7*time.Second)
		rig.WantGauges(s, g, weir.Stats{Running: 1, Stuck: 1})
		takes = 0
		s.At(63 * time.Second)
		s.Want(s.Get(s.Context(), g, "f"), 1, nil, 66*time.Second)
		if n := g.Stats().StuckRefusals; n != 5 { // c, d with stale, e; f, old
			s.Errorf("StuckRefusals = %d; want 5", n)
		}
	})
}

// B2: refreshes are gathered separately from misses, within MaxRefreshes loads,
// and leave the last place to misses. A refresh that a miss has joined is
// treated as a miss.
func TestB2RefreshesAreGatheredApart(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 4, MaxParallel: 2}, weir.Options{
			TTL: time.Second, StaleWhileRevalidate: time.Minute, MaxRefreshes: 2})
		s.Many(s.Context(), g, "a", "b", "c", "d")
		s.Many(s.Context(), g, "e", "f", "g")
		b.Takes = time.Second
		s.At(2 * time.Second)
		s.Want(s.Get(s.Context(), g, "a"), 1, nil, 2*time.Second) // the first refresh
		for _, key := range []string{"b", "c", "d", "e"} {        // must not take the last place
			s.Get(s.Context(), g, key)
		}
		s.Get(s.Context(), g, "f") // a third load would be one too many
		rig.WantGauges(s, g, weir.Stats{Flights: 5, Running: 2, Refreshing: 2})
		s.Get(s.Context(), g, "miss")
		b.Want(s, "a b c d at 0s", "e f g at 0s", "a at 2s", "miss at 2s")
		s.At(3 * time.Second)
		b.Want(s, "a b c d at 0s", "e f g at 0s", "a at 2s", "miss at 2s", "b c d e at 3s")
		if st := g.Stats(); st.RefreshesSkipped != 1 || st.Refreshes != 2 {
			s.Errorf("RefreshesSkipped, Refreshes = %d, %d; want 1, 2", st.RefreshesSkipped, st.Refreshes)
		}
		s.At(10 * time.Second)
		s.Get(s.Context(), g, "a") // runs
		s.Get(s.Context(), g, "b") // waits
		joins := s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "b") })
		s.Want(joins, 7, nil, 11*time.Second)
		if !joins.Joined {
			s.Error("Joined = false; want true")
		}
	})
}

// E1: the soft timeout counts from the miss, including the time of gathering.
func TestE1SoftTimeoutWhileGathering(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: 2 * time.Second}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 500 * ms})
		s.Many(s.Context(), g, "a", "b")
		s.At(2 * time.Second)
		one := s.Get(s.Context(), g, "a")
		s.At(2200 * ms)
		two := s.Get(s.Context(), g, "b")
		s.Want(one, 1, nil, 2500*ms)
		s.Want(two, 1, nil, 2700*ms)
		if one.State != weir.StateStaleOnError || two.State != weir.StateStaleOnError {
			s.Errorf("States = %v, %v; want stale on error", one.State, two.State)
		}
		s.At(4 * time.Second)
		b.Want(s, "a b at 0s", "a b at 4s") // the Guard has stayed on the flight
	})
}

// E9: Close ends gathering loads at once.
func TestE9CloseWhileGathering(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Hour}, weir.Options{})
		a := s.Get(s.Context(), g, "a")
		if err := g.Close(s.Context()); err != nil {
			s.Errorf("Close = %v; want nil", err)
		}
		s.Want(a, 0, weir.ErrClosed, 0)
		s.Want(s.Get(s.Context(), g, "b"), 0, weir.ErrClosed, 0)
		b.Want(s)
	})
}

// F1: the load has the values of the caller that opened it, and the hard timeout
// counts from its departure.
func TestF1ContextOfABatchedLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		type key struct{}
		var value any
		var deadline time.Time
		g := rig.GuardFrom(s, weir.Source[string, int]{LoadMany: func(ctx context.Context, keys []string) (map[string]int, error) {
			value = ctx.Value(key{})
			deadline, _ = ctx.Deadline()
			return nil, nil
		}}, weir.Options{LoadTimeout: 5 * time.Second, Batch: weir.Batching{MaxSize: 9, Linger: time.Second}})
		one := s.Get(context.WithValue(s.Until(time.Minute), key{}, 1), g, "a")
		s.Get(context.WithValue(s.Context(), key{}, 2), g, "b")
		s.Want(one, 0, weir.ErrNotFound, time.Second)
		if value != 1 || deadline.Sub(s.Start) != 6*time.Second {
			s.Errorf("value, deadline = %v, %v; want 1, 6s", value, deadline.Sub(s.Start))
		}
	})
}

// ends are the ways in which a whole call may fail.
var ends = map[string]func() error{
	"error":  func() error { return rig.ErrDown },
	"panic":  func() error { panic("boom") },
	"goexit": func() error { runtime.Goexit(); return nil },
}

// F4: no caller joins a load that was abandoned while a limiter that ignores
// its context held it.
func TestF4MissAfterAnAbandonedGatheringLoad(t *testing.T) {
	rig.NotInFleet(t)
	rig.Tell(t, func(s *rig.Story) {
		b := &rig.Bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9}, weir.Options{Limiter: rig.LimiterFunc(func(context.Context) (limit.Permit, error) {
			time.Sleep(10 * time.Second)
			return limit.Permit{}, nil
		})})
		gone := s.Get(s.Until(time.Second), g, "a")
		s.Want(gone, 0, context.DeadlineExceeded, time.Second)
		s.At(2 * time.Second)
		one, two := s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")
		s.Want(one, 1, nil, 12*time.Second)
		s.Want(two, 1, nil, 12*time.Second)
		b.Want(s, "a b at 0s")
	})
}

// F3 and B4: a caller whose key would be added to a load that waits for
// admission is refused at once if the load could not be admitted before the
// caller's deadline.
func TestF3GatheredCallerWithAnEarlierDeadlineIsRefusedAtOnce(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		g := weir.Must(weir.NewFrom(weir.Source[string, int]{LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			time.Sleep(time.Second)
			answers := map[string]int{}
			for _, key := range keys {
				answers[key] = len(keys)
			}
			return answers, nil
		}}, weir.Options{Limiter: c, Batch: weir.Batching{MaxSize: 10}}))
		s.Want(s.Get(s.Context(), g, "a"), 1, nil, time.Second) // a load takes 1 s: measured
		b := s.Get(s.Context(), g, "b")
		patient := s.Get(s.Context(), g, "k") // its turn comes at 2 s
		s.At(1200 * ms)
		hasty := s.Get(s.Until(1900*ms), g, "l")
		joins := s.Get(s.Until(3500*ms), g, "m")
		s.Want(hasty, 0, limit.ErrLimited, 1200*ms)
		s.Want(b, 1, nil, 2*time.Second)
		s.Want(patient, 2, nil, 3*time.Second)
		s.Want(joins, 2, nil, 3*time.Second)
	})
}
