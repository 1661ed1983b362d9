package rig

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A Story is a test told along the clock of its bubble.
type Story struct {
	*testing.T
	Start time.Time
}

// Tell runs f as a story in a bubble, which also makes sure that no goroutine
// is left.
func Tell(t *testing.T, f func(s *Story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&Story{T: t, Start: time.Now()}) })
}

func (s *Story) Now() time.Duration { return time.Since(s.Start) }

// At sleeps until d after the start, and waits until all goroutines that wake
// then block again.
func (s *Story) At(d time.Duration) {
	time.Sleep(d - s.Now())
	synctest.Wait()
}

// Until returns a context that ends d after the start.
func (s *Story) Until(d time.Duration) context.Context {
	ctx, cancel := context.WithDeadline(s.Context(), s.Start.Add(d))
	s.Cleanup(cancel)
	return ctx
}

// Cancelable returns a context and its cancel function. The story's end cancels
// it too.
func (s *Story) Cancelable() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(s.Context())
	s.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}

// Guard makes a Guard around load. At the story's end it is closed, and nothing
// may then run.
func (s *Story) Guard(load func(context.Context, string) (int, error), o weir.Options) *weir.Guard[string, int] {
	s.Helper()
	return GuardFrom(s, weir.Source[string, int]{Load: load}, o)
}

// GuardFrom is guard for any Source.
func GuardFrom[K comparable, V any](s *Story, src weir.Source[K, V], o weir.Options) *weir.Guard[K, V] {
	s.Helper()
	if *FleetOfOne && o.Fleet.Tier == nil {
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
		WantGauges(s, g, weir.Stats{})
	})
	return g
}

// WantGauges compares the current values in Stats.
func WantGauges[K comparable, V any](s *Story, g *weir.Guard[K, V], want weir.Stats) {
	s.Helper()
	got := g.Stats()
	if got.Flights != want.Flights || got.Running != want.Running || got.Refreshing != want.Refreshing || got.Stuck != want.Stuck {
		s.Errorf("Flights, Running, Refreshing, Stuck = %d, %d, %d, %d; want %d, %d, %d, %d",
			got.Flights, got.Running, got.Refreshing, got.Stuck, want.Flights, want.Running, want.Refreshing, want.Stuck)
	}
}

// An Answer is the result of a call, and its time.
type Answer struct {
	weir.Result[int]
	At   time.Duration
	Done chan struct{}
}

// Ask makes a call on a new goroutine, and returns when it waits.
func (s *Story) Ask(call func() weir.Result[int]) *Answer {
	a := &Answer{Done: make(chan struct{})}
	go func() {
		defer close(a.Done)
		a.Result = call()
		a.At = s.Now()
	}()
	synctest.Wait()
	return a
}

// Get calls GetResult with ask.
func (s *Story) Get(ctx context.Context, g *weir.Guard[string, int], key string) *Answer {
	return s.Ask(func() weir.Result[int] { return g.GetResult(ctx, key) })
}

// Want waits for the answer and compares it. It returns the answer for further
// checks.
func (s *Story) Want(a *Answer, value int, err error, at time.Duration) *Answer {
	s.Helper()
	<-a.Done
	if a.Value != value || !errors.Is(a.Err, err) || a.At != at {
		s.Errorf("answer = %d, %v at %v; want %d, %v at %v", a.Value, a.Err, a.At, value, err, at)
	}
	return a
}

// WantRuns compares the number of loads that the mill has begun.
func (s *Story) WantRuns(m *Mill, want int64) {
	s.Helper()
	if n := m.Runs.Load(); n != want {
		s.Errorf("%d loads; want %d", n, want)
	}
}

// OnePermit returns a limiter for one load at a time.
func (s *Story) OnePermit() limit.Limiter {
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
	if err != nil {
		s.Fatal(err)
	}
	return l
}
