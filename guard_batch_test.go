package weir_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// batched makes a Guard around b that gathers misses.
func batched(s *story, b *bulk, batch weir.Batching, o weir.Options) *weir.Guard[string, int] {
	s.Helper()
	o.Batch = batch
	return guardFrom(s, weir.Source[string, int]{LoadMany: b.load}, o)
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
		BatchScope: func(string) any { return nil },
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
	tell(t, func(s *story) {
		b := &bulk{takes: 100 * ms}
		c := concurrency(s, limit.ConcurrencyOptions{Limit: 5})
		g := batched(s, b, weir.Batching{MaxSize: 10, Linger: 10 * ms}, weir.Options{TTL: time.Hour, Limiter: c})
		one := s.get(s.Context(), g, "a")
		wantInUse(s, c, 0)
		s.at(10*ms - 1)
		two := s.get(s.Context(), g, "b")
		three := s.ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "c") })
		again := s.get(s.Context(), g, "a")
		s.at(10 * ms)
		late := s.get(s.Context(), g, "d")
		wantInUse(s, c, 1)
		wantGauges(s, g, weir.Stats{Flights: 4, Running: 2})
		for _, a := range []*answer{one, two, three, again} {
			s.want(a, 1, nil, 110*ms)
		}
		s.want(late, 2, nil, 120*ms)
		if one.Joined || two.Joined || !again.Joined {
			s.Errorf("Joined = %v, %v, %v; want false for the first of each key", one.Joined, two.Joined, again.Joined)
		}
		b.want(s, "a b c at 0s", "d at 10ms")
		if st := g.Stats(); st.Loads != 2 || st.Joins != 1 || c.Stats().Admitted != 2 {
			s.Errorf("Loads, Joins, permits = %d, %d, %d; want 2, 1, 2", st.Loads, st.Joins, c.Stats().Admitted)
		}
	})
}

// B3: a bulk load with MaxSize keys departs at once, and at most MaxParallel run
// at a time; misses that come meanwhile are gathered.
func TestB3SizeAndParallel(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		g := batched(s, b, weir.Batching{MaxSize: 2, Linger: time.Minute, MaxParallel: 1}, weir.Options{})
		for _, key := range strings.Split("abcdefg", "") {
			s.get(s.Context(), g, key)
		}
		b.want(s, "a b at 0s")
		s.at(3 * time.Second)
		s.many(s.Context(), g, "m", "n", "o") // counted, and split
		s.at(2 * time.Minute)
		b.want(s, "a b at 0s", "c d at 1s", "e f at 2s", "m n at 3s", "o at 4s", "g at 1m0s")
	})
	tell(t, func(s *story) { // without a linger
		b := &bulk{takes: time.Second}
		g := batched(s, b, weir.Batching{MaxSize: 3, MaxParallel: 1}, weir.Options{})
		for _, key := range strings.Split("abcdef", "") {
			s.get(s.Context(), g, key)
		}
		s.at(time.Minute)
		b.want(s, "a at 0s", "b c d at 1s", "e f at 2s")
	})
}

// B3: keys of two scopes are never in one call, not even of GetMany; a key whose
// scope cannot be compared is loaded alone.
func TestB3BatchScope(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := guardFrom(s, weir.Source[string, int]{LoadMany: b.load, BatchScope: func(key string) any {
			switch key[0] {
			case 'x':
				return []string{key}
			case 'y':
				return math.NaN()
			}
			return key[:1]
		}}, weir.Options{Batch: weir.Batching{MaxSize: 2, Linger: time.Second, MaxParallel: 100}})
		for _, key := range []string{"a1", "b1", "x1", "x2", "y1", "y2", "a2", "a3"} {
			s.get(s.Context(), g, key)
		}
		s.at(2 * time.Second)
		slices.Sort(b.calls[1:])
		b.want(s, "a1 a2 at 0s", "a3 at 1s", "b1 at 1s", "x1 at 1s", "x2 at 1s", "y1 at 1s", "y2 at 1s")
		b.calls = nil
		a := s.many(s.Context(), g, "a1", "b1", "a2", "b2", "a3", "x1", "x2")
		if <-a.done; a.at != 2*time.Second || len(a.results) != 7 {
			s.Errorf("%d results at %v; want 7 at 2s", len(a.results), a.at)
		}
		slices.Sort(b.calls)
		b.want(s, "a1 a2 at 2s", "a3 at 2s", "b1 b2 at 2s", "x1 at 2s", "x2 at 2s")
	})
}

