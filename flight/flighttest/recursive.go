package flighttest

import (
	"context"
	"time"

	"github.com/weir-go/weir/flight"
)

// asks returns a load that calls Do for key through its own context.
func (s *story) asks(key any, load Load) Load {
	return func(ctx context.Context) (int, error) {
		v, _, err := s.Do(ctx, key, load)
		return v, err
	}
}

type tag struct{}

// derived are ways in which a load can derive a context before it calls Do.
var derived = map[string]func(context.Context) context.Context{
	"WithValue":     func(ctx context.Context) context.Context { return context.WithValue(ctx, tag{}, 1) },
	"WithoutCancel": context.WithoutCancel,
	"WithTimeout": func(ctx context.Context) context.Context {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		context.AfterFunc(ctx, cancel)
		return ctx
	},
	"all of them": func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), tag{}, 1))
		time.AfterFunc(time.Second, cancel)
		return ctx
	},
}

var recursiveCases = []testCase{
	{name: "F9OwnKey", tell: func(s *story) {
		s.want(s.ask(s.Context(), "k", s.asks("k", s.unwanted)), 0, flight.ErrRecursive, 0)
	}},
	{name: "F9OwnKeyThroughDerivedContexts", tell: func(s *story) {
		for name, derive := range derived {
			start := s.now()
			a := s.ask(s.Context(), name, func(ctx context.Context) (int, error) {
				return s.asks(name, s.unwanted)(derive(ctx))
			})
			s.want(a, 0, flight.ErrRecursive, start)
		}
	}},
	{name: "F9OwnKeyOnAnotherGoroutine", tell: func(s *story) {
		s.want(s.ask(s.Context(), "k", func(ctx context.Context) (int, error) {
			errs := make(chan error)
			go func() {
				_, err := s.asks("k", s.unwanted)(ctx)
				errs <- err
			}()
			return 0, <-errs
		}), 0, flight.ErrRecursive, 0)
	}},
	{name: "F9Chain", tell: func(s *story) {
		chain := s.asks("b", s.asks("c", s.asks("a", s.unwanted)))
		s.want(s.ask(s.Context(), "a", chain), 0, flight.ErrRecursive, 0)
	}},
	{name: "F9OtherKeysAndOtherGroupsAreFree", tell: func(s *story) {
		var other flight.Group[string, int]
		a := s.ask(s.Context(), "a", s.asks("b", func(ctx context.Context) (int, error) {
			return other.Do(ctx, "a", deaf(time.Second, 42))
		}))
		s.want(a, 42, nil, time.Second)
	}},
	{name: "F9ChainOverTwoGroups", tell: func(s *story) {
		var other flight.Group[string, int]
		a := s.ask(s.Context(), "a", func(ctx context.Context) (int, error) {
			return other.Do(ctx, "a", s.asks("a", s.unwanted))
		})
		s.want(a, 0, flight.ErrRecursive, 0)
	}},
	// No caller waits for a load that has ended, so code that still has its context
	// can call Do for its key.
	{name: "F9AfterTheLoad", tell: func(s *story) {
		var left context.Context
		s.want(s.ask(s.Context(), "k", func(ctx context.Context) (int, error) {
			left = context.WithoutCancel(ctx)
			return 1, nil
		}), 1, nil, 0)
		s.want(s.ask(left, "k", deaf(time.Second, 2)), 2, nil, time.Second)
	}},
	{name: "F9AfterAbandonment", tell: func(s *story) {
		done := make(chan struct{})
		s.ask(s.until(time.Second), "k", func(ctx context.Context) (int, error) {
			defer close(done)
			time.Sleep(2 * time.Second)
			if v, err := s.asks("k", s.unwanted)(ctx); v != 0 || err != flight.ErrAbandoned {
				s.Errorf("Do with the load's context = %d, %v; want 0 and the context's cause", v, err)
			}
			if v, err := s.asks("k", deaf(time.Second, 2))(context.WithoutCancel(ctx)); v != 2 || err != nil {
				s.Errorf("Do with context.WithoutCancel = %d, %v; want 2, nil", v, err)
			}
			return 1, nil
		})
		<-done
	}},
	// Two loads call Do for each other's key, and neither context descends from the
	// other. Their callers still leave at their own deadlines.
	{name: "F9CycleOverTwoCallersEndsByTimeout", tell: func(s *story) {
		// A load that does not bound its own wait would wait forever.
		asks := func(key string) Load {
			return func(ctx context.Context) (int, error) {
				time.Sleep(ms)
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return s.asks(key, s.unwanted)(ctx)
			}
		}
		a := s.ask(s.until(2*time.Second), "a", asks("b"))
		b := s.ask(s.until(3*time.Second), "b", asks("a"))
		s.want(a, 0, context.DeadlineExceeded, 2*time.Second)
		s.want(b, 0, context.DeadlineExceeded, 3*time.Second)
		s.at(2 * time.Minute)
		s.wantJoinable(0)
	}},
}
