package reports_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

func TestO2ObserverSeesLoadsAndWaits(t *testing.T) {
	rec := &rig.Recorder{}
	var span any
	rig.PlayFrom(t, weir.Options{Name: "books", TTL: time.Hour, Observer: rec}, func(src *weir.Source[string, int]) {
		load := src.LoadEntry
		src.LoadEntry = func(ctx context.Context, key string, p weir.Previous[int]) (weir.Entry[int], error) {
			span = ctx.Value(rig.SpanKey{})
			return load(ctx, key, p)
		}
	}, func(s *rig.Scene) {
		s.Set(10*sec, nil)
		s.Until(sec)
		s.AskWith(context.WithValue(s.Context(), rig.WaitKey{}, "first"), "k")
		s.Until(4 * sec)
		second := s.AskWith(context.WithValue(s.Context(), rig.WaitKey{}, "second"), "k")
		<-second.Done
		s.Get("k") // a hit is not observed
		synctest.Wait()

		if span != "span 1" {
			s.Errorf("the load's context has %v; want what LoadStart put there", span)
		}
		if want := []weir.LoadInfo{{Guard: "books", Key: "k", Keys: 1}}; !slices.Equal(rec.Starts, want) {
			s.Errorf("LoadStart got %+v; want %+v", rec.Starts, want)
		}
		began := s.Start.Add(sec)
		if len(rec.Ends) != 1 || rec.Ends[0] != (weir.LoadEnd{Start: began, Duration: 10 * sec}) {
			s.Errorf("LoadEnd got %+v; want one of 10s", rec.Ends)
		} else if got := rec.EndCtx[0].Value(rig.SpanKey{}); got != "span 1" {
			s.Errorf("LoadEnd's context has %v; want that of LoadStart", got)
		}
		if len(rec.Waits) != 2 {
			s.Fatalf("Waited got %+v; want two", rec.Waits)
		}
		for i, w := range rec.Waits {
			joined, start, took := false, began, 10*sec
			if rec.Waiter[i] == "second" {
				joined, start, took = true, s.Start.Add(4*sec), 7*sec
			}
			if w.Guard != "books" || w.Joined != joined || w.Err != nil || !w.Start.Equal(start) || w.Duration != took {
				s.Errorf("Waited of %v got %+v; want joined %v, from %v for %v", rec.Waiter[i], w, joined, start, took)
			}
			if w.Load == nil || w.Load.Value(rig.SpanKey{}) != "span 1" {
				s.Errorf("Waited of %v got the load's context %v; want that of LoadStart", rec.Waiter[i], w.Load)
			}
		}
		if !slices.Contains(rec.Waiter, any("first")) || !slices.Contains(rec.Waiter, any("second")) {
			s.Errorf("Waited got contexts of %v; want those of the two calls", rec.Waiter)
		}
		if len(rec.Events) != 0 {
			s.Errorf("events %+v; want none", rec.Events)
		}
	})
}

func TestO2LoadEndTellsErrorsAndLateness(t *testing.T) {
	full := errors.New("full")
	classify := func(err error) weir.Class {
		if err == full {
			return weir.ClassOverload
		}
		return weir.ClassTransient
	}
	for _, row := range []struct {
		err   error
		class weir.Class
	}{{weir.ErrNotFound, weir.ClassNotFound}, {rig.ErrDown, weir.ClassTransient}, {full, weir.ClassOverload}} {
		rec := &rig.Recorder{}
		rig.Play(t, weir.Options{Observer: rec, Classify: classify}, func(s *rig.Scene) {
			s.Set(sec, row.err)
			s.Get("k")
			synctest.Wait()
			if len(rec.Ends) != 1 || !errors.Is(rec.Ends[0].Err, row.err) || rec.Ends[0].Class != row.class || rec.Ends[0].Late {
				s.Errorf("LoadEnd got %+v; want %v, %v", rec.Ends, row.err, row.class)
			}
			if len(rec.Waits) != 1 || row.class != weir.ClassNotFound && !errors.Is(rec.Waits[0].Err, row.err) {
				s.Errorf("Waited got %+v; want %v", rec.Waits, row.err)
			}
		})
	}
	rec := &rig.Recorder{}
	rig.Play(t, weir.Options{Observer: rec, LoadTimeout: 5 * sec}, func(s *rig.Scene) {
		s.Set(10*sec, nil)
		ctx, cancel := context.WithTimeoutCause(s.Context(), sec, rig.ErrDown)
		defer cancel()
		s.AskWith(ctx, "k")
		s.Until(6 * sec)
		if rec.Count(weir.EventAbandoned) != 1 || len(rec.Ends) != 1 || !rec.Ends[0].Late {
			s.Errorf("abandoned: events %+v, ends %+v; want one each, late", rec.Events, rec.Ends)
		}
		if len(rec.Waits) != 1 || rec.Waits[0].Err != rig.ErrDown {
			s.Errorf("Waited got %+v; want the caller's cause", rec.Waits)
		}
		s.Get("k") // until the hard timeout
		synctest.Wait()
		if rec.Count(weir.EventTimedOut) != 1 || len(rec.Ends) != 2 || !rec.Ends[1].Late {
			s.Errorf("timed out: events %+v, ends %+v; want one each, late", rec.Events, rec.Ends)
		}
	})
}