// B3: GetMany joins keys that are being gathered, and its own load starts at
// once.
func TestB3GetManyAndGatheredKeys(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 10, Linger: time.Second}, weir.Options{})
		one := s.get(s.Context(), g, "a")
		a := s.many(s.Context(), g, "a", "b", "c")
		b.want(s, "b c at 0s")
		s.wantMany(a, time.Second, map[string]any{"a": 2, "b": 1, "c": 1})
		s.want(one, 2, nil, time.Second)
		b.want(s, "b c at 0s", "a at 1s")
	})
}

// B3: a single remaining key is passed to Load, if that is set.
func TestB3OneKeyGoesToLoad(t *testing.T) {
	tell(t, func(s *story) {
		b, m := &bulk{}, &mill{}
		g := guardFrom(s, weir.Source[string, int]{Load: m.load, LoadMany: b.load}, weir.Options{Batch: weir.Batching{MaxSize: 3, Linger: time.Second}})
		s.get(s.until(500*ms), g, "gone")
		s.want(s.get(s.Context(), g, "a"), 1, nil, time.Second)
		b.want(s)
		s.wantRuns(m, 1)
	})
}

// F2: each caller leaves at its own deadline. A key without a waiting caller is
// taken out before the load departs, which makes room for another.
func TestF2BatchedCallersKeepTheirOwnDeadlines(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{takes: time.Second}
		g := batched(s, b, weir.Batching{MaxSize: 3, Linger: time.Minute}, weir.Options{TTL: time.Hour})
		a := s.get(s.Context(), g, "a")
		gone, twice := s.get(s.until(100*ms), g, "b"), s.get(s.until(100*ms), g, "a")
		s.want(gone, 0, context.DeadlineExceeded, 100*ms)
		s.want(twice, 0, context.DeadlineExceeded, 100*ms)
		wantGauges(s, g, weir.Stats{Flights: 1, Running: 1})
		c := s.get(s.until(500*ms), g, "c")
		back := s.get(s.Context(), g, "b") // full
		s.want(c, 0, context.DeadlineExceeded, 500*ms)
		s.want(a, 1, nil, 1100*ms)
		s.want(back, 1, nil, 1100*ms)
		s.want(s.get(s.Context(), g, "c"), 1, nil, 1100*ms) // kept, though its caller had left
		b.want(s, "a b c at 0s")
	})
}

// F3: a bulk load is canceled when the callers of all its keys have left,
// whether it is gathering, waiting for a place or a permit, or running; it
// leaves nothing behind.
func TestF3BatchedLoadIsAbandonedWhenTheCallersOfAllKeysHaveLeft(t *testing.T) {
	notInFleet(t)
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
			tell(t, func(s *story) {
				b := &bulk{takes: 20 * time.Second}
				c := concurrency(s, limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
				g := batched(s, b, row.batch, weir.Options{Limiter: c})
				before := 0
				if row.busy {
					s.get(s.Context(), g, "busy")
					before = 1
				}
				var held limit.Permit
				if row.hold {
					held, _ = c.Acquire(s.Context())
				}
				one, two := s.get(s.until(time.Second), g, "a"), s.get(s.until(2*time.Second), g, "b")
				s.want(one, 0, context.DeadlineExceeded, time.Second)
				s.at(2*time.Second - 1)
				if n := g.Stats().Running; n != before+1 {
					s.Errorf("Running = %d; want %d: one still waits", n, before+1)
				}
				s.want(two, 0, context.DeadlineExceeded, 2*time.Second)
				s.at(2 * time.Second)
				wantGauges(s, g, weir.Stats{Flights: before, Running: before})
				held.Release(limit.Unused)
				b.takes = 0
				s.at(25 * time.Second)
				s.want(s.get(s.until(30*time.Hour), g, "a"), row.calls+before+1, nil, 25*time.Second+row.batch.Linger)
				if st := g.Stats(); st.Abandoned != 1 || int(st.Loads) != row.calls+before+1 {
					s.Errorf("Abandoned, Loads = %d, %d; want 1, %d", st.Abandoned, st.Loads, row.calls+before+1)
				}
				wantInUse(s, c, 0)
			})
		})
	}
}

