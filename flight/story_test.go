package flight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

const ms = time.Millisecond

// A story is a test whose steps happen at given times on the clock of its bubble.
type story struct {
	*testing.T
	flight.Group[string, int]
	start time.Time
}

// tell runs f as a story in a bubble, which also checks that no goroutine leaks.
func tell(t *testing.T, f func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&story{T: t, start: time.Now()})
	})
}

func (s *story) now() time.Duration { return time.Since(s.start) }

// at sleeps until d after the start, and then until all other goroutines block.
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

// An answer is the result of a call, and when it returned.
type answer struct {
	flight.Result[int]
	at   time.Duration
	done chan struct{}
}

// ask makes a call on a new goroutine, and returns when it waits.
func (s *story) ask(ctx context.Context, key string, fn func(context.Context) (int, error)) *answer {
	a := &answer{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.Result = s.DoResult(ctx, key, fn)
		a.at = s.now()
	}()
	synctest.Wait()
	return a
}

// want waits for the answer and checks it.
func (s *story) want(a *answer, value int, err error, at time.Duration) {
	s.Helper()
	<-a.done
	if a.Value != value || !errors.Is(a.Err, err) || a.at != at {
		s.Errorf("answer = %d, %v at %v; want %d, %v at %v", a.Value, a.Err, a.at, value, err, at)
	}
}

// A run describes the end of a load.
type run struct {
	at    time.Duration // when it ended
	cause error         // of its context, nil if that had not ended
}

// load returns a function that takes d and returns v, unless it is canceled earlier. It
// reports its end to ends, if that is not nil.
func (s *story) load(d time.Duration, v int, ends chan<- run) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		if ends != nil {
			ends <- run{s.now(), context.Cause(ctx)}
		}
		return v, ctx.Err()
	}
}

// deaf returns a function that takes d, returns v and ignores its context.
func deaf(d time.Duration, v int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		return v, nil
	}
}

// unwanted is a load that must not run.
func (s *story) unwanted(context.Context) (int, error) {
	s.Error("a load ran that should not have")
	return 0, nil
}

// wantEnd checks when and why a load ended.
func (s *story) wantEnd(ends <-chan run, cause error, at time.Duration) {
	s.Helper()
	synctest.Wait()
	select {
	case r := <-ends:
		if r.cause != cause || r.at != at {
			s.Errorf("the load ended at %v, with cause %v; want %v, %v", r.at, r.cause, at, cause)
		}
	default:
		s.Errorf("at %v: the load is still running; want its end at %v", s.now(), at)
	}
}

// wantLen checks the number of flights that a caller could join.
func (s *story) wantLen(want int) {
	s.Helper()
	if n := s.Len(); n != want {
		s.Errorf("at %v: Len() = %d; want %d", s.now(), n, want)
	}
}
