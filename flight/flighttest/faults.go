package flighttest

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/weir-go/weir/flight"
)

func explode(v any) { panic(v) }

// A fault is a way in which a load can end without returning.
type fault struct {
	name string
	do   func()
	is   func(error) bool
}

var faults = []fault{
	{"panic",
		func() { explode("boom") },
		func(err error) bool { return panicked(err, "boom") && errors.Unwrap(err) == nil },
	},
	{"panic(nil)",
		func() { explode(nil) },
		func(err error) bool {
			var p *flight.PanicError
			return errors.As(err, &p) && is[*runtime.PanicNilError](p.Value)
		},
	},
	{"panic(error)",
		func() { explode(io.ErrUnexpectedEOF) },
		func(err error) bool {
			return panicked(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrUnexpectedEOF)
		},
	},
	{"runtime error",
		func() { _ = any(1).(string) },
		func(err error) bool {
			var p *flight.PanicError
			return errors.As(err, &p) && is[runtime.Error](p.Value)
		},
	},
	{"Goexit",
		runtime.Goexit,
		func(err error) bool { return err == flight.ErrGoexit },
	},
	{"panic in Goexit",
		func() {
			defer explode("late")
			runtime.Goexit()
		},
		func(err error) bool { return panicked(err, "late") },
	},
	{"Goexit in panic",
		func() {
			defer runtime.Goexit()
			explode("lost")
		},
		func(err error) bool { return err == flight.ErrGoexit },
	},
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// panicked reports whether err is a PanicError for a panic with value in explode.
func panicked(err error, value any) bool {
	var p *flight.PanicError
	return errors.As(err, &p) && p.Value == value && strings.Contains(string(p.Stack), "flighttest.explode")
}

func faultCases() []testCase {
	var all []testCase
	for _, f := range faults {
		all = append(all,
			testCase{name: "F6FaultReachesEveryJoiner/" + f.name, tell: f.reachesEveryJoiner},
			testCase{name: "F6FaultAfterAbandonment/" + f.name, tell: f.afterAbandonment})
	}
	return all
}

func (f fault) reachesEveryJoiner(s *story) {
	answers := []*answer{s.ask(s.Context(), "k", func(context.Context) (int, error) {
		time.Sleep(2 * ms)
		f.do()
		return 1, nil
	})}
	for range 3 {
		answers = append(answers, s.ask(s.Context(), "k", s.unwanted))
	}
	for i, a := range answers {
		<-a.done
		if a.value != 0 || !f.is(a.err) || a.err != answers[0].err || a.at != 2*ms {
			s.Errorf("caller %d: %d, %v at %v; want 0 and the same error for all callers at 2ms", i, a.value, a.err, a.at)
		}
	}
	s.wantJoinable(0)
	s.want(s.ask(s.Context(), "k", deaf(ms, 42)), 42, nil, 3*ms)
}

func (f fault) afterAbandonment(s *story) {
	s.want(s.ask(s.until(ms), "k", func(context.Context) (int, error) {
		time.Sleep(3 * ms)
		f.do()
		return 1, nil
	}), 0, context.DeadlineExceeded, ms)
	next := s.ask(s.Context(), "k", deaf(9*ms, 42))
	s.at(5 * ms) // the process is still alive
	s.want(next, 42, nil, 10*ms)
}

var failureCases = []testCase{
	{name: "F8OneFailureForAll", tell: func(s *story) {
		down := errors.New("down")
		answers := []*answer{s.ask(s.Context(), "k", func(context.Context) (int, error) {
			time.Sleep(300 * ms)
			return 0, down
		})}
		for range 9 {
			answers = append(answers, s.ask(s.Context(), "k", s.unwanted))
		}
		for _, a := range answers {
			s.want(a, 0, down, 300*ms)
			if a.err != down {
				s.Errorf("error = %v; want the load's error for all callers", a.err)
			}
		}
		s.wantJoinable(0)
		s.want(s.ask(s.Context(), "k", deaf(ms, 42)), 42, nil, 301*ms) // the error is not stored
	}},
}