// F3: with AbandonGrace the load runs to its end for a key without a waiting
// caller.
func TestF3BatchedKeyStaysWithAGrace(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Second}, weir.Options{TTL: time.Hour, AbandonGrace: weir.Never})
		s.get(s.until(100*ms), g, "a")
		s.get(s.until(200*ms), g, "b")
		s.at(time.Second)
		b.want(s, "a b at 0s")
		s.want(s.get(s.Context(), g, "a"), 1, nil, time.Second)
	})
}

// F3: the load requests its permit with the latest deadline of all its callers,
// and again when a caller with a later one comes; a caller with less time
// leaves alone.
func TestF3BatchedLoadAsksForTheLatestDeadline(t *testing.T) {
	notInFleet(t)
	tell(t, func(s *story) {
		var asked []time.Duration
		limiter := limiterFunc(func(ctx context.Context) (limit.Permit, error) {
			until, _ := ctx.Deadline()
			asked = append(asked, until.Sub(s.start))
			time.Sleep(500 * ms)
			if until.Sub(s.start) < 10*time.Second {
				return limit.Permit{}, &limit.Error{Reason: limit.WaitTooLong}
			}
			return limit.Permit{}, nil
		})
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9}, weir.Options{Limiter: limiter})
		one, two := s.get(s.until(5*time.Second), g, "a"), s.get(s.until(600*ms), g, "b")
		s.at(100 * ms)
		three := s.get(s.until(20*time.Second), g, "c")
		s.want(two, 0, context.DeadlineExceeded, 600*ms)
		s.want(one, 1, nil, time.Second)
		s.want(three, 1, nil, time.Second)
		if want := []time.Duration{5 * time.Second, 20 * time.Second}; !slices.Equal(asked, want) {
			s.Errorf("asked with the deadlines %v; want %v", asked, want)
		}
		b.want(s, "a c at 0s")
	})
}

// F6, F8: all callers share the outcome of the call, and no place is lost.
func TestF6BatchedLoadThatFailsAsAWhole(t *testing.T) {
	for name, does := range ends {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				calls := 0
				g := guardFrom(s, weir.Source[string, int]{LoadMany: func(context.Context, []string) (map[string]int, error) {
					calls++
					return nil, does()
				}}, weir.Options{Batch: weir.Batching{MaxSize: 2, Linger: time.Hour, MaxParallel: 1}})
				for range 3 {
					for _, a := range []*answer{s.get(s.Context(), g, "a"), s.get(s.Context(), g, "b")} {
						<-a.done
						if p := (*weir.PanicError)(nil); a.Err == nil || name == "panic" && !errors.As(a.Err, &p) || name == "goexit" && a.Err != weir.ErrGoexit || name == "error" && a.Err != errDown {
							s.Errorf("Get = %v after a %s", a.Err, name)
						}
					}
				}
				wantGauges(s, g, weir.Stats{})
				if calls != 3 {
					s.Errorf("%d calls; want 3", calls)
				}
			})
		})
	}
}

// F9: a bulk load that asks for one of its own keys gets an error.
func TestF9BatchedLoadAsksForItsOwnKey(t *testing.T) {
	tell(t, func(s *story) {
		var g *weir.Guard[string, int]
		g = guardFrom(s, weir.Source[string, int]{LoadMany: func(ctx context.Context, keys []string) (map[string]int, error) {
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
		one, two := s.get(s.Context(), g, "a"), s.get(s.Context(), g, "b")
		s.want(one, 7, nil, time.Second)
		s.want(two, 0, weir.ErrRecursive, time.Second)
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
			tell(t, func(s *story) {
				b := &bulk{takes: time.Second}
				g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Second}, weir.Options{TTL: time.Hour})
				before, other := s.get(s.Context(), g, "a"), s.get(s.Context(), g, "b")
				for range 2 {
					if err := write(s.Context(), g); err != nil {
						s.Fatal(err)
					}
				}
				after := s.get(s.Context(), g, "a")
				gone := s.get(s.until(500*ms), g, "c")
				s.want(gone, 0, context.DeadlineExceeded, 500*ms)
				for _, a := range []*answer{before, after, other} {
					s.want(a, 1, nil, 2*time.Second)
				}
				if !before.Superseded || after.Superseded || other.Superseded != (name == "InvalidateAll") {
					s.Errorf("Superseded = %v, %v, %v; want true for who came before alone", before.Superseded, after.Superseded, other.Superseded)
				}
				s.want(s.get(s.Context(), g, "a"), 1, nil, 2*time.Second)
				b.want(s, "a b at 0s")
			})
		})
	}
}