// The Observer gets a failed bulk load as one failed load.
func TestO2BulkLoadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &rig.Recorder{}
		g := weir.Must(weir.NewFrom(weir.Source[int, int]{LoadMany: func(context.Context, []int) (map[int]int, error) {
			return map[int]int{1: 1}, rig.ErrDown
		}}, weir.Options{Observer: rec}))
		g.GetMany(t.Context(), []int{1, 2, 3})
		synctest.Wait()
		if len(rec.Starts) != 1 || rec.Starts[0].Keys != 3 {
			t.Errorf("LoadStart got %+v; want one, of 3 keys", rec.Starts)
		}
		if len(rec.Ends) != 1 || !errors.Is(rec.Ends[0].Err, rig.ErrDown) || rec.Ends[0].Class != weir.ClassTransient {
			t.Errorf("LoadEnd got %+v; want %v", rec.Ends, rig.ErrDown)
		}
		if st := g.Stats(); st.Loads != 1 || st.LoadFailures != 2 {
			t.Errorf("Stats: Loads, LoadFailures = %d, %d; want 1, 2: failures count by the key", st.Loads, st.LoadFailures)
		}
	})
}

func TestO2Events(t *testing.T) {
	rec, gate := &rig.Recorder{}, &rig.Gate{}
	o := rig.FourInstants
	o.Observer, o.Limiter, o.MaxRefreshes, o.Name = rec, gate, 1, "books"
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("a")
		s.Prime("b")
		s.Set(10*sec, nil)
		s.Until(110 * sec)
		s.Get("a")
		s.Get("b") // no place for its refresh
		want := func(kind weir.EventKind, n int, key string, err error) {
			s.Helper()
			synctest.Wait()
			if rec.Count(kind) != n {
				s.Errorf("%d events %v; want %d", rec.Count(kind), kind, n)
				return
			}
			rec.Mu.Lock()
			defer rec.Mu.Unlock()
			var e weir.Event // the last of its kind: events of other kinds may follow
			for _, one := range rec.Events {
				if one.Kind == kind {
					e = one
				}
			}
			if e.Guard != "books" || e.Key != key || !errors.Is(e.Err, err) {
				s.Errorf("last event %+v; want %v of %q: %v", e, kind, key, err)
			}
		}
		want(weir.EventRefreshSkipped, 1, "b", nil)
		s.Until(125 * sec)
		gate.Shut.Store(true)
		s.Get("b") // nor a permit
		want(weir.EventRefreshSkipped, 2, "b", limit.ErrLimited)
		s.Get("new")
		want(weir.EventRefused, 1, "new", limit.ErrLimited)
		s.Until(200 * sec)
		s.Get("b")
		want(weir.EventStaleOnError, 1, "b", limit.ErrLimited)
		st := s.G.Stats()
		if st.Refusals != 2 || st.RefreshesSkipped != 2 || st.StaleOnError != 1 {
			s.Errorf("Stats: Refusals, RefreshesSkipped, StaleOnError = %d, %d, %d; want 2, 2, 1", st.Refusals, st.RefreshesSkipped, st.StaleOnError)
		}
	})
}

// A load that is given up while it waits for its permit is not a refusal.
func TestO2GivenUpInTheQueueIsNoRefusal(t *testing.T) {
	rec := &rig.Recorder{}
	c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	rig.Play(t, weir.Options{Observer: rec, Limiter: c}, func(s *rig.Scene) {
		s.Set(10*sec, nil)
		first := s.Ask("holds the permit")
		ctx, cancel := context.WithTimeout(s.Context(), sec)
		defer cancel()
		s.AskWith(ctx, "leaves")
		s.Until(2 * sec)
		st := s.G.Stats()
		if st.Refusals != 0 || st.Abandoned != 1 || st.Loads != 1 || rec.Count(weir.EventRefused) != 0 {
			s.Errorf("Stats: Refusals, Abandoned, Loads = %d, %d, %d, events %+v; want 0, 1, 1 and no refusal",
				st.Refusals, st.Abandoned, st.Loads, rec.Events)
		}
		<-first.Done
	})
}

func TestO2ObserverMayPanic(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 10 * sec, StaleIfError: time.Hour, Observer: boor{}}, func(s *rig.Scene) {
		s.Want(s.Get("k"), rig.Loaded(1)) // LoadStart, LoadEnd, Waited
		s.Set(0, rig.ErrDown)
		s.Until(20 * sec)
		s.Want(s.Get("k"), rig.StaleOnError(1, 20*sec, rig.ErrDown)) // and Event
		synctest.Wait()
		if n := s.G.Stats().ObserverPanics; n != 7 {
			s.Errorf("Stats().ObserverPanics = %d; want 7", n)
		}
	})
}

type boor struct{}

func (boor) LoadStart(context.Context, weir.LoadInfo) context.Context { panic("LoadStart") }
func (boor) LoadEnd(context.Context, weir.LoadInfo, weir.LoadEnd)     { panic("LoadEnd") }
func (boor) Waited(context.Context, weir.Wait)                        { panic("Waited") }
func (boor) Event(context.Context, weir.Event)                        { panic("Event") }

// LoadStart may return nil: the load then keeps its context.
func TestO2LoadStartMayReturnNil(t *testing.T) {
	rig.Play(t, weir.Options{Observer: careless{}}, func(s *rig.Scene) {
		s.Want(s.Get("k"), rig.Loaded(1))
	})
}

type careless struct{ weir.NopObserver }

func (careless) LoadStart(context.Context, weir.LoadInfo) context.Context { return nil }

func TestO2EventKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for k := weir.EventRefused; k <= weir.EventEvicted; k++ {
		if name := k.String(); name == "unknown" || name == "" || seen[name] {
			t.Errorf("EventKind(%d).String() = %q; want a name of its own", k, name)
		} else {
			seen[name] = true
		}
	}
	if got := weir.EventKind(200).String(); got != "unknown" || weir.EventKind(0).String() != "unknown" {
		t.Errorf("EventKind(200).String() = %q; want unknown", got)
	}
}
