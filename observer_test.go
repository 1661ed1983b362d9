package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A recorder is an Observer that records all calls.
type recorder struct {
	mu     sync.Mutex
	starts []weir.LoadInfo
	ends   []weir.LoadEnd
	endCtx []context.Context
	waits  []weir.Wait
	waiter []any // values of waitKey in the contexts of waits
	events []weir.Event
}

type (
	spanKey struct{}
	waitKey struct{}
)

var _ weir.Observer = (*recorder)(nil)

func (r *recorder) LoadStart(ctx context.Context, l weir.LoadInfo) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = append(r.starts, l)
	return context.WithValue(ctx, spanKey{}, fmt.Sprint("span ", len(r.starts)))
}

func (r *recorder) LoadEnd(ctx context.Context, _ weir.LoadInfo, end weir.LoadEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends, r.endCtx = append(r.ends, end), append(r.endCtx, ctx)
}

func (r *recorder) Waited(ctx context.Context, w weir.Wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits, r.waiter = append(r.waits, w), append(r.waiter, ctx.Value(waitKey{}))
}

func (r *recorder) Event(_ context.Context, e weir.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) count(kind weir.EventKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func TestO2ObserverSeesLoadsAndWaits(t *testing.T) {
	rec := &recorder{}
	var span any
	playFrom(t, weir.Options{Name: "books", TTL: time.Hour, Observer: rec}, func(src *weir.Source[string, int]) {
		load := src.LoadEntry
		src.LoadEntry = func(ctx context.Context, key string, p weir.Previous[int]) (weir.Entry[int], error) {
			span = ctx.Value(spanKey{})
			return load(ctx, key, p)
		}
	}, func(s *scene) {
		s.set(10*sec, nil)
		s.until(sec)
		s.askWith(context.WithValue(s.Context(), waitKey{}, "first"), "k")
		s.until(4 * sec)
		second := s.askWith(context.WithValue(s.Context(), waitKey{}, "second"), "k")
		<-second.done
		s.get("k") // a hit is not observed
		synctest.Wait()

		if span != "span 1" {
			s.Errorf("the load's context has %v; want what LoadStart put there", span)
		}
		if want := []weir.LoadInfo{{Guard: "books", Key: "k", Keys: 1}}; !slices.Equal(rec.starts, want) {
			s.Errorf("LoadStart got %+v; want %+v", rec.starts, want)
		}
		began := s.start.Add(sec)
		if len(rec.ends) != 1 || rec.ends[0] != (weir.LoadEnd{Start: began, Duration: 10 * sec}) {
			s.Errorf("LoadEnd got %+v; want one of 10s", rec.ends)
		} else if got := rec.endCtx[0].Value(spanKey{}); got != "span 1" {
			s.Errorf("LoadEnd's context has %v; want that of LoadStart", got)
		}
		if len(rec.waits) != 2 {
			s.Fatalf("Waited got %+v; want two", rec.waits)
		}
		for i, w := range rec.waits {
			joined, start, took := false, began, 10*sec
			if rec.waiter[i] == "second" {
				joined, start, took = true, s.start.Add(4*sec), 7*sec
			}
			if w.Guard != "books" || w.Joined != joined || w.Err != nil || !w.Start.Equal(start) || w.Duration != took {
				s.Errorf("Waited of %v got %+v; want joined %v, from %v for %v", rec.waiter[i], w, joined, start, took)
			}
			if w.Load == nil || w.Load.Value(spanKey{}) != "span 1" {
				s.Errorf("Waited of %v got the load's context %v; want that of LoadStart", rec.waiter[i], w.Load)
			}
		}
		if !slices.Contains(rec.waiter, any("first")) || !slices.Contains(rec.waiter, any("second")) {
			s.Errorf("Waited got contexts of %v; want those of the two calls", rec.waiter)
		}
		if len(rec.events) != 0 {
			s.Errorf("events %+v; want none", rec.events)
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
	}{{weir.ErrNotFound, weir.ClassNotFound}, {errDry, weir.ClassTransient}, {full, weir.ClassOverload}} {
		rec := &recorder{}
		play(t, weir.Options{Observer: rec, Classify: classify}, func(s *scene) {
			s.set(sec, row.err)
			s.get("k")
			synctest.Wait()
			if len(rec.ends) != 1 || !errors.Is(rec.ends[0].Err, row.err) || rec.ends[0].Class != row.class || rec.ends[0].Late {
				s.Errorf("LoadEnd got %+v; want %v, %v", rec.ends, row.err, row.class)
			}
			if len(rec.waits) != 1 || row.class != weir.ClassNotFound && !errors.Is(rec.waits[0].Err, row.err) {
				s.Errorf("Waited got %+v; want %v", rec.waits, row.err)
			}
		})
	}
	rec := &recorder{}
	play(t, weir.Options{Observer: rec, LoadTimeout: 5 * sec}, func(s *scene) {
		s.set(10*sec, nil)
		ctx, cancel := context.WithTimeoutCause(s.Context(), sec, errDry)
		defer cancel()
		s.askWith(ctx, "k")
		s.until(6 * sec)
		if rec.count(weir.EventAbandoned) != 1 || len(rec.ends) != 1 || !rec.ends[0].Late {
			s.Errorf("abandoned: events %+v, ends %+v; want one each, late", rec.events, rec.ends)
		}
		if len(rec.waits) != 1 || rec.waits[0].Err != errDry {
			s.Errorf("Waited got %+v; want the caller's cause", rec.waits)
		}
		s.get("k") // until the hard timeout
		synctest.Wait()
		if rec.count(weir.EventTimedOut) != 1 || len(rec.ends) != 2 || !rec.ends[1].Late {
			s.Errorf("timed out: events %+v, ends %+v; want one each, late", rec.events, rec.ends)
		}
	})
}

// The Observer gets a failed bulk load as one failed load.
func TestO2BulkLoadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		g := weir.Must(weir.NewFrom(weir.Source[int, int]{LoadMany: func(context.Context, []int) (map[int]int, error) {
			return map[int]int{1: 1}, errDry
		}}, weir.Options{Observer: rec}))
		g.GetMany(t.Context(), []int{1, 2, 3})
		synctest.Wait()
		if len(rec.starts) != 1 || rec.starts[0].Keys != 3 {
			t.Errorf("LoadStart got %+v; want one, of 3 keys", rec.starts)
		}
		if len(rec.ends) != 1 || !errors.Is(rec.ends[0].Err, errDry) || rec.ends[0].Class != weir.ClassTransient {
			t.Errorf("LoadEnd got %+v; want %v", rec.ends, errDry)
		}
		if st := g.Stats(); st.Loads != 1 || st.LoadFailures != 2 {
			t.Errorf("Stats: Loads, LoadFailures = %d, %d; want 1, 2: failures count by the key", st.Loads, st.LoadFailures)
		}
	})
}

