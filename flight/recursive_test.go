package flight_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/flight"
)

// asks returns a load that asks for key, with fn, through its own context.
func (s *story) asks(key string, fn load) load {
	return func(ctx context.Context) (int, error) { return s.Do(ctx, key, fn) }
}

func TestF9OwnKey(t *testing.T) {
	tell(t, func(s *story) {
		s.want(s.ask(s.Context(), "k", s.asks("k", s.unwanted)), 0, flight.ErrRecursive, 0)
	})
}

func TestF9OwnKeyByEveryWay(t *testing.T) {
	for way, call := range ways {
		t.Run(way, func(t *testing.T) {
			tell(t, func(s *story) {
				r := call(s, func(ctx context.Context) (int, error) {
					if r := <-s.DoChan(ctx, "k", s.unwanted); r.Err != flight.ErrRecursive {
						s.Errorf("DoChan in the load: %v; want ErrRecursive", r.Err)
					}
					return s.Do(ctx, "k", s.unwanted)
				})
				if r.Value != 0 || r.Err != flight.ErrRecursive {
					s.Errorf("%s = %d, %v; want 0, ErrRecursive", way, r.Value, r.Err)
				}
			})
		})
	}
}

func TestF9OwnKeyThroughDerivedContexts(t *testing.T) {
	type tag struct{}
	derive := map[string]func(context.Context) context.Context{
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
	for name, f := range derive {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				s.want(s.ask(s.Context(), "k", func(ctx context.Context) (int, error) {
					return s.Do(f(ctx), "k", s.unwanted)
				}), 0, flight.ErrRecursive, 0)
			})
		})
	}
}

func TestF9Chain(t *testing.T) {
	tell(t, func(s *story) {
		chain := s.asks("b", s.asks("c", s.asks("a", s.unwanted)))
		s.want(s.ask(s.Context(), "a", chain), 0, flight.ErrRecursive, 0)
	})
}

func TestF9OtherKeysAndOtherGroupsAreFree(t *testing.T) {
	tell(t, func(s *story) {
		var other flight.Group[string, int]
		a := s.ask(s.Context(), "a", s.asks("b", func(ctx context.Context) (int, error) {
			return other.Do(ctx, "a", deaf(time.Second, 42))
		}))
		s.want(a, 42, nil, time.Second)
	})
}

func TestF9ChainOverTwoGroups(t *testing.T) {
	tell(t, func(s *story) {
		var other flight.Group[string, int]
		a := s.ask(s.Context(), "a", func(ctx context.Context) (int, error) {
			return other.Do(ctx, "a", s.asks("a", s.unwanted))
		})
		s.want(a, 0, flight.ErrRecursive, 0)
	})
}

// A load that is over is waited for by nobody, so what it left behind may ask
// for its key.
func TestF9AfterTheLoad(t *testing.T) {
	tell(t, func(s *story) {
		var left context.Context
		s.want(s.ask(s.Context(), "k", func(ctx context.Context) (int, error) {
			left = context.WithoutCancel(ctx)
			return 1, nil
		}), 1, nil, 0)
		s.want(s.ask(left, "k", deaf(time.Second, 2)), 2, nil, time.Second)
	})
}

func TestF9AfterAbandonment(t *testing.T) {
	tell(t, func(s *story) {
		done := make(chan struct{})
		s.ask(s.until(time.Second), "k", func(ctx context.Context) (int, error) {
			defer close(done)
			time.Sleep(2 * time.Second)
			if v, err := s.Do(ctx, "k", s.unwanted); v != 0 || err != flight.ErrAbandoned {
				s.Errorf("Do with the load's context = %d, %v; want 0 and its cause", v, err)
			}
			v, err := s.Do(context.WithoutCancel(ctx), "k", deaf(time.Second, 2))
			if v != 2 || err != nil {
				s.Errorf("Do without its cancellation = %d, %v; want 2, nil", v, err)
			}
			return 1, nil
		})
		<-done
	})
}

// Each of two loads asks for the other's key, so neither context descends from
// the other. The callers are held no longer than they said.
func TestF9CycleOverTwoCallersEndsByTimeout(t *testing.T) {
	tell(t, func(s *story) {
		// A load that does not bound its own waiting would wait for ever.
		asks := func(key string) load {
			return func(ctx context.Context) (int, error) {
				time.Sleep(ms)
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return s.Do(ctx, key, s.unwanted)
			}
		}
		a := s.ask(s.until(2*time.Second), "a", asks("b"))
		b := s.ask(s.until(3*time.Second), "b", asks("a"))
		s.want(a, 0, context.DeadlineExceeded, 2*time.Second)
		s.want(b, 0, context.DeadlineExceeded, 3*time.Second)
		s.at(2 * time.Minute)
		s.wantLen(0)
	})
}
