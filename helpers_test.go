package weir_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

const ms = time.Millisecond

var errDown = errors.New("the source is down")

// A story is a test told along the clock of its bubble.
type story struct {
	*testing.T
	start time.Time
}

// tell runs f as a story in a bubble, which also makes sure that no goroutine
// is left.
func tell(t *testing.T, f func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&story{T: t, start: time.Now()}) })
}

func (s *story) now() time.Duration { return time.Since(s.start) }

// at sleeps until d after the start, and waits until all goroutines that wake
// then block again.
func (s *story) at(d time.Duration) {
	time.Sleep(d - s.now())
	synctest.Wait()
}

// until returns a context that ends d after the start.
func (s *story) until(d time.Duration) context.Context {
	ctx, cancel := context.WithDeadline(s.Context(), s.start.Add(d))
	s.Cleanup(cancel)
	return ctx
}

// cancelable returns a context and its cancel function. The story's end cancels
// it too.
func (s *story) cancelable() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(s.Context())
	s.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}

// guard makes a Guard around load. At the story's end it is closed, and nothing
// may then run.
func (s *story) guard(load func(context.Context, string) (int, error), o weir.Options) *weir.Guard[string, int] {
	s.Helper()
	return guardFrom(s, weir.Source[string, int]{Load: load}, o)
}

// guardFrom is guard for any Source.
func guardFrom[K comparable, V any](s *story, src weir.Source[K, V], o weir.Options) *weir.Guard[K, V] {
	s.Helper()
	if *inFleetOfOne && o.Fleet.Tier == nil {
		o = ofOne(src, o)
	}
	g, err := weir.NewFrom(src, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			s.Errorf("Close = %v; want nil", err)
		}
		synctest.Wait()
		wantGauges(s, g, weir.Stats{})
	})
	return g
}

// wantGauges compares the current values in Stats.
func wantGauges[K comparable, V any](s *story, g *weir.Guard[K, V], want weir.Stats) {
	s.Helper()
	got := g.Stats()
	if got.Flights != want.Flights || got.Running != want.Running || got.Refreshing != want.Refreshing || got.Stuck != want.Stuck {
		s.Errorf("Flights, Running, Refreshing, Stuck = %d, %d, %d, %d; want %d, %d, %d, %d",
			got.Flights, got.Running, got.Refreshing, got.Stuck, want.Flights, want.Running, want.Refreshing, want.Stuck)
	}
}

// An answer is the result of a call, and its time.
type answer struct {
	weir.Result[int]
	at   time.Duration
	done chan struct{}
}

// ask makes a call on a new goroutine, and returns when it waits.
func (s *story) ask(call func() weir.Result[int]) *answer {
	a := &answer{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.Result = call()
		a.at = s.now()
	}()
	synctest.Wait()
	return a
}

// get calls GetResult with ask.
func (s *story) get(ctx context.Context, g *weir.Guard[string, int], key string) *answer {
	return s.ask(func() weir.Result[int] { return g.GetResult(ctx, key) })
}

// want waits for the answer and compares it. It returns the answer for further
// checks.
func (s *story) want(a *answer, value int, err error, at time.Duration) *answer {
	s.Helper()
	<-a.done
	if a.Value != value || !errors.Is(a.Err, err) || a.at != at {
		s.Errorf("answer = %d, %v at %v; want %d, %v at %v", a.Value, a.Err, a.at, value, err, at)
	}
	return a
}

// A mill is a source whose behaviour a story changes as it goes: each load uses
// the fields as they are when it begins. Its nth load returns n.
type mill struct {
	takes time.Duration
	deaf  bool  // ignores its context
	err   error // the error with which it ends
	runs  atomic.Int64
}

func (m *mill) load(ctx context.Context, _ string) (int, error) {
	n, err := int(m.runs.Add(1)), m.err
	var hung <-chan struct{}
	if !m.deaf {
		hung = ctx.Done()
	}
	timer := time.NewTimer(m.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hung:
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// wantRuns compares the number of loads that the mill has begun.
func (s *story) wantRuns(m *mill, want int64) {
	s.Helper()
	if n := m.runs.Load(); n != want {
		s.Errorf("%d loads; want %d", n, want)
	}
}

// entriesOf makes a LoadEntries of a LoadMany.
func entriesOf[K comparable, V any](many func(context.Context, []K) (map[K]V, error)) func(context.Context, []K, []weir.Previous[V]) (map[K]weir.Entry[V], error) {
	return func(ctx context.Context, keys []K, _ []weir.Previous[V]) (map[K]weir.Entry[V], error) {
		values, err := many(ctx, keys)
		entries := make(map[K]weir.Entry[V])
		for key, v := range values {
			entries[key] = weir.Entry[V]{Value: v}
		}
		return entries, err
	}
}
