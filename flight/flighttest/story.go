package flighttest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// A story is one case, whose steps happen at given times on the clock of its bubble.
type story struct {
	*testing.T
	Group
	start time.Time
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

// cancelable returns a context and its cancel function, which also runs at the end of
// the story.
func (s *story) cancelable() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(s.Context())
	s.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}

// An answer is what a call returned, and when.
type answer struct {
	value  int
	joined bool
	err    error
	at     time.Duration
	done   chan struct{} // closed once the other fields are set
}

// ask calls Do on a new goroutine, and returns when the call waits.
func (s *story) ask(ctx context.Context, key any, load Load) *answer {
	a := &answer{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.value, a.joined, a.err = s.Do(ctx, key, load)
		a.at = s.now()
	}()
	synctest.Wait()
	return a
}

// want waits for the answer and checks it.
func (s *story) want(a *answer, value int, err error, at time.Duration) {
	s.Helper()
	<-a.done
	if a.value != value || !errors.Is(a.err, err) || a.at != at {
		s.Errorf("answer = %d, %v at %v; want %d, %v at %v", a.value, a.err, a.at, value, err, at)
	}
}

// A run describes the end of a load.
type run struct {
	at    time.Duration // when it ended
	cause error         // of its context, nil if that had not ended
}

// load returns a Load that takes d and returns v, unless it is canceled earlier. It
// reports its end to ends, if that is not nil.
func (s *story) load(d time.Duration, v int, ends chan<- run) Load {
	return func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		if ends != nil {
			ends <- run{s.now(), context.Cause(ctx)}
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return v, nil
	}
}

// deaf returns a Load that takes d, returns v and ignores its context.
func deaf(d time.Duration, v int) Load {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		return v, nil
	}
}

// unwanted is a Load that must not run.
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

// wantJoinable checks the number of flights that a caller could join.
func (s *story) wantJoinable(want int) {
	s.Helper()
	if n := s.Joinable(); n != want {
		s.Errorf("at %v: %d flights could be joined; want %d", s.now(), n, want)
	}
}