func TestE6SetWhileGathering(t *testing.T) {
	notInFleet(t)
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Second}, weir.Options{TTL: time.Hour})
		before := s.get(s.Context(), g, "a")
		g.Set(s.Context(), "a", 70)
		s.want(s.get(s.Context(), g, "a"), 70, nil, 0)
		s.want(before, 1, nil, time.Second)
		s.want(s.get(s.Context(), g, "a"), 70, nil, time.Second)
	})
}

// One bad key fails alone, with its own error and class; a missing key is not
// found, and both are remembered as if they had been loaded alone.
func TestF8OneBadKeyFailsAlone(t *testing.T) {
	for _, wrap := range []bool{false, true} {
		tell(t, func(s *story) {
			bad, none := errors.New("bad row"), errors.New("no rows")
			own := weir.KeyErrors[string]{"bad": bad, "none": none, "both": bad, "nil": nil}
			var err error = own
			if wrap {
				err = wrapped{own}
			}
			b := &bulk{err: err, lacks: []string{"bad", "none", "missing"}}
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
				answers := make(map[string]*answer)
				for key := range want {
					answers[key] = s.get(s.Context(), g, key)
				}
				for key, a := range answers {
					value := 1
					if want[key] != nil {
						value = 0
					}
					s.want(a, value, want[key], 0)
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
	tell(t, func(s *story) {
		b := &bulk{lacks: []string{"a", "b"}, err: errors.Join(weir.KeyErrors[string]{"a": weir.ErrNotFound}, errDown)}
		g := batched(s, b, weir.Batching{MaxSize: 2, Linger: time.Second}, weir.Options{})
		one, two := s.get(s.Context(), g, "b"), s.get(s.Context(), g, "c")
		s.want(one, 0, errDown, 0)
		s.want(two, 1, nil, 0)
	})
	e := weir.KeyErrors[string]{"a": errDown}
	if !errors.Is(e, errDown) || !strings.Contains(e.Error(), "key a failed") {
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
		"beside another":   {weir.KeyErrors[string]{"a": errDown, "b": bad, "c": full}, limit.Dropped},
		"one transient":    {weir.KeyErrors[string]{"c": errDown}, limit.Ignored},
		"behind permanent": {weir.KeyErrors[string]{"a": bad, "c": errDown}, limit.Ignored},
		"one permanent":    {weir.KeyErrors[string]{"b": bad}, limit.Success},
		"one not found":    {weir.KeyErrors[string]{"b": weir.ErrNotFound}, limit.Success},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				var got []limit.Outcome
				b := &bulk{}
				if row.errs != nil {
					b.err = row.errs
				}
				g := batched(s, b, weir.Batching{MaxSize: 3, Linger: time.Hour}, weir.Options{
					Limiter: limiterFunc(func(context.Context) (limit.Permit, error) {
						return limit.NewPermit(func(o limit.Outcome) { got = append(got, o) }), nil
					}),
					Classify: func(err error) weir.Class {
						return map[error]weir.Class{full: weir.ClassOverload, bad: weir.ClassPermanent}[err]
					}})
				for _, key := range []string{"a", "b", "c"} {
					s.get(s.Context(), g, key)
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
	tell(t, func(s *story) {
		takes := time.Duration(0)
		g := guardFrom(s, weir.Source[string, int]{LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			time.Sleep(takes)
			values := make(map[string]int)
			for _, key := range keys {
				values[key] = 1
			}
			return values, nil
		}}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, LoadTimeout: 5 * time.Second,
			Batch: weir.Batching{MaxSize: 2, Linger: 3 * time.Second, MaxParallel: 1}})
		s.many(s.Context(), g, "stale", "old")
		takes = time.Minute
		s.at(2 * time.Second)
		hung := s.many(s.Context(), g, "a", "b")
		inLine := s.many(s.Context(), g, "c")
		s.at(6 * time.Second)
		lingers, stale := s.get(s.Context(), g, "d"), s.get(s.Context(), g, "stale")
		lingers2 := s.get(s.Context(), g, "e")
		s.wantMany(hung, 7*time.Second, map[string]any{"a": context.DeadlineExceeded, "b": context.DeadlineExceeded})
		s.wantMany(inLine, 7*time.Second, map[string]any{"c": weir.ErrStuck})
		s.want(lingers, 0, weir.ErrStuck, 7*time.Second)
		s.want(lingers2, 0, weir.ErrStuck, 7*time.Second)
		s.want(stale, 1, nil, 7*time.Second)
		s.want(s.get(s.Context(), g, "f"), 0, weir.ErrStuck, 7*time.Second)
		s.want(s.get(s.Context(), g, "old"), 1, nil, 7*time.Second)
		wantGauges(s, g, weir.Stats{Running: 1, Stuck: 1})
		takes = 0
		s.at(63 * time.Second)
		s.want(s.get(s.Context(), g, "f"), 1, nil, 66*time.Second)
		if n := g.Stats().StuckRefusals; n != 5 { // c, d with stale, e; f, old
			s.Errorf("StuckRefusals = %d; want 5", n)
		}
	})
}

// B2: refreshes are gathered separately from misses, within MaxRefreshes loads,
// and leave the last place to misses. A refresh that a miss has joined is
// treated as a miss.
func TestB2RefreshesAreGatheredApart(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 4, MaxParallel: 2}, weir.Options{
			TTL: time.Second, StaleWhileRevalidate: time.Minute, MaxRefreshes: 2})
		s.many(s.Context(), g, "a", "b", "c", "d")
		s.many(s.Context(), g, "e", "f", "g")
		b.takes = time.Second
		s.at(2 * time.Second)
		s.want(s.get(s.Context(), g, "a"), 1, nil, 2*time.Second) // the first refresh
		for _, key := range []string{"b", "c", "d", "e"} {        // must not take the last place
			s.get(s.Context(), g, key)
		}
		s.get(s.Context(), g, "f") // a third load would be one too many
		wantGauges(s, g, weir.Stats{Flights: 5, Running: 2, Refreshing: 2})
		s.get(s.Context(), g, "miss")
		b.want(s, "a b c d at 0s", "e f g at 0s", "a at 2s", "miss at 2s")
		s.at(3 * time.Second)
		b.want(s, "a b c d at 0s", "e f g at 0s", "a at 2s", "miss at 2s", "b c d e at 3s")
		if st := g.Stats(); st.RefreshesSkipped != 1 || st.Refreshes != 2 {
			s.Errorf("RefreshesSkipped, Refreshes = %d, %d; want 1, 2", st.RefreshesSkipped, st.Refreshes)
		}
		s.at(10 * time.Second)
		s.get(s.Context(), g, "a") // runs
		s.get(s.Context(), g, "b") // waits
		joins := s.ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "b") })
		s.want(joins, 7, nil, 11*time.Second)
		if !joins.Joined {
			s.Error("Joined = false; want true")
		}
	})
}