func TestO2Events(t *testing.T) {
	rec, gate := &recorder{}, &gate{}
	o := fourInstants
	o.Observer, o.Limiter, o.MaxRefreshes, o.Name = rec, gate, 1, "books"
	play(t, o, func(s *scene) {
		s.prime("a")
		s.prime("b")
		s.set(10*sec, nil)
		s.until(110 * sec)
		s.get("a")
		s.get("b") // no place for its refresh
		want := func(kind weir.EventKind, n int, key string, err error) {
			s.Helper()
			synctest.Wait()
			if rec.count(kind) != n {
				s.Errorf("%d events %v; want %d", rec.count(kind), kind, n)
				return
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			var e weir.Event // the last of its kind: events of other kinds may follow
			for _, one := range rec.events {
				if one.Kind == kind {
					e = one
				}
			}
			if e.Guard != "books" || e.Key != key || !errors.Is(e.Err, err) {
				s.Errorf("last event %+v; want %v of %q: %v", e, kind, key, err)
			}
		}
		want(weir.EventRefreshSkipped, 1, "b", nil)
		s.until(125 * sec)
		gate.shut.Store(true)
		s.get("b") // nor a permit
		want(weir.EventRefreshSkipped, 2, "b", limit.ErrLimited)
		s.get("new")
		want(weir.EventRefused, 1, "new", limit.ErrLimited)
		s.until(200 * sec)
		s.get("b")
		want(weir.EventStaleOnError, 1, "b", limit.ErrLimited)
		st := s.g.Stats()
		if st.Refusals != 2 || st.RefreshesSkipped != 2 || st.StaleOnError != 1 {
			s.Errorf("Stats: Refusals, RefreshesSkipped, StaleOnError = %d, %d, %d; want 2, 2, 1", st.Refusals, st.RefreshesSkipped, st.StaleOnError)
		}
	})
}

// A load that is given up while it waits for its permit is not a refusal.
func TestO2GivenUpInTheQueueIsNoRefusal(t *testing.T) {
	rec := &recorder{}
	c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	play(t, weir.Options{Observer: rec, Limiter: c}, func(s *scene) {
		s.set(10*sec, nil)
		first := s.ask("holds the permit")
		ctx, cancel := context.WithTimeout(s.Context(), sec)
		defer cancel()
		s.askWith(ctx, "leaves")
		s.until(2 * sec)
		st := s.g.Stats()
		if st.Refusals != 0 || st.Abandoned != 1 || st.Loads != 1 || rec.count(weir.EventRefused) != 0 {
			s.Errorf("Stats: Refusals, Abandoned, Loads = %d, %d, %d, events %+v; want 0, 1, 1 and no refusal",
				st.Refusals, st.Abandoned, st.Loads, rec.events)
		}
		<-first.done
	})
}

func TestO2ObserverMayPanic(t *testing.T) {
	play(t, weir.Options{TTL: 10 * sec, StaleIfError: time.Hour, Observer: boor{}}, func(s *scene) {
		s.want(s.get("k"), loaded(1)) // LoadStart, LoadEnd, Waited
		s.set(0, errDry)
		s.until(20 * sec)
		s.want(s.get("k"), staleOnError(1, 20*sec, errDry)) // and Event
		synctest.Wait()
		if n := s.g.Stats().ObserverPanics; n != 7 {
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
	play(t, weir.Options{Observer: careless{}}, func(s *scene) {
		s.want(s.get("k"), loaded(1))
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
