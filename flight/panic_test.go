package flight_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/flight"
)

type load = func(context.Context) (int, error)

// ways are all ways to call a Group.
var ways = map[string]func(*story, load) flight.Result[int]{
	"Do": func(s *story, fn load) flight.Result[int] {
		v, err := s.Do(s.Context(), "k", fn)
		return flight.Result[int]{Value: v, Err: err}
	},
	"DoResult": func(s *story, fn load) flight.Result[int] {
		return s.DoResult(s.Context(), "k", fn)
	},
	"DoChan": func(s *story, fn load) flight.Result[int] {
		return <-s.DoChan(s.Context(), "k", fn)
	},
}

func explode(v any) { panic(v) }

// faults are all ways for a function not to return.
var faults = map[string]struct {
	fault func()
	is    func(error) bool
}{
	"panic": {
		func() { explode("boom") },
		func(err error) bool { return panicked(err, "boom") && errors.Unwrap(err) == nil },
	},
	"panic(nil)": {
		func() { explode(nil) },
		func(err error) bool {
			var null *runtime.PanicNilError
			return errors.As(err, &null)
		},
	},
	"panic(error)": {
		func() { explode(io.ErrUnexpectedEOF) },
		func(err error) bool { return panicked(err, io.ErrUnexpectedEOF) && errors.Is(err, io.ErrUnexpectedEOF) },
	},
	"runtime error": {
		func() { _ = any(1).(string) },
		func(err error) bool {
			var fault runtime.Error
			return errors.As(err, &fault)
		},
	},
	"Goexit": {
		runtime.Goexit,
		func(err error) bool { return err == flight.ErrGoexit },
	},
	"panic in Goexit": {
		func() {
			defer explode("late")
			runtime.Goexit()
		},
		func(err error) bool { return panicked(err, "late") },
	},
	"Goexit in panic": {
		func() {
			defer runtime.Goexit()
			explode("lost")
		},
		func(err error) bool { return err == flight.ErrGoexit },
	},
}

// panicked reports whether err tells of a panic with value, in explode.
func panicked(err error, value any) bool {
	var p *flight.PanicError
	return errors.As(err, &p) && p.Value == value && strings.Contains(string(p.Stack), "flight_test.explode")
}

func TestF6FaultReachesEveryJoiner(t *testing.T) {
	for fault, f := range faults {
		for way, call := range ways {
			t.Run(fault+"/"+way, func(t *testing.T) {
				tell(t, func(s *story) {
					var followers []*answer
					time.AfterFunc(ms, func() {
						for range 3 {
							a := &answer{done: make(chan struct{})}
							followers = append(followers, a)
							go func() {
								defer close(a.done)
								a.Result = call(s, s.unwanted)
							}()
						}
					})
					first := call(s, func(context.Context) (int, error) {
						time.Sleep(2 * ms)
						f.fault()
						return 1, nil
					})
					if first.Value != 0 || !f.is(first.Err) {
						s.Errorf("first caller: %d, %v; want 0 and the fault", first.Value, first.Err)
					}
					for _, a := range followers {
						<-a.done
						if a.Value != 0 || a.Err != first.Err {
							s.Errorf("follower: %d, %v; want 0 and the first caller's error", a.Value, a.Err)
						}
					}
					if len(followers) != 3 {
						s.Errorf("%d followers; want 3", len(followers))
					}
					s.wantLen(0)
					if r := call(s, deaf(ms, 42)); r.Value != 42 || r.Err != nil {
						s.Errorf("next caller: %d, %v; want 42, nil", r.Value, r.Err)
					}
				})
			})
		}
	}
}

func TestF6FaultAfterAbandonment(t *testing.T) {
	for fault, f := range faults {
		t.Run(fault, func(t *testing.T) {
			tell(t, func(s *story) {
				s.want(s.ask(s.until(ms), "k", func(context.Context) (int, error) {
					time.Sleep(3 * ms)
					f.fault()
					return 1, nil
				}), 0, context.DeadlineExceeded, ms)
				second := s.ask(s.Context(), "k", deaf(9*ms, 42))
				s.at(5 * ms) // the process lives
				s.want(second, 42, nil, 10*ms)
			})
		})
	}
}

func TestF6NilFunctionIsAPanic(t *testing.T) {
	tell(t, func(s *story) {
		var p *flight.PanicError
		if v, err := s.Do(s.Context(), "k", nil); v != 0 || !errors.As(err, &p) {
			s.Errorf("Do(nil) = %d, %v; want 0 and a PanicError", v, err)
		}
		s.wantLen(0)
	})
}

func TestF6PanicErrorPrintsValueAndStack(t *testing.T) {
	tell(t, func(s *story) {
		_, err := s.Do(s.Context(), "k", func(context.Context) (int, error) { panic("boom") })
		for _, part := range []string{"weir: ", "boom", "panic_test.go"} {
			if !strings.Contains(err.Error(), part) {
				s.Errorf("Error() = %q; want %q in it", err, part)
			}
		}
	})
}