// E1: the soft timeout counts from the miss, including the time of gathering.
func TestE1SoftTimeoutWhileGathering(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: 2 * time.Second}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 500 * ms})
		s.many(s.Context(), g, "a", "b")
		s.at(2 * time.Second)
		one := s.get(s.Context(), g, "a")
		s.at(2200 * ms)
		two := s.get(s.Context(), g, "b")
		s.want(one, 1, nil, 2500*ms)
		s.want(two, 1, nil, 2700*ms)
		if one.State != weir.StateStaleOnError || two.State != weir.StateStaleOnError {
			s.Errorf("States = %v, %v; want stale on error", one.State, two.State)
		}
		s.at(4 * time.Second)
		b.want(s, "a b at 0s", "a b at 4s") // the Guard has stayed on the flight
	})
}

// E9: Close ends gathering loads at once.
func TestE9CloseWhileGathering(t *testing.T) {
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9, Linger: time.Hour}, weir.Options{})
		a := s.get(s.Context(), g, "a")
		if err := g.Close(s.Context()); err != nil {
			s.Errorf("Close = %v; want nil", err)
		}
		s.want(a, 0, weir.ErrClosed, 0)
		s.want(s.get(s.Context(), g, "b"), 0, weir.ErrClosed, 0)
		b.want(s)
	})
}

// F1: the load has the values of the caller that opened it, and the hard timeout
// counts from its departure.
func TestF1ContextOfABatchedLoad(t *testing.T) {
	tell(t, func(s *story) {
		type key struct{}
		var value any
		var deadline time.Time
		g := guardFrom(s, weir.Source[string, int]{LoadMany: func(ctx context.Context, keys []string) (map[string]int, error) {
			value = ctx.Value(key{})
			deadline, _ = ctx.Deadline()
			return nil, nil
		}}, weir.Options{LoadTimeout: 5 * time.Second, Batch: weir.Batching{MaxSize: 9, Linger: time.Second}})
		one := s.get(context.WithValue(s.until(time.Minute), key{}, 1), g, "a")
		s.get(context.WithValue(s.Context(), key{}, 2), g, "b")
		s.want(one, 0, weir.ErrNotFound, time.Second)
		if value != 1 || deadline.Sub(s.start) != 6*time.Second {
			s.Errorf("value, deadline = %v, %v; want 1, 6s", value, deadline.Sub(s.start))
		}
	})
}

// ends are the ways in which a whole call may fail.
var ends = map[string]func() error{
	"error":  func() error { return errDown },
	"panic":  func() error { panic("boom") },
	"goexit": func() error { runtime.Goexit(); return nil },
}

// F4: no caller joins a load that was abandoned while a limiter that ignores
// its context held it.
func TestF4MissAfterAnAbandonedGatheringLoad(t *testing.T) {
	notInFleet(t)
	tell(t, func(s *story) {
		b := &bulk{}
		g := batched(s, b, weir.Batching{MaxSize: 9}, weir.Options{Limiter: limiterFunc(func(context.Context) (limit.Permit, error) {
			time.Sleep(10 * time.Second)
			return limit.Permit{}, nil
		})})
		gone := s.get(s.until(time.Second), g, "a")
		s.want(gone, 0, context.DeadlineExceeded, time.Second)
		s.at(2 * time.Second)
		one, two := s.get(s.Context(), g, "a"), s.get(s.Context(), g, "b")
		s.want(one, 1, nil, 12*time.Second)
		s.want(two, 1, nil, 12*time.Second)
		b.want(s, "a b at 0s")
	})
}

// F3 and B4: a caller whose key would be added to a load that waits for
// admission is refused at once if the load could not be admitted before the
// caller's deadline.
func TestF3GatheredCallerWithAnEarlierDeadlineIsRefusedAtOnce(t *testing.T) {
	tell(t, func(s *story) {
		c := concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		g := weir.Must(weir.NewFrom(weir.Source[string, int]{LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			time.Sleep(time.Second)
			answers := map[string]int{}
			for _, key := range keys {
				answers[key] = len(keys)
			}
			return answers, nil
		}}, weir.Options{Limiter: c, Batch: weir.Batching{MaxSize: 10}}))
		s.want(s.get(s.Context(), g, "a"), 1, nil, time.Second) // a load takes 1 s: measured
		b := s.get(s.Context(), g, "b")
		patient := s.get(s.Context(), g, "k") // its turn comes at 2 s
		s.at(1200 * ms)
		hasty := s.get(s.until(1900*ms), g, "l")
		joins := s.get(s.until(3500*ms), g, "m")
		s.want(hasty, 0, limit.ErrLimited, 1200*ms)
		s.want(b, 1, nil, 2*time.Second)
		s.want(patient, 2, nil, 3*time.Second)
		s.want(joins, 2, nil, 3*time.Second)
	})
}
